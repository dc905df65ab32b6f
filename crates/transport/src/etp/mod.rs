//! ETP: datagrams with a gap kept between them.
//!
//! The **inter-packet gap** plays the part of TCP's window: wider under congestion, narrower on a free path, so that a
//! haptic flow keeps its rate within the bandwidth that there is. [`Etp`] is UDP with that gap; [`Gap`] keeps the same
//! gap over any other transport, for instance over [`tcp`](crate::tcp), where the source shows that it does not help.
//!
//! # What waits, and what goes
//! The gap is the least time between two data packets. While it is closed, at most the newest sample of each stream, series and
//! priority waits; the one that it replaces is dropped as superseded and counted. With [`EtpConfig::pack`] they all wait, as far
//! as one datagram can hold them, and go together. When the gap opens, the most urgent goes first. With a gap chosen for a
//! session ([`EtpConfig::gap`]), a packet carries the newest sample of each series together with all else that waits.
//! Reliable messages, and those of a priority beyond samples' (3 and more), are never superseded; reliable ones go before
//! samples of their priority, in order; like everything here,
//! they are sent once. A transport that repeats them is [`tcp`](crate::tcp); IRTP's split, crucial data there and the
//! rest here, is a session over two transports (see [`udp`](crate::udp)).
//!
//! Deadlines are checked when a message is offered and again when it goes.
//!
//! # The source's cycle
//! The source's sender makes two packets every 8 ms, and with a gap *g* its *cycle* is 8 ms + g (1 ms: 0.9 Mbit/s): the
//! gap slows the device down, so nothing waits and nothing is superseded. That is a property of the device, not of the
//! transport: a traffic source with period 8 ms + g reproduces it over [`udp`](crate::udp). Here the device keeps its
//! rate, and the gap is between packets.
//!
//! # The gap that follows the path
//! With [`Mode::Adaptive`] every packet asks for feedback. The receiver echoes the sender's clock with the time that it
//! held it, and counts what is missing; from that the sender knows RTT and loss, widens and narrows the gap
//! ([`Adaptive`]), and reports it as the gauge `gap_ms`, with `srtt_ms`. What the gap costs is in the gauges
//! `offered_hz` and `sent_hz`, once a second, and in [`Etp::stats`].
//!
//! Source: Wirz, Ferre, Marín et al., EuroHaptics 2008; Lee, Payandeh, Trajković, *Performance Evaluation of Transport
//! Protocols for Internet-Based Teleoperation Systems*. Packet format: [`taut_wire::etp`].
//!
//! ```
//! use taut_core::{Duration, Event, Message, Time, Transport};
//! use taut_transport::etp::{Etp, EtpConfig};
//!
//! let mut etp = Etp::new(EtpConfig::fixed(Duration::from_millis(4)))?;
//! let sample = |tag| Message { data: vec![0; 100], tag, ..Message::default() };
//! let mut datagram = Vec::new();
//! etp.send(Time::ZERO, sample(1))?;
//! assert!(etp.poll_transmit(Time::ZERO, &mut datagram).is_some());
//! etp.send(Time::ZERO + Duration::from_millis(1), sample(2))?;
//! etp.send(Time::ZERO + Duration::from_millis(2), sample(3))?; // supersedes 2
//! let opens = etp.poll_timeout().expect("3 waits").at;
//! assert_eq!(opens, Time::ZERO + Duration::from_millis(4));
//! assert!(etp.poll_transmit(opens, &mut datagram).is_some());
//! assert_eq!(etp.stats().sampling.superseded, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
mod control;
mod gap;
mod gate;
mod receiver;
mod rtt;

use std::collections::VecDeque;

use taut_core::{
    Bitrate, Bytes, Datagram, Deadline, DropCause, Duration, Event, Message, PathId, SendError, StreamId,
    Time, Transmit, Transport, Waiting, earliest,
};
use taut_wire::etp::{
    DATA_HEADER_LEN, Data, Feedback, GAP_UNIT_NS, MESSAGE_HEADER_LEN, Packet, emit_message,
};

pub use config::{Adaptive, ConfigError, EtpConfig, FORCE_GAP, GapChoice, MAX_GAP, MOTION_GAP, Mode};
use control::Control;
pub use gap::Gap;
pub use gate::Sampling;
use gate::{Gate, GateConfig};
use receiver::{Receiver, Source};

use crate::peer::Peer;
use crate::udp::whole;

/// One end of an ETP conversation. Both ends may send data; each reports on what it receives.
#[derive(Debug)]
pub struct Etp {
    config: EtpConfig,
    gate: Gate,
    pace: Pace,
    receiver: Receiver,
    peer: Peer,
    /// Number of the next data packet, counted from 0 and never wrapping.
    next_sequence: u64,
    highest_reported: Option<u64>,
    last_feedback: Option<Feedback>,
    counters: Counters,
    events: VecDeque<Event>,
}

