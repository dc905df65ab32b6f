//! DCCP (RFC 4340): datagrams with congestion control, without repetition or order.
//!
//! A message is one packet: what is lost stays lost, so what arrives is never late because of something older. How fast
//! messages may go is decided by one of two profiles, which the two ends agree on for each direction:
//!
//! | profile | what it keeps | source |
//! | --- | --- | --- |
//! | [`Ccid::TcpLike`] | a window of packets in flight, halved once for each window with a loss | RFC 4341 |
//! | [`Ccid::Tfrc`] | a rate, from the TCP throughput equation and the loss event rate | RFC 4342, RFC 5348 |
//!
//! # What waits, and what goes
//! A message waits while the profile holds it back. The most urgent goes first; an emergency goes ahead of everything, and
//! one packet in 100 ms goes for it beyond what the profile allows: after an outage that would be nothing for up to 4 s (CCID 3: for as long
//! again). When too many wait, the oldest of the least urgent is dropped as superseded, and
//! of samples of one stream, series and priority (but emergencies) only the newest few are kept ([`DccpConfig::queue`]). Deadlines are checked when a message is
//! offered and again when it goes. [`Reliability::Reliable`](taut_core::Reliability) only makes a message the last to be
//! dropped: DCCP cannot repeat it, the session above can.
//!
//! # On the wire
//! Packets are [`taut_wire::dccp`]'s; a message follows its stream's number in 4 bytes, little-endian. The same bytes go
//! over UDP (RFC 6773) and over raw IP (protocol 33), where the driver fills in the checksum, which is 0 here.
//!
//! # The connection
//! - *Handshake* (sections 8.1, 8.5): Request, Response, Ack, by service code; repeated with growing intervals.
//! - *Features* (section 6): CCID, Sequence Window, Ack Ratio, Send Ack Vector, Send NDP Count, ECN Incapable and CCID 3's
//!   Send Loss Event Rate are negotiated; short sequence numbers and partial checksums are declined.
//! - *Numbers* (section 7.5): a packet whose numbers do not fit is refused and answered by a Sync, eight in a second at
//!   most. It is not authentication: whoever sees the packets can forge them. `security` is for that.
//! - *Paths*: packets go where the newest valid packet came from. What is not valid on another path is not answered; but a Request there
//!   takes the place of a client of which nothing came for a second.
//! - *ECN* (section 12): packets are sent ECT(0), marks are echoed and count as losses. The nonce of section 12.2 is left
//!   out: it became historic (RFC 8311).
//! - *End* (section 8.3): CloseReq, Close, Reset, TIMEWAIT. What waits is abandoned.
//!
//! Gauges: `cwnd_packets` or `allowed_bps`, and `rtt_ms`.
//!
//! ```
//! use taut_core::{Datagram, Ecn, Event, Message, PathId, Seed, StreamId, Time, Transport};
//! use taut_transport::dccp::{Dccp, DccpConfig};
//!
//! let seed = Seed::new(7);
//! let mut operator = Dccp::client(DccpConfig::new(), seed.stream("operator"));
//! let mut robot = Dccp::server(DccpConfig::new(), seed.stream("robot"));
//! operator.send(Time::ZERO, Message { data: b"pose".to_vec(), stream: StreamId(2), ..Message::default() })?;
//! for _ in 0..4 {
//!     for (from, to) in [(0, 1), (1, 0)] {
//!         let mut ends = [&mut operator, &mut robot];
//!         let mut bytes = Vec::new();
//!         while ends[from].poll_transmit(Time::ZERO, &mut bytes).is_some() {
//!             let input = Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &bytes, padding: 0 };
//!             ends[to].handle_input(Time::ZERO, input);
//!             bytes.clear();
//!         }
//!     }
//! }
//! let received = Event::Received { data: b"pose".to_vec(), path: PathId(0), stream: StreamId(2) };
//! assert!(std::iter::from_fn(|| robot.poll_event()).any(|event| event == received));
//! # Ok::<(), taut_core::SendError>(())
//! ```

mod ccid2;
mod ccid3;
mod close;
mod config;
mod features;
mod half;
mod queue;
mod receive;
mod received;
mod reordering;
mod sent;
mod sequence;
mod stats;
mod transmit;

use std::collections::VecDeque;

