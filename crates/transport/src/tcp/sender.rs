//! The sending half: sequence variables, what may go now, and the retransmission timer. What acknowledgements and their
//! absence say about losses is in [`super::recovery`].

use std::collections::VecDeque;

use taut_core::{Event, Time};

use super::congestion::Congestion;
use super::flight::Flight;
use super::framing::{Outbox, Source};
use super::rack::Prr;
use super::sack::Scoreboard;
use super::undo::Undo;
use super::{CongestionControl, FullAck, PartialAck, TcpConfig, TcpStats};
use crate::rto::Rto;

/// The sending half of a connection. Sequence numbers are 64 bits wide and never wrap.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) source: Source,
    /// SND.UNA.
    pub(super) una: u64,
    /// SND.NXT: falls back to `una` after a timeout.
    pub(super) nxt: u64,
    /// The highest sequence number sent, and one.
    pub(super) max: u64,
    /// SND.WND, and the largest that it ever was.
    pub(super) window: u64,
    pub(super) window_max: u64,
    pub(super) smss: u64,
    pub(super) congestion: Congestion,
    /// What is under way, in what the window counts.
    pub(super) flight: Flight,
    pub(super) prr: Prr,
    /// What RACK's last recovery did, should it prove needless.
    pub(super) undo: Option<Undo>,
    /// Duplicates that the peer reported.
    pub(super) duplicates_reported: u64,
    pub(super) recovery: Recovery,
    /// `recover` of RFC 6582, RecoveryPoint of RFC 6675: `max` when the last loss was noticed.
    pub(super) recover: u64,
    /// `una` before the last acknowledgement that moved it (RFC 6582 section 4.1).
    pub(super) previous_una: u64,
    /// Duplicate acknowledgements in a row.
    pub(super) duplicates: u32,
    /// What limited transmit sent since the first of them.
    pub(super) limited: u64,
    /// The window held something back lately, and until what is acknowledged that counts.
    pub(super) limited_then: bool,
    pub(super) limited_until: u64,
    pub(super) most_under_way: u64,
    /// What was under way at most since it held nothing back.
    pub(super) used: Used,
    /// There when both ends permit SACK.
    pub(super) board: Option<Scoreboard>,
    pub(super) rto: Rto,
    /// When the retransmission timer expires. Without anything outstanding it is the persist timer.
    pub(super) timer: Option<Time>,
    /// Timeouts without an acknowledgement between them.
    pub(super) timeouts_in_a_row: u32,
    /// The segment whose round trip is measured: its end and when it was sent, once (RFC 6298 section 3).
    pub(super) timed: Option<(u64, Time)>,
    /// The first unacknowledged segment is due again.
    pub(super) resend: bool,
    /// When RACK's patience with what is late ends, and when the tail is probed.
    pub(super) reordering: Option<Time>,
    /// What filled the last gap had only been late: what else is taken for lost does not go again yet.
    pub(super) in_doubt: bool,
    pub(super) probe_at: Option<Time>,
    /// A probe is due; one was sent since the last acknowledgement.
    pub(super) tail_probe: bool,
    pub(super) probed: bool,
    /// One byte is due although the window has no room (RFC 9293 section 3.8.6.1).
    probe: bool,
    last_sent: Time,
    /// Nothing will be added: FIN follows the last byte.
    pub(super) closing: bool,
    /// Sequence number of FIN once it was sent.
    pub(super) fin: Option<u64>,
    pub(super) policy: Policy,
    pub(super) stats: TcpStats,
}

/// How much of the window was used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    pub(super) since: Time,
    pub(super) most: u64,
}

/// What the configuration says about sending.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    pub(super) control: CongestionControl,
    pub(super) full_ack: FullAck,
    pub(super) partial_ack: PartialAck,
    pub(super) ack_heuristic: bool,
    /// RACK-TLP and PRR: asked for, and the peer permits SACK.
    pub(super) rack: bool,
    limited_transmit: bool,
    nagle: bool,
    restart_after_idle: bool,
}

/// What is being done about losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    /// Nothing, or going back after a timeout.
    Open,
    /// Fast recovery (RFC 5681 section 3.2, RFC 6582).
    Fast {
        /// A partial acknowledgement was seen.
        partial: bool,
    },
    /// Recovery with SACK (RFC 6675; with RACK, RFC 8985 and 6937).
    Sack,
    /// With RACK: slow start after a timeout.
    Loss,
}

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) seq: u64,
    /// Bytes of data.
    pub(super) len: u64,
    pub(super) fin: bool,
    /// Nothing follows for now.
    pub(super) push: bool,
}

impl Segment {
    /// The sequence number after it.
    pub(super) fn end(&self) -> u64 {
        self.seq + self.len + u64::from(self.fin)
    }
}

