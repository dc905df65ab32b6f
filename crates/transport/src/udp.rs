//! UDP (RFC 768): one message, one datagram, nothing else.
//!
//! No number, no acknowledgement, no order, no protection against duplicates; [`Reliability`](taut_core::Reliability) is
//! not looked at. The driver's socket adds the UDP header, so an ECN mark means nothing here either. An end that
//! waits answers whoever it heard first, and another when that one has been silent for a second.
//!
//! A message waits only between `send` and the driver's next `poll_transmit`. When more wait than the queue holds, the
//! oldest of the least urgent is dropped as superseded: of samples, the newest counts.
//!
//! IRTP's split, crucial data over TCP and everything else over UDP with small headers (Lee, Payandeh, Trajković,
//! *Performance Evaluation of Transport Protocols for Internet-Based Teleoperation Systems*), is this transport beside
//! [`tcp`](crate::tcp) in one session: `control = reliable, haptic = unreliable`.
//!
//! ```
//! use taut_core::{Datagram, Ecn, Event, Message, PathId, StreamId, Time, Transport};
//! use taut_transport::udp::{Udp, UdpConfig};
//!
//! let (mut operator, mut robot) = (Udp::new(UdpConfig::new()), Udp::new(UdpConfig::new()));
//! operator.send(Time::ZERO, Message { data: b"pose".to_vec(), ..Message::default() })?;
//! let mut datagram = Vec::new();
//! operator.poll_transmit(Time::ZERO, &mut datagram).expect("it goes at once");
//! let input = Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &datagram, padding: 0 };
//! robot.handle_input(Time::ZERO, input);
//! assert_eq!(robot.poll_event(), Some(Event::Connected));
//! assert_eq!(robot.poll_event(), Some(Event::Received { data: b"pose".to_vec(), path: PathId(0), stream: StreamId(0) }));
//! # Ok::<(), taut_core::SendError>(())
//! ```

use std::collections::VecDeque;

use taut_core::{
    Bitrate, Bytes, Datagram, Deadline, DropCause, Duration, Event, Message, PathId, SendError, StreamId,
    Time, Transmit, Transport, Waiting,
};

use crate::peer::Peer;
use crate::security::Secured;

/// The longest payload of a UDP datagram over IPv4: 65535 − 20 − 8 bytes.
pub const MAX_PAYLOAD: Bytes = Bytes::new(65_507);
/// The longest datagram of a transport: that, less what Noise adds to each, which may be around any of them.
pub const MAX_DATAGRAM: Bytes = MAX_PAYLOAD.saturating_sub(Secured::<Udp>::OVERHEAD);
/// The longest payload that passes Ethernet unfragmented under IPv4: 1500 − 20 − 8 bytes.
pub const ETHERNET_PAYLOAD: Bytes = Bytes::new(1_472);

/// Limits of [`Udp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpConfig {
    max_datagram: Bytes,
    queue: usize,
}

impl Default for UdpConfig {
    fn default() -> Self {
        Self { max_datagram: ETHERNET_PAYLOAD, queue: 64 }
    }
}

impl UdpConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The longest payload sent and accepted. Default 1472 B; from 1 B to [`MAX_DATAGRAM`], beyond which it is cut to that.
    /// Above the path's MTU every datagram is fragmented, and lost with any of its fragments.
    pub fn max_datagram(mut self, bytes: Bytes) -> Self {
        self.max_datagram = bytes.clamp(Bytes::new(1), MAX_DATAGRAM);
        self
    }

    /// How many messages wait at most for the driver. Default 64; at least 1.
    pub fn queue(mut self, messages: usize) -> Self {
        self.queue = messages.max(1);
        self
    }
}

/// What went through a [`Udp`], in messages. `offered = sent + superseded + too_late + abandoned +` what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpStats {
    /// Taken by `send`.
    pub offered: u64,
    /// Given to the driver.
    pub sent: u64,
    /// Dropped because the queue was full.
    pub superseded: u64,
    /// Dropped because they were older than their deadline when it was their turn.
    pub too_late: u64,
    /// Dropped because what is around it has ended.
    pub abandoned: u64,
    /// Received.
    pub received: u64,
    /// Refused because they were longer than `max_datagram`.
    pub refused: u64,
}

