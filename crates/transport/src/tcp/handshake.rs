//! The way to an established connection (RFC 9293 section 3.5), and what the two ends agree on along it.

use taut_core::{DropCause, Event, Time, Transmit};
use taut_wire::tcp::{Flags, Options, Repr, Timestamps};

use super::config::MIN_MSS;
use super::receiver::Ack;
use super::{Tcp, stamp, widen};

/// The largest window scale (RFC 7323 section 2.3).
const MAX_SHIFT: u8 = 14;
/// What a peer that names no MSS takes (RFC 9293 section 3.7.1).
const DEFAULT_MSS: u16 = 536;
/// Bytes that timestamps take from every segment (RFC 6691 section 2).
const TIMESTAMPS_LEN: u16 = 12;

/// Where the connection is. Closing needs no states of its own: FIN is a place in either half's sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A client before its first SYN.
    Idle,
    /// A server before a SYN.
    Listen,
    /// A client's SYN is out.
    SynSent,
    /// A server's SYN is out.
    SynReceived,
    /// Data flows.
    Established,
    /// Reset, or given up.
    Closed,
}

/// What the SYNs agreed on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Negotiated {
    pub(super) sack: bool,
    /// How far the windows that go out are shifted.
    pub(super) own_shift: u8,
    /// How far the windows that come in are shifted.
    pub(super) peer_shift: u8,
    /// TS.Recent; `None` without timestamps.
    pub(super) recent_stamp: Option<u32>,
    /// Last.ACK.sent.
    pub(super) last_ack: u64,
    /// Bytes of data in a segment, with the option of timestamps.
    segment: u16,
    mss: u16,
    peer_window: u64,
}

impl Tcp {
    /// Takes a segment as far as the handshake is concerned; `true` when it is one of an established connection.
    pub(super) fn handle_handshake(&mut self, now: Time, repr: &Repr) -> bool {
        match self.state {
            State::Established => true,
            State::Listen => {
                self.handle_syn(repr);
                false
            }
            State::SynSent => {
                self.handle_syn_ack(now, repr);
                false
            }
            State::SynReceived => self.handle_last_of_handshake(now, repr),
            State::Idle | State::Closed => {
                self.refuse();
                false
            }
        }
    }

    /// Does this segment open another connection than this one, which has begun?
    pub(crate) fn is_other_syn(&self, segment: &[u8]) -> bool {
        let Ok((repr, _)) = Repr::parse(segment) else { return false };
        let initial = self.receiver.next().wrapping_sub(1 + self.receiver.delivered());
        let opens = repr.flags.contains(Flags::SYN) && !repr.flags.contains(Flags::ACK);
        opens && self.state != State::Listen && repr.sequence != initial as u32
    }

    fn handle_syn(&mut self, repr: &Repr) {
        let bad = Flags::ACK.0 | Flags::RST.0 | Flags::FIN.0;
        if !repr.flags.contains(Flags::SYN) || repr.flags.0 & bad != 0 {
            self.refuse();
            return;
        }
        self.agree(repr);
        self.state = State::SynReceived;
        self.syn_due = true;
    }

    fn handle_syn_ack(&mut self, now: Time, repr: &Repr) {
        let acknowledges = repr.flags.contains(Flags::ACK)
            && widen(repr.acknowledgement, self.sender.una) == self.sender.una + 1;
        if !acknowledges {
            self.refuse();
        } else if repr.flags.contains(Flags::RST) {
            self.abort(false);
        } else if repr.flags.contains(Flags::SYN) {
            self.agree(repr);
            self.establish(now);
            self.receiver.ack = Ack::Now;
        } else {
            self.refuse();
        }
    }

    fn handle_last_of_handshake(&mut self, now: Time, repr: &Repr) -> bool {
        if repr.flags.contains(Flags::RST) {
            if widen(repr.sequence, self.receiver.next()) == self.receiver.next() {
                self.abort(false);
            }
            return false;
        }
        if repr.flags.contains(Flags::SYN) {
            self.syn_due = true;
            return false;
        }
        let acknowledges = repr.flags.contains(Flags::ACK)
            && widen(repr.acknowledgement, self.sender.una) == self.sender.una + 1;
        if acknowledges {
            self.negotiated.peer_window = u64::from(repr.window) << self.negotiated.peer_shift;
            self.establish(now);
        } else {
            self.refuse();
        }
        acknowledges
    }