impl Sender {
    pub(super) fn new(config: &TcpConfig, initial: u64) -> Self {
        let smss = u64::from(config.mss);
        Self {
            source: Source::Messages(Outbox::new(config.send_buffer, config.max_message)),
            una: initial,
            nxt: initial,
            max: initial,
            window: 0,
            window_max: 0,
            smss,
            congestion: Congestion::new(config, smss),
            flight: Flight::new(config.counted, smss),
            prr: Prr::default(),
            undo: None,
            duplicates_reported: 0,
            recovery: Recovery::Open,
            recover: initial,
            previous_una: initial,
            duplicates: 0,
            limited: 0,
            limited_then: false,
            limited_until: 0,
            most_under_way: 0,
            used: Used::default(),
            board: None,
            rto: Rto::new(config.initial_rto, config.min_rto, config.max_rto).margin(config.rto_margin()),
            timer: None,
            timeouts_in_a_row: 0,
            timed: None,
            resend: false,
            reordering: None,
            in_doubt: false,
            probe_at: None,
            tail_probe: false,
            probed: false,
            probe: false,
            last_sent: Time::ZERO,
            closing: false,
            fin: None,
            policy: Policy {
                control: config.congestion,
                full_ack: config.full_ack,
                partial_ack: config.partial_ack,
                ack_heuristic: config.ack_heuristic,
                rack: false,
                limited_transmit: config.limited_transmit,
                nagle: config.nagle,
                restart_after_idle: config.restart_after_idle,
            },
            stats: TcpStats::default(),
        }
    }

    /// The peer has acknowledged the SYN.
    pub(super) fn establish(&mut self, now: Time, config: &TcpConfig, smss: u64, window: u64, sack: bool) {
        self.una += 1;
        self.nxt = self.una;
        self.max = self.una;
        self.window = window;
        self.window_max = window;
        self.smss = smss;
        self.congestion = Congestion::new(config, smss);
        self.policy.rack = config.rack && sack;
        self.flight = Flight::new(config.counted, smss);
        self.board = sack.then(Scoreboard::default);
        if self.timeouts_in_a_row > 0 {
            self.congestion.after_lost_syn();
            self.rto.after_lost_syn();
        }
        self.timer = None;
        self.timeouts_in_a_row = 0;
        self.last_sent = now;
    }

    /// The next segment that may go.
    pub(super) fn poll(&mut self, now: Time, events: &mut VecDeque<Event>) -> Option<Segment> {
        if let Some(board) = &self.board
            && self.nxt < self.max
        {
            self.nxt = board.next_unreported(self.nxt);
        }
        let segment = if std::mem::take(&mut self.resend) && self.una < self.max {
            self.head()
        } else if self.nxt < self.max {
            self.next_after_timeout()?
        } else if let Some(probe) = self.next_probe(now, events) {
            probe
        } else if self.policy.rack && self.recovery != Recovery::Open {
            self.next_by_rack(now, events)?
        } else if self.recovery == Recovery::Sack {
            self.next_by_sack(now, events)?
        } else {
            self.next_by_window(now, events)?
        };
        self.on_sent(now, &segment);
        Some(segment)
    }

    /// Appends the data of `segment`; gives the zeros that follow.
    pub(super) fn write(&mut self, segment: &Segment, buffer: &mut Vec<u8>) -> u32 {
        self.source.write(segment.seq - self.una, segment.len, buffer)
    }

    /// Is a loss being repaired without a timeout?
    pub(super) fn in_recovery(&self) -> bool {
        matches!(self.recovery, Recovery::Fast { .. } | Recovery::Sack)
    }