/// One end of a UDP conversation.
#[derive(Debug)]
pub struct Udp {
    config: UdpConfig,
    queue: VecDeque<Message>,
    events: VecDeque<Event>,
    stats: UdpStats,
    peer: Peer,
    /// The driver's empty buffer of the last `poll_transmit`: what arrives next is copied into it.
    spare: Vec<u8>,
}

impl Udp {
    /// An endpoint; nothing has to be set up, so it is connected from the start.
    pub fn new(config: UdpConfig) -> Self {
        Self {
            config,
            queue: VecDeque::new(),
            events: VecDeque::from([Event::Connected]),
            stats: UdpStats::default(),
            peer: Peer::default(),
            spare: Vec::new(),
        }
    }

    /// The end that waits: it answers where it is asked from.
    pub fn waiting(config: UdpConfig) -> Self {
        Self { peer: Peer::waiting(), ..Self::new(config) }
    }

    /// What went through it.
    pub fn stats(&self) -> UdpStats {
        self.stats
    }

    /// Drops the oldest of the least urgent.
    fn make_room(&mut self) {
        let least = self.queue.iter().map(|message| message.priority).max();
        let victim = self.queue.iter().position(|message| Some(message.priority) == least);
        if let Some(message) = victim.and_then(|index| self.queue.remove(index)) {
            self.stats.superseded += 1;
            self.events.push_back(Event::Dropped { tag: message.tag, cause: DropCause::Superseded });
        }
    }
}

impl Transport for Udp {
    fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> {
        let size = Bytes::new(message.data.len() as u64);
        if size > self.config.max_datagram {
            return Err(SendError::TooLarge { size, limit: self.config.max_datagram });
        }
        if message.is_late(now) {
            return Err(SendError::TooLate);
        }
        self.stats.offered += 1;
        self.queue.push_back(message);
        if self.queue.len() > self.config.queue {
            self.make_room();
        }
        Ok(())
    }

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        if !fits(&input, self.config.max_datagram) {
            self.stats.refused += 1;
            return self.events.push_back(Event::Refused(DropCause::Malformed));
        }
        self.stats.received += 1;
        self.peer.heard(now, input.path);
        let mut data = std::mem::take(&mut self.spare);
        write_whole(&input, &mut data);
        self.events.push_back(Event::Received { data, path: input.path, stream: StreamId(0) });
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        while let Some(message) = self.queue.pop_front() {
            if message.is_late(now) {
                self.stats.too_late += 1;
                self.events.push_back(Event::Dropped { tag: message.tag, cause: DropCause::TooLate });
                continue;
            }
            self.stats.sent += 1;
            // An empty buffer changes places with the message's: nothing is copied, nothing allocated.
            if buffer.is_empty() {
                self.spare = std::mem::replace(buffer, message.data);
            } else {
                buffer.extend_from_slice(&message.data);
            }
            return Some(Transmit { path: self.peer.path(), ..Transmit::default() });
        }
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }

    fn close(&mut self, _: Time) {}

    fn abandon(&mut self) {
        self.stats.abandoned += self.queue.len() as u64;
        let cause = DropCause::Abandoned;
        self.events.extend(self.queue.drain(..).map(|message| Event::Dropped { tag: message.tag, cause }));
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
        Waiting::Nothing
    }
}

/// The datagram with the zeros that were not stored; `None` when it is longer than `limit`.
pub(crate) fn whole(input: &Datagram<'_>, limit: Bytes) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    fits(input, limit).then(|| write_whole(input, &mut data))?;
    Some(data)
}

fn fits(input: &Datagram<'_>, limit: Bytes) -> bool {
    input.data.len() as u64 + u64::from(input.padding) <= limit.get()
}