use taut_core::{
    Bitrate, Bytes, Datagram, Deadline, DropCause, Duration, Event, Message, PathId, Rng, SendError, Time,
    Transmit, Transport, Waiting, earliest,
};
use taut_wire::dccp::{ResetCode, Seq, View, feature};

use crate::udp::whole;

pub use config::{Ccid, ConfigError, DccpConfig, PREFIX};
use features::{Features, Place};
use half::{Receiver, Sender};
use queue::SendQueue;
use received::Received;
use sent::SentLog;
use sequence::Sequence;
pub use stats::DccpStats;

/// Where a connection is (RFC 4340 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A server waits for a client.
    Listen,
    /// A client asked, and waits for the answer.
    Request,
    /// A server answered, and waits for the handshake to complete.
    Respond,
    /// A client was answered, and does not know yet whether the server knows.
    PartOpen,
    /// Messages flow.
    Open,
    /// A server asked its client to close.
    CloseReq,
    /// The end was asked for.
    Closing,
    /// It ended; stray packets are answered.
    TimeWait,
    /// There is no connection, and there will be none.
    Closed,
}

/// One end of a DCCP connection.
#[derive(Clone, Debug)]
pub struct Dccp {
    config: DccpConfig,
    server: bool,
    state: State,
    rng: Rng,
    path: PathId,
    remote_port: u16,
    seq: Sequence,
    features: Features,
    queue: SendQueue,
    sent: SentLog,
    /// Exists once the peer's first number is known.
    received: Option<Received>,
    sender: Option<Sender>,
    receiver: Option<Receiver>,
    timers: Timers,
    acks: Acks,
    /// Packets that are owed, beside those that timers and messages cause.
    replies: VecDeque<Reply>,
    /// What a server left with this client.
    cookie: Vec<u8>,
    /// Packets without data since the last one with.
    ndp: u64,
    gauges: Gauges,
    events: VecDeque<Event>,
    stats: DccpStats,
    /// Options of the packet that is being written, and the cells of its Ack Vector.
    options: Vec<u8>,
    cells: Vec<u8>,
    prefixed: Vec<u8>,
}

/// A packet that is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Response,
    Sync(Seq),
    SyncAck(Seq),
    /// A Reset of the connection, with the data that tell more.
    Reset(ResetCode, u8),
    /// A Reset with numbers from the packet that it answers (section 8.3.1).
    Stray {
        code: ResetCode,
        data: u8,
        seq: Seq,
        ack: Seq,
        port: u16,
        path: PathId,
    },
}