    /// Everything that was sent is acknowledged, FIN too.
    pub(super) fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.una > fin)
    }

    /// FlightSize: what was sent and not acknowledged. What the peer reported does not count while a timeout is made good.
    pub(super) fn flight(&self) -> u64 {
        if self.policy.rack {
            return self.flight.pipe();
        }
        let reported = match &self.board {
            Some(board) if self.una < self.recover && !board.is_empty() => {
                board.sacked_below(self.nxt, &self.flight)
            }
            _ => 0,
        };
        self.flight.weigh(self.una, self.nxt).saturating_sub(reported)
    }

    /// The first segment that is not acknowledged, as far as the peer does not have it.
    pub(super) fn head(&self) -> Segment {
        let end =
            self.board.as_ref().and_then(|board| board.hole(self.una)).map_or(self.max, |hole| hole.end);
        self.again(self.una, end)
    }

    /// A segment of what was sent already, from `seq` up to `end` at most.
    pub(super) fn again(&self, seq: u64, end: u64) -> Segment {
        let data_end = self.fin.unwrap_or(self.max);
        let len = (seq + self.smss).min(end).min(data_end) - seq;
        let fin = self.fin == Some(seq + len) && end > seq + len;
        Segment { seq, len, fin, push: seq + len == data_end }
    }

    /// Going back to what a timeout found missing, in slow start.
    fn next_after_timeout(&self) -> Option<Segment> {
        let end =
            self.board.as_ref().and_then(|board| board.hole(self.nxt)).map_or(self.max, |hole| hole.end);
        let segment = self.again(self.nxt, end);
        let flight = self.flight() + self.flight.segment(segment.len);
        let fits = flight <= self.congestion.cwnd && segment.end() <= self.una + self.window;
        (fits || self.nxt == self.una).then_some(segment)
    }

    fn next_by_window(&mut self, now: Time, events: &mut VecDeque<Event>) -> Option<Segment> {
        let flight = self.flight();
        if flight == 0 {
            self.congestion.pause(now);
            if self.policy.restart_after_idle && now.saturating_since(self.last_sent) > self.rto.get() {
                self.congestion.restart_after_idle();
            }
        }
        // RFC 3042 section 2: one segment more for each of the first two duplicates.
        let more = match (self.recovery, self.duplicates) {
            // With RACK what was reported is not in flight, which comes to the same.
            (Recovery::Open, 1 | 2) if self.policy.limited_transmit && !self.policy.rack => {
                u64::from(self.duplicates) * self.smss
            }
            _ => 0,
        };
        let segment = self.next_new(now, (self.congestion.cwnd + more).saturating_sub(flight), events)?;
        if more > 0 {
            self.limited += self.flight.segment(segment.len);
        }
        Some(segment)
    }

    /// New data, when `room` of the congestion window and the peer's window have place for it. Avoids silly windows
    /// (RFC 9293 section 3.8.6.2.1): a segment goes when it is full, or holds all there is, or half of the peer's
    /// largest window.
    pub(super) fn next_new(&mut self, now: Time, room: u64, events: &mut VecDeque<Event>) -> Option<Segment> {
        let probe = std::mem::take(&mut self.probe);
        let room = self.flight.fits(room);
        let idle = self.max == self.una;
        let window = (self.una + self.window).saturating_sub(self.max);
        if self.fin.is_some() || (room.min(window) == 0 && !idle && !self.closing) {
            return None;
        }
        let mut len = self.source.available(now, self.max - self.una, self.smss, events);
        if len == 0 {
            if self.closing {
                self.fin = Some(self.max);
                return Some(Segment { seq: self.max, len, fin: true, push: true });
            }
            return None;
        }
        if self.policy.nagle && len < self.smss && !idle {
            return None;
        }
        if len > room.min(window) {
            // Less than there is goes only when it is the peer's window that is short.
            len = match window {
                0 => u64::from(probe),
                _ if window <= room && (probe || window * 2 >= self.window_max) => window,
                _ => 0,
            };
            if len == 0 {
                self.persist(now, idle);
                return None;
            }
        }
        Some(Segment { seq: self.max, len, fin: false, push: len < self.smss })
    }

    /// The window has no room and nothing is outstanding that an acknowledgement would answer.
    fn persist(&mut self, now: Time, idle: bool) {
        if idle && self.timer.is_none() {
            self.timer = Some(now + self.rto.get());
        }
    }

    fn on_sent(&mut self, now: Time, segment: &Segment) {
        let end = segment.end();
        self.stats.segments_sent += 1;
        if segment.seq < self.max {
            self.stats.retransmitted += 1;
            self.stats.fast_retransmits += u64::from(self.in_recovery());
            self.remember_retransmission(now);
            self.timed = None; // Karn's algorithm: which copy an acknowledgement answers is not known.
        } else if self.timed.is_none() {
            self.timed = Some((end, now));
        }
        self.flight.sent(now, segment.seq, end);
        self.prr.sent(self.flight.segment(segment.len));
        self.max = self.max.max(end);
        if segment.seq == self.nxt {
            self.nxt = end;
        }
        if self.timer.is_none() {
            self.timer = Some(now + self.rto.get());
        }
        self.last_sent = now;
        self.schedule_probe(now);
    }

    /// The retransmission timer expired (RFC 6298 section 5, RFC 5681 section 3.1): everything outstanding counts as
    /// lost but what the peer reported, unless that did not help the first time.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.timer.is_none_or(|at| now < at) {
            return;
        }
        self.rto.back_off();
        self.timer = Some(now + self.rto.get());
        if self.una == self.max {
            self.probe = true;
            return;
        }
        self.stats.timeouts += 1;
        self.timeouts_in_a_row += 1;
        let first = self.timeouts_in_a_row == 1;
        // Fast recovery reduced the window for these losses already.
        let reduce = first && !self.in_recovery();
        self.congestion.on_timeout(self.before_loss(), reduce);
        if let Some(board) = &mut self.board {
            board.high_rxt = 0;
            if !first {
                board.forget(); // The peer may have thrown it away (RFC 2018 section 8).
            }
        }
        if self.policy.rack {
            self.lose_all(now, !first);
        } else {
            self.recovery = Recovery::Open;
            self.recover = self.max;
            self.nxt = self.una;
        }
        self.timed = None;
        self.resend = false;
        self.duplicates = 0;
        self.limited = 0;
    }
}
