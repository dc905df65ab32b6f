//! What acknowledgements say about losses: fast retransmit and fast recovery (RFC 5681 section 3.2, RFC 6582), recovery
//! with SACK (RFC 6675).

use std::collections::VecDeque;

use taut_core::{Duration, Event, Time};

use super::congestion::{Acked, Congestion};
use super::sack::{DUP_THRESH, Run};
use super::sender::{Recovery, Segment, Sender, Used};
use super::{CongestionControl, FullAck, PartialAck};

/// An acknowledgement, its numbers widened.
#[derive(Debug)]
pub(super) struct Acknowledgement<B> {
    pub(super) number: u64,
    /// The peer's window in bytes.
    pub(super) window: u64,
    /// Neither data nor SYN nor FIN comes with it.
    pub(super) bare: bool,
    /// The round trip by the timestamp that it echoes, in whole ticks of its clock.
    pub(super) rtt: Option<Duration>,
    /// SACK blocks.
    pub(super) blocks: B,
}

/// What an acknowledgement does to SND.UNA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advance {
    /// It stands.
    No,
    /// It moves.
    Yes,
    /// It moves, and what filled the first gap had only been late.
    Late,
}

impl Sender {
    /// Takes an acknowledgement; `false` when it covers what was never sent.
    pub(super) fn handle_ack<B>(&mut self, now: Time, ack: Acknowledgement<B>) -> bool
    where
        B: Iterator<Item = Run> + Clone,
    {
        if ack.number > self.max {
            return false;
        }
        let mut blocks = ack.blocks.clone();
        self.take_duplicate(blocks.next(), blocks.next(), ack.number);
        if ack.number < self.una {
            self.handle_old_ack(now, ack.blocks);
            return true;
        }
        let same_window = ack.window == self.window;
        self.window = ack.window;
        self.window_max = self.window_max.max(ack.window);
        let mut is_new = false;
        let missing = if self.policy.rack { self.missing() } else { 0 };
        if let Some(board) = &mut self.board {
            for block in ack.blocks {
                is_new |= board.insert(block, ack.number, self.max);
            }
        }
        let advance = match ack.number > self.una {
            false => Advance::No,
            true if self.was_late(now, ack.rtt) => Advance::Late,
            true => Advance::Yes,
        };
        if advance != Advance::No {
            self.on_new_ack(now, ack.number, ack.rtt, advance == Advance::Late);
        } else if self.una < self.max {
            // RFC 5681 section 2; with SACK only news from beyond counts (RFC 6675 section 2).
            let duplicate = if self.board.is_some() { is_new } else { ack.bare && same_window };
            if duplicate {
                self.stats.duplicate_acks += 1;
                self.on_duplicate();
            }
        } else {
            // Nothing was outstanding: the window may have opened.
            self.timer = None;
        }
        self.after_ack(now, missing, advance);
        true
    }

    /// What an acknowledgement reports that a newer one overtook has arrived all the same.
    fn handle_old_ack(&mut self, now: Time, blocks: impl Iterator<Item = Run>) {
        let missing = self.missing();
        let Some(board) = self.board.as_mut().filter(|_| self.policy.rack) else { return };
        if blocks.fold(false, |is_new, block| is_new | board.insert(block, self.una, self.max)) {
            self.after_ack(now, missing, Advance::No);
        }
    }

    /// Did the window hold something back? Linux remembers that it did for all that was under way then (`tcp_cwnd_validate`), so
    /// that a flow which is at times without data grows its window through the whole round trip.
    /// In slow start it grows to twice what was under way at most (`tcp_is_cwnd_limited`), and a window that nothing fills comes down
    /// (RFC 2861, `tcp_cwnd_application_limited`).
    fn was_limited(&mut self, now: Time) -> bool {
        let is_limited = self.flight() + self.smss > self.congestion.cwnd;
        if !self.policy.rack {
            return is_limited;
        }
        let under_way = self.flight.weigh(self.una, self.max);
        if is_limited
            || self.una >= self.limited_until
            || (!self.limited_then && under_way > self.most_under_way)
        {
            self.limited_then = is_limited;
            self.limited_until = self.max;
            self.most_under_way = under_way;
        }
        let Congestion { cwnd, ssthresh, .. } = self.congestion;
        if self.limited_then || (cwnd < ssthresh && cwnd < 2 * self.most_under_way) {
            self.used = Used { since: now, most: 0 };
            return true;
        }
        self.used.most = self.used.most.max(under_way);
        if now >= self.used.since + self.rto.get() {
            if self.recovery == Recovery::Open {
                self.congestion.come_down(self.used.most);
            }
            self.used = Used { since: now, most: 0 };
        }
        false
    }