    /// An option is in force when both SYNs carry it.
    fn agree(&mut self, syn: &Repr) {
        let theirs = &syn.options;
        self.receiver.begin(widen(syn.sequence, 1 << 32 | u64::from(syn.sequence)));
        let stamps = theirs.timestamps.filter(|_| self.config.timestamps);
        let mss = theirs.mss.unwrap_or(DEFAULT_MSS).max(MIN_MSS).min(self.config.mss);
        self.negotiated.segment = mss;
        self.negotiated.mss = if stamps.is_some() { mss - TIMESTAMPS_LEN } else { mss };
        self.negotiated.recent_stamp = stamps.map(|stamps| stamps.value);
        self.negotiated.sack = self.config.sack && theirs.sack_permitted;
        if let Some(shift) = theirs.window_scale {
            self.negotiated.peer_shift = shift.min(MAX_SHIFT);
            self.negotiated.own_shift = self.own_shift();
        }
        self.negotiated.peer_window = u64::from(syn.window);
        self.negotiated.last_ack = self.receiver.next();
    }

    /// The longest segment that both ends take; [`None`] before the handshake told.
    pub(crate) fn longest_segment(&self) -> Option<u16> {
        Some(self.negotiated.segment).filter(|bytes| *bytes > 0)
    }

    fn establish(&mut self, now: Time) {
        let Negotiated { mss, peer_window, sack, .. } = self.negotiated;
        if let Some(sent) = self.syn_sent {
            self.sender.rto.sample(now.saturating_since(sent));
        }
        self.sender.establish(now, &self.config, u64::from(mss), peer_window, sack);
        self.state = State::Established;
        self.events.push_back(Event::Connected);
    }

    pub(super) fn transmit_handshake(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let client = self.state != State::SynReceived;
        if self.state == State::Idle {
            self.state = State::SynSent;
            self.syn_due = true;
        }
        if !std::mem::take(&mut self.syn_due) {
            return None;
        }
        let once = self.sender.timer.is_none();
        self.syn_sent = once.then_some(now);
        if once {
            self.sender.timer = Some(now + self.sender.rto.get());
        }
        let both = |theirs: bool| client || theirs;
        let options = Options {
            mss: Some(self.config.mss),
            window_scale: both(self.negotiated.own_shift > 0 || self.negotiated.peer_shift > 0)
                .then(|| self.own_shift()),
            sack_permitted: self.config.sack && both(self.negotiated.sack),
            timestamps: (self.config.timestamps && both(self.negotiated.recent_stamp.is_some()))
                .then(|| Timestamps { value: stamp(now), echo: self.negotiated.recent_stamp.unwrap_or(0) }),
            ..Options::default()
        };
        let flags = if client { Flags::SYN } else { Flags::SYN | Flags::ACK };
        // The window of a SYN is never shifted (RFC 7323 section 2.2).
        self.emit_header(self.sender.una, flags, self.receiver.window(), options, buffer);
        Some(Transmit::default())
    }

    /// The SYN goes again, later each time (RFC 6298 section 5).
    pub(super) fn handle_handshake_timeout(&mut self, now: Time) {
        if self.sender.timer.is_some_and(|at| at <= now) {
            self.sender.timeouts_in_a_row += 1;
            self.sender.rto.back_off();
            self.sender.timer = Some(now + self.sender.rto.get());
            self.syn_sent = None;
            self.syn_due = true;
        }
    }

    fn refuse(&mut self) {
        self.events.push_back(Event::Refused(DropCause::Malformed));
    }

    /// The smallest shift with which the window fits its field.
    fn own_shift(&self) -> u8 {
        let fits = |shift: &u8| self.receiver.window() >> shift <= u64::from(u16::MAX);
        (0..MAX_SHIFT).find(fits).unwrap_or(MAX_SHIFT)
    }
}