#[derive(Debug)]
enum Pace {
    Fixed(Duration),
    Adaptive(Box<Control>),
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    feedback_sent: u64,
    feedback_received: u64,
    refused: u64,
}

/// What went through an [`Etp`], and what it knows of the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EtpStats {
    /// The gap now.
    pub gap: Duration,
    /// What the gap cost.
    pub sampling: Sampling,
    /// Data packets sent.
    pub packets_sent: u64,
    /// Data packets received, each once.
    pub packets_received: u64,
    /// Data packets of the peer that are missing.
    pub packets_missing: u64,
    /// Reports sent.
    pub feedback_sent: u64,
    /// Reports received and used.
    pub feedback_received: u64,
    /// Datagrams that were of no use.
    pub refused: u64,
    /// Smoothed RTT; `None` before the first report, and with a fixed gap.
    pub smoothed_rtt: Option<Duration>,
    /// Its minimum over the window; `None` as above.
    pub min_rtt: Option<Duration>,
    /// Smoothed loss, a fraction in [0, 1]; `None` with a fixed gap.
    pub loss: Option<f64>,
}

impl Etp {
    /// An endpoint; nothing has to be set up, so it is connected from the start.
    ///
    /// # Errors
    /// When a setting is outside its range.
    pub fn new(config: EtpConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let payload = config.max_datagram.get() as usize - DATA_HEADER_LEN;
        let gate = Gate::new(GateConfig {
            limit: config.queue,
            pack: (config.pack && !config.newest).then_some(payload),
            overhead: MESSAGE_HEADER_LEN,
            urgent: config.urgent,
            tolerance: config.tolerance,
        });
        let pace = match config.mode {
            Mode::Fixed { gap } => Pace::Fixed(gap),
            Mode::Adaptive(adaptive) => Pace::Adaptive(Box::new(Control::new(adaptive))),
        };
        let mut this = Self {
            config,
            gate,
            pace,
            receiver: Receiver::new(config.feedback_interval),
            peer: Peer::default(),
            next_sequence: 0,
            highest_reported: None,
            last_feedback: None,
            counters: Counters::default(),
            events: VecDeque::from([Event::Connected]),
        };
        this.report_gap(Duration::MAX);
        Ok(this)
    }

    /// The end that waits: it answers where it is asked from.
    ///
    /// # Errors
    /// When a setting is outside its range.
    pub fn waiting(config: EtpConfig) -> Result<Self, ConfigError> {
        Ok(Self { peer: Peer::waiting(), ..Self::new(config)? })
    }

    /// What went through it, and what it knows of the path.
    pub fn stats(&self) -> EtpStats {
        let (packets_received, packets_missing) = self.receiver.counts();
        let control = match &self.pace {
            Pace::Fixed(_) => None,
            Pace::Adaptive(control) => Some(control),
        };
        EtpStats {
            gap: self.gap(),
            sampling: self.gate.sampling(),
            packets_sent: self.next_sequence,
            packets_received,
            packets_missing,
            feedback_sent: self.counters.feedback_sent,
            feedback_received: self.counters.feedback_received,
            refused: self.counters.refused,
            smoothed_rtt: control.and_then(|control| control.rtt().smoothed()),
            min_rtt: control.and_then(|control| control.rtt().min()),
            loss: control.map(|control| control.loss()),
        }
    }

    /// The gap that is kept now.
    pub fn gap(&self) -> Duration {
        match &self.pace {
            Pace::Fixed(gap) => *gap,
            Pace::Adaptive(control) => control.gap(),
        }
    }

    /// The longest message.
    fn limit(&self) -> usize {
        self.config.max_datagram.get() as usize - DATA_HEADER_LEN
    }

    fn report_gap(&mut self, before: Duration) {
        let gap = self.gap();
        if gap != before {
            self.events.push_back(Event::Gauge { name: "gap_ms", value: gap.as_millis_f64() });
        }
    }

    fn refuse(&mut self, cause: DropCause) {
        self.counters.refused += 1;
        self.events.push_back(Event::Refused(cause));
    }

    fn handle_data(&mut self, now: Time, path: PathId, data: &Data<'_>) {
        let moved = self.peer.heard(now, path);
        let from = match self.peer.is_at(path) {
            true => Source::Peer { moved: moved.then_some(path) },
            false => Source::Elsewhere(path),
        };
        if let Err(cause) = self.receiver.accept(now, from, data) {
            return self.refuse(cause);
        }
        for message in data.messages().filter_map(Result::ok) {
            self.events.push_back(Event::Received { data: message.to_vec(), path, stream: StreamId(0) });
        }
    }