    /// `late`: what filled the first gap had only been late.
    fn on_new_ack(&mut self, now: Time, number: u64, rtt: Option<Duration>, late: bool) {
        let acked = self.flight.weigh(self.una, number);
        let window_limited = self.was_limited(now);
        self.source.acknowledge(number.min(self.fin.unwrap_or(number)) - self.una);
        self.previous_una = self.una;
        self.una = number;
        self.nxt = self.nxt.max(number);
        if let Some(board) = &mut self.board {
            board.acknowledge(number);
        }
        let of_segment = self.flight.acknowledge(now, number, rtt);
        self.measure(now, number, of_segment.filter(|_| self.policy.rack).or(rtt));
        self.timeouts_in_a_row = 0;
        self.probed = false;
        let restart = match self.recovery {
            Recovery::Open => {
                self.end_of_duplicates();
                let rtt = self.rto.smoothed().unwrap_or(Duration::ZERO);
                self.congestion.on_ack(Acked { now, bytes: acked, rtt, window_limited });
                true
            }
            Recovery::Fast { .. }
                if number >= self.recover || self.policy.control == CongestionControl::Reno =>
            {
                self.leave_fast_recovery();
                true
            }
            Recovery::Fast { partial } => {
                self.on_partial_ack(acked);
                !partial || self.policy.partial_ack == PartialAck::SlowButSteady
            }
            Recovery::Sack => {
                if late {
                    self.flight.overtaken();
                }
                if late && (number >= self.recover || self.flight.repeats().next().is_none()) {
                    self.take_back();
                } else if number >= self.recover {
                    self.recovery = Recovery::Open;
                    self.flight.recovered();
                    // Already so where RFC 6675 repairs; at the end of RFC 6937's reduction.
                    self.congestion.cwnd = self.congestion.ssthresh;
                    self.end_of_duplicates();
                } else {
                    self.update_pipe();
                }
                true
            }
            Recovery::Loss => {
                let rtt = self.rto.smoothed().unwrap_or(Duration::ZERO);
                self.congestion.on_ack(Acked { now, bytes: acked, rtt, window_limited });
                if number >= self.recover {
                    self.recovery = Recovery::Open;
                    self.flight.recovered();
                    self.end_of_duplicates();
                }
                true
            }
        };
        if self.una == self.max {
            self.timer = None; // RFC 6298 section 5.2
        } else if restart {
            self.timer = Some(now + self.rto.get()); // section 5.3
        }
    }

    /// A round trip, by what the acknowledgement tells or of the segment that is timed.
    fn measure(&mut self, now: Time, number: u64, rtt: Option<Duration>) {
        match (rtt, self.timed) {
            (Some(rtt), _) => self.rto.sample(rtt),
            (None, Some((end, sent))) if number >= end => self.rto.sample(now.saturating_since(sent)),
            _ => return,
        }
        if self.timed.is_some_and(|(end, _)| number >= end) {
            self.timed = None;
        }
    }

    fn on_duplicate(&mut self) {
        match self.recovery {
            Recovery::Open => {
                self.duplicates += 1;
                let lost = match &self.board {
                    Some(board) => {
                        self.duplicates >= DUP_THRESH || board.lost_below(self.smss, &self.flight) > self.una
                    }
                    None => self.duplicates == DUP_THRESH,
                };
                if lost && !self.policy.rack && self.may_recover() {
                    self.enter_recovery();
                }
            }
            // RFC 6582 section 3.2 step 4: the segment that caused it has left the network.
            Recovery::Fast { .. } => self.congestion.cwnd += self.smss,
            Recovery::Sack => self.update_pipe(),
            Recovery::Loss => {}
        }
    }

    /// Not for losses of a window whose loss was answered already: duplicates below or at `recover` may come from
    /// retransmissions that were not needed.
    fn may_recover(&self) -> bool {
        if self.nxt < self.max {
            return false;
        }
        if self.board.is_some() {
            return self.una >= self.recover; // RFC 6675 section 5.1
        }
        // RFC 6582 section 3.2 step 2 and section 4.1.
        let near = self.congestion.cwnd > self.smss && self.una - self.previous_una <= 4 * self.smss;
        self.policy.control == CongestionControl::Reno
            || self.una > self.recover
            || (self.policy.ack_heuristic && near)
    }

