//! Which sequence and acknowledgement numbers are valid (RFC 4340 section 7.5).

use taut_wire::dccp::{Packet, Repr, Seq};

/// The variables of RFC 4340 section 7.1, by their names there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    /// First number sent.
    pub(super) iss: Seq,
    /// Greatest number sent.
    pub(super) gss: Seq,
    /// Greatest acknowledgement received.
    pub(super) gar: Seq,
    /// First number received.
    pub(super) isr: Seq,
    /// Greatest valid number received.
    pub(super) gsr: Seq,
    /// First number received in OPEN.
    pub(super) osr: Option<Seq>,
    /// Sequence Window of the peer: how many of its numbers are valid here.
    pub(super) peer_window: u64,
    /// Sequence Window of this end: how many acknowledgement numbers are valid here.
    pub(super) own_window: u64,
    /// Windows do not reach back before the first number, at the beginning of a connection only.
    young_sent: bool,
    young_received: bool,
}

/// Of new connections (section 7.5.2).
pub(super) const DEFAULT_WINDOW: u64 = 100;

impl Sequence {
    /// Nothing was sent: the first number will be `iss`.
    pub(super) fn new(iss: Seq) -> Self {
        Self {
            iss,
            gss: iss.minus(1),
            gar: iss,
            isr: Seq::default(),
            gsr: Seq::default(),
            osr: None,
            peer_window: DEFAULT_WINDOW,
            own_window: DEFAULT_WINDOW,
            young_sent: true,
            young_received: true,
        }
    }

    /// The number of the next packet.
    pub(super) fn advance(&mut self) -> Seq {
        self.gss = self.gss.next();
        self.young_sent &= self.gss.since(self.iss) < self.own_window as i64;
        self.gss
    }

    /// The peer's first number.
    pub(super) fn meet(&mut self, isr: Seq) {
        (self.isr, self.gsr) = (isr, isr);
        (self.young_received, self.osr) = (true, None);
    }

    /// A valid packet came.
    pub(super) fn accept(&mut self, seq: Seq) {
        self.gsr = self.gsr.max(seq);
        self.young_received &= self.gsr.since(self.isr) < (self.peer_window / 4) as i64;
    }

    /// SWL, section 7.5.1.
    pub(super) fn low(&self) -> Seq {
        let low = self.gsr.next().minus(self.peer_window / 4);
        if self.young_received { low.max(self.isr) } else { low }
    }

    /// SWH.
    pub(super) fn high(&self) -> Seq {
        self.gsr.plus((self.peer_window * 3).div_ceil(4))
    }

    /// AWL.
    pub(super) fn ack_low(&self) -> Seq {
        let low = self.gss.next().minus(self.own_window);
        if self.young_sent { low.max(self.iss) } else { low }
    }

    /// Is the acknowledgement number one of what was sent lately?
    pub(super) fn is_ack_valid(&self, ack: Seq) -> bool {
        ack.is_within(self.ack_low(), self.gss)
    }

    /// The table of section 7.5.3. `active`: a valid packet came within the last three round trips; then Syncs are held
    /// to the window like everything else.
    pub(super) fn is_valid(&self, header: &Repr, active: bool) -> bool {
        let seq = header.sequence;
        let (low, ack_low) = match header.packet {
            Packet::CloseReq { .. } | Packet::Close { .. } | Packet::Reset { .. } => {
                (self.gsr.next(), self.gar)
            }
            _ => (self.low(), self.ack_low()),
        };
        let unbounded = matches!(header.packet, Packet::Sync { .. } | Packet::SyncAck { .. }) && !active;
        let in_window = if unbounded { !seq.is_before(low) } else { seq.is_within(low, self.high()) };
        in_window && header.packet.ack().is_none_or(|ack| ack.is_within(ack_low, self.gss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence() -> Sequence {
        let mut sequence = Sequence::new(Seq::new(1_000));
        sequence.meet(Seq::new(5_000));
        for _ in 0..3 {
            sequence.advance();
        }
        sequence
    }

    fn header(seq: u64, packet: Packet) -> Repr {
        Repr { sequence: Seq::new(seq), packet, ..Repr::default() }
    }

    fn ack(number: u64) -> Packet {
        Packet::Ack { ack: Seq::new(number) }
    }

    /// RFC 4340 section 7.5.1 with W = W' = 100: [GSR + 1 − 25, GSR + 75], [GSS + 1 − 100, GSS], not below ISR and ISS.
    #[test]
    fn windows_do_not_reach_back_before_the_beginning() {
        let young = sequence();
        assert_eq!((young.low(), young.high()), (Seq::new(5_000), Seq::new(5_075)));
        assert_eq!((young.ack_low(), young.gss), (Seq::new(1_000), Seq::new(1_002)));

        let mut old = sequence();
        old.accept(Seq::new(5_060));
        for _ in 0..200 {
            old.advance();
        }
        assert_eq!((old.low(), old.high()), (Seq::new(5_036), Seq::new(5_135)));
        assert_eq!((old.ack_low(), old.gss), (Seq::new(1_103), Seq::new(1_202)));
    }

    /// RFC 4340 section 7.5.3.
    #[test]
    fn validity_depends_on_the_type() {
        let mut sequence = sequence();
        sequence.accept(Seq::new(5_060));
        sequence.gar = Seq::new(1_001);
        let valid = |seq, packet| sequence.is_valid(&header(seq, packet), true);
        assert!(valid(5_036, Packet::Data) && !valid(5_035, Packet::Data));
        assert!(valid(5_135, ack(1_000)) && !valid(5_136, ack(1_000)));
        assert!(!valid(5_061, ack(999)) && !valid(5_061, ack(1_003)));
        let reset = |number| Packet::Reset { ack: Seq::new(number), code: 1, data: [0; 3] };
        assert!(valid(5_061, reset(1_001)));
        assert!(!valid(5_060, reset(1_001)), "not after GSR");
        assert!(!valid(5_061, reset(1_000)), "before GAR");
        let sync = Packet::Sync { ack: Seq::new(1_002) };
        assert!(!sequence.is_valid(&header(9_000, sync), true));
        assert!(
            sequence.is_valid(&header(9_000, sync), false),
            "after silence a Sync may come from anywhere"
        );
    }

    #[test]
    fn a_wrapped_connection_goes_on() {
        let mut sequence = Sequence::new(Seq::new(Seq::MODULUS - 2));
        sequence.meet(Seq::new(Seq::MODULUS - 2));
        for _ in 0..300 {
            sequence.advance();
        }
        (0..300).for_each(|n| sequence.accept(Seq::new(Seq::MODULUS - 2).plus(n)));
        assert_eq!((sequence.gss, sequence.gsr), (Seq::new(297), Seq::new(297)));
        assert!(sequence.is_valid(&header(298, ack(297)), true));
        assert!(!sequence.is_valid(&header(298, ack(197)), true));
    }
}