    fn handle_feedback(&mut self, now: Time, feedback: Feedback) {
        let Pace::Adaptive(control) = &mut self.pace else {
            return self.refuse(DropCause::Malformed); // nobody asked
        };
        // How far the report is behind the next number: 1 when everything arrived.
        let behind = u64::from((self.next_sequence as u32).wrapping_sub(feedback.highest));
        if behind == 0 || behind > self.next_sequence {
            return self.refuse(DropCause::Malformed);
        }
        let highest = Some(self.next_sequence - behind);
        if self.last_feedback == Some(feedback) {
            return self.refuse(DropCause::Duplicate);
        }
        if highest < self.highest_reported {
            return self.refuse(DropCause::TooLate); // a later report overtook it
        }
        self.highest_reported = highest;
        self.last_feedback = Some(feedback);
        self.counters.feedback_received += 1;
        let (before, srtt_before) = (control.gap(), control.rtt().smoothed());
        control.on_feedback(now, clock_us(now), feedback, behind == 1);
        let srtt = control.rtt().smoothed();
        if let Some(srtt) = srtt.filter(|_| srtt != srtt_before) {
            self.events.push_back(Event::Gauge { name: "srtt_ms", value: srtt.as_millis_f64() });
        }
        self.report_gap(before);
    }

    /// Writes one data packet with what [`Gate::pass`] let through.
    fn emit_data(&mut self, now: Time, buffer: &mut Vec<u8>) {
        let limit = self.limit();
        let Some(first) = self.gate.next(limit) else { return };
        let packed = self.config.pack
            && self
                .gate
                .next_len()
                .is_some_and(|second| 2 * MESSAGE_HEADER_LEN + first.data.len() + second <= limit);
        let header = Data {
            packed,
            feedback_wanted: matches!(self.pace, Pace::Adaptive(_)),
            gap_units: u16::try_from(self.gap().as_nanos() / GAP_UNIT_NS).unwrap_or(u16::MAX),
            sequence: self.next_sequence as u32,
            clock_us: clock_us(now),
            payload: if packed { &[] } else { &first.data },
        };
        let begin = buffer.len();
        header.emit(buffer);
        if packed {
            emit_message(&first.data, buffer);
            let end = begin + DATA_HEADER_LEN + limit;
            while let Some(message) = self.gate.next((end - buffer.len()).saturating_sub(MESSAGE_HEADER_LEN))
            {
                emit_message(&message.data, buffer);
                if end - buffer.len() < MESSAGE_HEADER_LEN {
                    break;
                }
            }
        }
        self.next_sequence += 1;
        if let Pace::Adaptive(control) = &mut self.pace {
            control.on_sent(now);
        }
    }
}

impl Transport for Etp {
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        if message.data.len() > self.limit() {
            let size = Bytes::new(message.data.len() as u64);
            return Err(SendError::TooLarge { size, limit: Bytes::new(self.limit() as u64) });
        }
        let gap = self.gap();
        self.gate.offer(now, gap, message)
    }

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        let padded = match input.padding {
            0 => None,
            _ => whole(&input, self.config.max_datagram),
        };
        let bytes = padded.as_deref().unwrap_or(input.data);
        let fits = bytes.len() == input.data.len() + input.padding as usize
            && bytes.len() as u64 <= self.config.max_datagram.get();
        match Packet::parse(bytes) {
            Ok(Packet::Data(data)) if fits => self.handle_data(now, input.path, &data),
            Ok(Packet::Feedback(feedback)) if fits => self.handle_feedback(now, feedback),
            _ => self.refuse(DropCause::Malformed),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        let before = self.gap();
        if let Pace::Adaptive(control) = &mut self.pace {
            control.handle_timeout(now);
        }
        self.report_gap(before);
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(feedback) = self.receiver.report(now) {
            self.counters.feedback_sent += 1;
            feedback.emit(buffer);
            return Some(Transmit { path: self.peer.path(), ..Transmit::default() });
        }
        if !self.gate.pass(now, self.gap()) {
            return None;
        }
        self.emit_data(now, buffer);
        Some(Transmit { path: self.peer.path(), ..Transmit::default() })
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front().or_else(|| self.gate.poll_event())
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let feedback = self.receiver.poll_timeout().map(|at| Deadline::new(at, "feedback"));
        let silence = match &self.pace {
            Pace::Fixed(_) => None,
            Pace::Adaptive(control) => control.poll_timeout().map(|at| Deadline::new(at, "silence")),
        };
        earliest(earliest(self.gate.poll_timeout(self.gap()), feedback), silence)
    }

    fn close(&mut self, _: Time) {}

    fn abandon(&mut self) {
        self.gate.abandon();
    }

    taut_core::ignores_paths!();

    fn uses_path(&self, path: PathId) -> bool {
        self.peer.is_at(path)
    }

    fn round_trip(&self) -> Option<Duration> {
        None
    }

    fn send_rate(&self) -> Option<Bitrate> {
        None
    }

    fn delivered(&self) -> Option<u64> {
        None
    }

    fn waiting(&self) -> Waiting {
        self.gate.waiting()
    }
}

/// The clock field: microseconds, modulo 2³².
fn clock_us(now: Time) -> u32 {
    (now.as_nanos() / 1_000) as u32
}