    fn enter_recovery(&mut self) {
        self.stats.recoveries += 1;
        // What limited transmit sent does not count (RFC 5681 section 3.2 step 2, RFC 6675 section 5 step 4.2).
        self.congestion.on_loss(self.flight.weigh(self.una, self.max).saturating_sub(self.limited));
        self.limited = 0;
        self.recover = self.max;
        self.resend = true;
        let head = self.head().end();
        if let Some(board) = &mut self.board {
            self.recovery = Recovery::Sack;
            self.congestion.cwnd = self.congestion.ssthresh;
            board.high_rxt = head;
            board.rescued = false;
            self.update_pipe();
        } else {
            self.recovery = Recovery::Fast { partial: false };
            self.congestion.cwnd = self.congestion.ssthresh + u64::from(DUP_THRESH) * self.smss;
        }
    }

    /// RFC 6582 section 3.2 step 3, partial acknowledgements: the next gap is a loss too.
    fn on_partial_ack(&mut self, acked: u64) {
        self.recovery = Recovery::Fast { partial: true };
        self.resend = true;
        let mut cwnd = self.congestion.cwnd.saturating_sub(acked);
        if acked >= self.smss {
            cwnd += self.smss;
        }
        self.congestion.cwnd = cwnd.max(self.smss);
    }

    /// RFC 6582 section 3.2 step 3, full acknowledgements; RFC 5681 section 3.2 step 6 for Reno.
    fn leave_fast_recovery(&mut self) {
        let (flight, smss) = (self.flight.weigh(self.una, self.max), self.smss);
        let ssthresh = self.congestion.ssthresh;
        self.congestion.cwnd = match self.policy.full_ack {
            FullAck::Flight if self.policy.control != CongestionControl::Reno => {
                ssthresh.min(flight.max(smss) + smss)
            }
            _ => ssthresh,
        };
        self.recovery = Recovery::Open;
        self.end_of_duplicates();
    }

    pub(super) fn end_of_duplicates(&mut self) {
        self.duplicates = 0;
        self.limited = 0;
    }

    fn update_pipe(&mut self) {
        let (una, max, smss) = (self.una, self.max, self.smss);
        if let Some(board) = self.board.as_mut().filter(|_| !self.policy.rack) {
            board.set_pipe(una, max, smss, &self.flight);
        }
    }

    /// NextSeg of RFC 6675 section 4, when `pipe` leaves room for a segment (section 5 step C).
    pub(super) fn next_by_sack(&mut self, now: Time, events: &mut VecDeque<Event>) -> Option<Segment> {
        let board = self.board.as_ref()?;
        let room = self.congestion.cwnd.saturating_sub(board.pipe);
        if room < self.smss {
            return None;
        }
        let hole = board.hole(board.high_rxt.max(self.una));
        let lost = board.lost_below(self.smss, &self.flight);
        if let Some(hole) = hole.filter(|hole| hole.start < lost) {
            return Some(self.fill(hole)); // rule 1
        }
        if let Some(segment) = self.next_new(now, room, events) {
            self.board.as_mut()?.pipe += self.flight.segment(segment.len); // rule 2
            return Some(segment);
        }
        match hole {
            Some(hole) => Some(self.fill(hole)), // rule 3
            None => self.rescue(),               // rule 4
        }
    }

    fn fill(&mut self, hole: Run) -> Segment {
        let segment = self.again(hole.start, hole.end);
        if let Some(board) = &mut self.board {
            board.high_rxt = segment.end();
            board.pipe += self.flight.segment(segment.len);
        }
        segment
    }

    /// Once in a recovery the last segment goes again, so that its loss does not need a timeout.
    fn rescue(&mut self) -> Option<Segment> {
        let (una, max, smss) = (self.una, self.max, self.smss);
        let board = self.board.as_mut()?;
        if board.rescued {
            return None;
        }
        board.rescued = true;
        let last = board.last_unreported(una, max);
        let start = last.start.max(last.end.saturating_sub(smss));
        let segment = (start < last.end).then(|| self.again(start, last.end))?;
        self.board.as_mut()?.pipe += self.flight.segment(segment.len);
        Some(segment)
    }
}