/// Appends the datagram and the zeros that were not stored to `data`, which is empty.
fn write_whole(input: &Datagram<'_>, data: &mut Vec<u8>) {
    let len = input.data.len() + input.padding as usize;
    data.reserve(len);
    data.extend_from_slice(input.data);
    data.resize(len, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::{Duration, Ecn, PathId, Priority};

    const MS: Duration = Duration::from_millis(1);

    fn udp(queue: usize) -> Udp {
        let mut udp = Udp::new(UdpConfig::new().queue(queue));
        assert_eq!(udp.poll_event(), Some(Event::Connected));
        udp
    }

    fn message(tag: u64, priority: u8) -> Message {
        Message { data: vec![tag as u8], priority: Priority(priority), tag, ..Message::default() }
    }

    fn sent(udp: &mut Udp, now: Time) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let mut buffer = Vec::new();
            match udp.poll_transmit(now, &mut buffer) {
                Some(_) => all.push(buffer),
                None => return all,
            }
        }
    }

    #[test]
    fn messages_leave_in_the_order_they_came() {
        let mut udp = udp(8);
        (1..4).for_each(|tag| udp.send(Time::ZERO, message(tag, 0)).unwrap());
        assert_eq!(sent(&mut udp, Time::ZERO), [[1], [2], [3]]);
        assert_eq!(udp.poll_timeout(), None);
    }

    #[test]
    fn a_full_queue_drops_the_oldest_of_the_least_urgent() {
        let mut udp = udp(3);
        for (tag, priority) in [(1, 0), (2, 5), (3, 5), (4, 5)] {
            udp.send(Time::ZERO, message(tag, priority)).unwrap();
        }
        assert_eq!(udp.poll_event(), Some(Event::Dropped { tag: 2, cause: DropCause::Superseded }));
        assert_eq!(sent(&mut udp, Time::ZERO), [[1], [3], [4]]);
        assert_eq!(udp.stats(), UdpStats { offered: 4, sent: 3, superseded: 1, ..UdpStats::default() });
    }

    #[test]
    fn a_newcomer_makes_nothing_go_that_is_more_urgent() {
        let mut udp = udp(2);
        for (tag, priority) in [(1, 0), (2, 1), (3, 5)] {
            udp.send(Time::ZERO, message(tag, priority)).unwrap();
        }
        assert_eq!(udp.poll_event(), Some(Event::Dropped { tag: 3, cause: DropCause::Superseded }));
        assert_eq!(sent(&mut udp, Time::ZERO), [[1], [2]]);
    }

    #[test]
    fn age_is_checked_before_queueing_and_again_before_sending() {
        let mut udp = udp(8);
        let aged = |tag| Message { created: Time::ZERO, deadline: Some(MS * 5), ..message(tag, 0) };
        assert_eq!(udp.send(Time::ZERO + MS * 5, aged(1)), Err(SendError::TooLate));
        udp.send(Time::ZERO + MS * 4, aged(2)).unwrap();
        assert!(sent(&mut udp, Time::ZERO + MS * 5).is_empty());
        assert_eq!(udp.poll_event(), Some(Event::Dropped { tag: 2, cause: DropCause::TooLate }));
    }

    #[test]
    fn what_is_too_long_is_refused_both_ways() {
        let mut udp = Udp::waiting(UdpConfig::new().max_datagram(Bytes::new(10)));
        udp.poll_event();
        let long = Message { data: vec![0; 11], ..Message::default() };
        let (size, limit) = (Bytes::new(11), Bytes::new(10));
        assert_eq!(udp.send(Time::ZERO, long), Err(SendError::TooLarge { size, limit }));
        let input = |padding| Datagram { path: PathId(2), ecn: Ecn::NotCapable, data: b"12345", padding };
        udp.handle_input(Time::ZERO, input(6));
        assert_eq!(udp.poll_event(), Some(Event::Refused(DropCause::Malformed)));
        udp.handle_input(Time::ZERO, input(u32::MAX));
        assert_eq!(udp.poll_event(), Some(Event::Refused(DropCause::Malformed)));
        udp.handle_input(Time::ZERO, input(5));
        let data = b"12345\0\0\0\0\0".to_vec();
        assert_eq!(udp.poll_event(), Some(Event::Received { data, path: PathId(2), stream: StreamId(0) }));
        udp.send(Time::ZERO, message(1, 0)).unwrap();
        let answer = udp.poll_transmit(Time::ZERO, &mut Vec::new()).map(|transmit| transmit.path);
        assert_eq!(answer, Some(PathId(2)), "whoever asked is answered");
        assert!(udp.uses_path(PathId(2)) && !udp.uses_path(PathId(0)));
    }
}