/// The most packets that are owed at a time.
const MAX_REPLIES: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Timers {
    /// When to say again what was not answered, and how long to wait after that.
    retry: Option<(Time, Duration)>,
    /// When to stop trying.
    give_up: Option<Time>,
    /// The end of TIMEWAIT.
    time_wait: Option<Time>,
    /// When the last Sync went, or an answer to a packet of no connection.
    last_sync: Option<Time>,
    /// When the last valid packet came.
    last_valid: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Acks {
    /// An acknowledgement must go, whatever the profile says.
    forced: bool,
    /// The peer acknowledged something since this end last did.
    unanswered: bool,
    /// When this end last sent one.
    last: Option<Time>,
    /// When it sent a message last.
    sent_data: Option<Time>,
    /// When one left that the profile did not let go.
    probed: Option<Time>,
    /// The peer's clock, to be echoed, and when it came.
    timestamp: Option<(u32, Time)>,
    /// The peer sent messages since the window of acknowledgements was last looked at.
    peer_sends: bool,
}

/// What was last told to the driver.
#[derive(Clone, Copy, Debug, Default)]
struct Gauges {
    cwnd: Option<u64>,
    rate: Option<f64>,
    rtt: Option<Duration>,
}

impl Dccp {
    /// The end that asks for the connection. Its first packet is ready at once. `rng` chooses the initial sequence number.
    pub fn client(config: DccpConfig, rng: Rng) -> Self {
        Self::new(config, rng, false)
    }

    /// The end that waits for one client.
    pub fn server(config: DccpConfig, rng: Rng) -> Self {
        Self::new(config, rng, true)
    }

    fn new(config: DccpConfig, mut rng: Rng, server: bool) -> Self {
        let iss = Seq::new(rng.next_u64());
        let features = Features::new(&config, server);
        let mut this = Self {
            state: if server { State::Listen } else { State::Request },
            path: PathId(0),
            remote_port: config.remote_port,
            seq: Sequence::new(iss),
            features,
            queue: SendQueue::new(config.queue, config.samples),
            sent: SentLog::new(iss),
            received: None,
            sender: None,
            receiver: None,
            timers: Timers::default(),
            acks: Acks::default(),
            replies: VecDeque::new(),
            cookie: Vec::new(),
            ndp: 0,
            gauges: Gauges::default(),
            events: VecDeque::new(),
            stats: DccpStats::default(),
            options: Vec::new(),
            cells: Vec::new(),
            prefixed: Vec::new(),
            config,
            server,
            rng,
        };
        this.express_wishes();
        this
    }

    /// Where the connection is.
    pub fn state(&self) -> State {
        self.state
    }

    /// What went through it, and what it knows of the path.
    pub fn stats(&self) -> DccpStats {
        let mut stats = DccpStats { waiting: self.queue.len() as u64, rtt: self.rtt(), ..self.stats };
        match &self.sender {
            Some(Sender::TcpLike(ccid)) => {
                stats.ccid = Some(Ccid::TcpLike);
                stats.cwnd = Some(ccid.cwnd());
                (stats.lost, stats.congestion_events) = (ccid.counts.lost, ccid.counts.halved);
                stats.timeouts = ccid.counts.timeouts;
            }
            Some(Sender::Tfrc { ccid, .. }) => {
                stats.ccid = Some(Ccid::Tfrc);
                stats.allowed_rate = Some(Bitrate::from_bps((ccid.rate() * 8.0) as u64));
                (stats.congestion_events, stats.timeouts) = (ccid.loss_events, ccid.timeouts);
            }
            None => {}
        }
        if let Some(Receiver::Tfrc(receiver)) = &self.receiver {
            stats.loss_event_rate = Some(receiver.loss_event_rate());
        }
        stats
    }

    /// The smoothed round trip, once it was measured.
    pub fn rtt(&self) -> Option<Duration> {
        self.sender.as_ref().and_then(Sender::rtt)
    }

    /// Asks for the features that the agreed profiles need.
    fn express_wishes(&mut self) {
        let window = self.config.sequence_window;
        self.features.want(feature::SEQUENCE_WINDOW, Place::Local, window);
        // RFC 4341 section 4: the sender needs Ack Vectors. Before there is agreement, what is preferred will be.
        let first = *self.config.ccids.first().expect("one profile at least");
        let known = self.received.is_some();
        let ccid = |place| if known { self.features.ccid(place) } else { Some(first) };
        let (sends, receives) = (ccid(Place::Local), ccid(Place::Remote));
        if let Some(sends) = sends {
            self.features.want(feature::SEND_ACK_VECTOR, Place::Remote, u64::from(sends == Ccid::TcpLike));
        }
        // RFC 4342 section 6.1: a lost acknowledgement is no lost data.
        if receives == Some(Ccid::Tfrc) {
            self.features.want(feature::SEND_NDP_COUNT, Place::Remote, 1);
        }
    }

    /// May messages go?
    fn is_connected(&self) -> bool {
        matches!(self.state, State::PartOpen | State::Open)
    }

    fn is_over(&self) -> bool {
        matches!(self.state, State::CloseReq | State::Closing | State::TimeWait | State::Closed)
    }

    fn drop_message(&mut self, tag: u64, cause: DropCause) {
        match cause {
            DropCause::TooLate => self.stats.too_late += 1,
            DropCause::Abandoned => self.stats.abandoned += 1,
            _ => self.stats.superseded += 1,
        }
        self.events.push_back(Event::Dropped { tag, cause });
    }

    fn owe(&mut self, reply: Reply) {
        if self.replies.len() < MAX_REPLIES && !self.replies.contains(&reply) {
            self.replies.push_back(reply);
        }
    }

    /// Tells of numbers that moved: the rate by more than one per cent, the others at all.
    fn tell_gauges(&mut self) {
        let rtt = self.rtt();
        match &self.sender {
            Some(Sender::TcpLike(ccid)) if self.gauges.cwnd != Some(ccid.cwnd()) => {
                self.gauges.cwnd = Some(ccid.cwnd());
                self.events.push_back(Event::Gauge { name: "cwnd_packets", value: ccid.cwnd() as f64 });
            }
            Some(Sender::Tfrc { ccid, .. }) => {
                let rate = ccid.rate();
                if self.gauges.rate.is_none_or(|told| (rate - told).abs() > told * 0.01) {
                    self.gauges.rate = Some(rate);
                    self.events.push_back(Event::Gauge { name: "allowed_bps", value: rate * 8.0 });
                }
            }
            _ => {}
        }
        if let Some(rtt) = rtt.filter(|_| self.gauges.rtt != rtt) {
            self.gauges.rtt = Some(rtt);
            self.events.push_back(Event::Gauge { name: "rtt_ms", value: rtt.as_millis_f64() });
        }
    }
}

impl Transport for Dccp {
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        if self.is_over() {
            return Err(SendError::Closed);
        }
        let limit = self.config.limit();
        if message.data.len() > limit {
            let size = Bytes::new(message.data.len() as u64);
            return Err(SendError::TooLarge { size, limit: Bytes::new(limit as u64) });
        }
        if message.is_late(now) {
            return Err(SendError::TooLate);
        }
        self.stats.offered += 1;
        if let Some((tag, cause)) = self.queue.push(message) {
            self.drop_message(tag, cause);
        }
        Ok(())
    }

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        let limit = self.config.max_datagram;
        let padded = (input.padding > 0).then(|| whole(&input, limit)).flatten();
        let bytes = padded.as_deref().unwrap_or(input.data);
        let fits =
            bytes.len() == input.data.len() + input.padding as usize && bytes.len() as u64 <= limit.get();
        match View::new_checked(bytes) {
            Ok(view) if fits => self.receive(now, &input, &view),
            _ => {
                self.stats.malformed += 1;
                self.events.push_back(Event::Refused(DropCause::Malformed));
            }
        }
        self.tell_gauges();
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.timers.give_up.is_some_and(|at| at <= now) {
            self.give_up(now);
        }
        if self.timers.time_wait.is_some_and(|at| at <= now) {
            self.timers.time_wait = None;
            self.state = State::Closed;
        }
        if let Some(sender) =
            self.sender.as_mut().filter(|_| matches!(self.state, State::PartOpen | State::Open))
        {
            sender.handle_timeout(now, &mut self.sent, self.seq.gss);
        }
        self.tell_gauges();
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let transmit = self.transmit(now, buffer);
        if transmit.is_some() {
            self.stats.packets_sent += 1;
        }
        transmit
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What waits for the profile's leave waits at this end, not in the network.
    fn round_trip(&self) -> Option<Duration> {
        self.rtt()
    }

    fn send_rate(&self) -> Option<Bitrate> {
        None
    }

    fn delivered(&self) -> Option<u64> {
        None
    }

    fn waiting(&self) -> Waiting {
        self.queue.waiting()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let deadline = |at: Option<Time>, why| at.map(|at| Deadline::new(at, why));
        let mut next = deadline(self.timers.give_up, "give up");
        next = earliest(next, deadline(self.timers.time_wait, "time wait"));
        next = earliest(next, deadline(self.timers.retry.map(|(at, _)| at), "retransmission"));
        if !self.is_connected() {
            return next;
        }
        next = earliest(next, self.features.poll_timeout());
        if let Some(Receiver::TcpLike(ack)) = &self.receiver {
            next = earliest(next, deadline(ack.poll_timeout(self.ack_ratio()), "delayed ack"));
        }
        let Some(sender) = &self.sender else { return next };
        next = earliest(next, deadline(sender.poll_timeout(), "no feedback"));
        // With a cookie to echo it is the answer to that which lets messages go.
        if !self.cookie.is_empty() {
            return next;
        }
        let pacing = sender.next_send().filter(|_| !self.queue.is_empty());
        next = earliest(next, deadline(pacing, "pacing"));
        earliest(next, deadline(self.next_probe(), "emergency"))
    }

    fn abandon(&mut self) {
        self.abandon_waiting();
    }

    fn close(&mut self, now: Time) {
        self.begin_close(now);
    }

    fn uses_path(&self, path: PathId) -> bool {
        path == self.path
    }

    taut_core::ignores_paths!();
}
