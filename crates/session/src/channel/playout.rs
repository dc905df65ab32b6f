//! Messages that came unevenly are given on in even time.

use taut_core::{DropCause, Duration, HoldTarget, JitterBuffer, Played, Time};

use super::incoming::{Outcome, Whole};

/// When a receiver gives a channel's messages on.
///
/// Held messages are given on in their order and with the spacing with which they were made: one that took the shortest way lately is held for
/// all of the delay, others for what their way left of it. One that comes later than that is dropped as too late, as is one that is past its
/// deadline by then. Motion is never held, nor is what arrives in any case ([`Delivery::Reliable`](crate::Delivery)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Playout {
    /// As they come.
    #[default]
    AtOnce,
    /// So long after the shortest way.
    Fixed(Duration),
    /// Four times the interarrival jitter (RFC 3550 section 6.4.1) after the shortest way, within these bounds.
    Adaptive {
        /// At least.
        min: Duration,
        /// At most.
        max: Duration,
    },
}

/// Of a bell-shaped jitter nearly all is within four times its mean deviation.
const MULTIPLE: u64 = 4;
/// Messages that are held, at most: two seconds of sound in packets of 10 ms.
const HELD: usize = 256;

/// Holds what came until its time.
#[derive(Debug)]
pub(super) struct Player {
    buffer: JitterBuffer<HeldMessage>,
    bytes: usize,
    deadline: Option<Duration>,
    /// Bytes that are held at most.
    limit: usize,
}

#[derive(Debug)]
struct HeldMessage {
    came: Time,
    whole: Whole,
}

impl Player {
    /// `None`: nothing is held.
    pub(super) fn new(playout: Playout, deadline: Option<Duration>, limit: usize) -> Option<Self> {
        let target = match playout {
            Playout::AtOnce => return None,
            Playout::Fixed(delay) => HoldTarget::Fixed(delay),
            Playout::Adaptive { min, max } => HoldTarget::Adaptive { multiple: MULTIPLE, min, max },
        };
        Some(Self { buffer: JitterBuffer::new(target, HELD), bytes: 0, deadline, limit })
    }

    /// Bytes that are held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// There is no session any more: what is held is not given on.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = u64> {
        self.bytes = 0;
        std::iter::from_fn(|| self.buffer.drop_oldest().map(|(sequence, _)| sequence))
    }

    /// When the next is given on.
    pub(super) fn due(&self) -> Option<Time> {
        self.buffer.poll_timeout().map(|deadline| deadline.at)
    }

    /// A message came. While the peer's clock is not known, nobody can say when its time is: it is given on at once.
    pub(super) fn take(&mut self, now: Time, whole: Whole, outcome: &mut Outcome) {
        let Some(stamp) = whole.stamp else { return outcome.whole.push(whole) };
        let (sequence, bytes) = (whole.sequence, whole.payload.len());
        let made = Time::from_nanos(stamp.created.0);
        match self.buffer.handle_input(now, sequence, made, HeldMessage { came: now, whole }) {
            Ok(gone) => {
                self.bytes += bytes;
                gone.into_iter().for_each(|gone| self.overflow(gone, outcome));
                while self.bytes > self.limit
                    && let Some(gone) = self.buffer.drop_oldest()
                {
                    self.overflow(gone, outcome);
                }
            }
            Err(cause) => {
                outcome.late += u64::from(cause == DropCause::TooLate);
                outcome.drop(sequence, cause);
            }
        }
    }

    fn overflow(&mut self, (sequence, held): (u64, HeldMessage), outcome: &mut Outcome) {
        self.bytes -= held.whole.payload.len();
        outcome.drop(sequence, DropCause::QueueFullPackets);
    }

    /// Gives on what is due.
    pub(super) fn play(&mut self, now: Time, outcome: &mut Outcome) {
        while let Some(played) = self.buffer.poll(now) {
            // What is missing between two was counted where it was lost.
            let Played::Item { sequence, item: HeldMessage { came, mut whole } } = played else { continue };
            self.bytes -= whole.payload.len();
            if let Some(stamp) = &mut whole.stamp {
                stamp.age.likely += now.saturating_since(came);
            }
            let age = whole.stamp.map(|stamp| stamp.age.likely);
            if age.zip(self.deadline).is_some_and(|(age, deadline)| age >= deadline) {
                outcome.late += 1;
                outcome.drop(sequence, DropCause::TooLate);
            } else {
                outcome.whole.push(whole);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Age, Stamp};
    use taut_core::PeerTime;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::ZERO + MS * ms
    }

    /// A message that was made at `made` and took so long, by a clock that is known.
    fn whole(sequence: u64, made_ms: u64, took_ms: u64) -> Whole {
        let age = Age { likely: MS * took_ms, uncertainty: Duration::ZERO };
        let stamp = Stamp { created: PeerTime(at(made_ms).as_nanos()), age };
        Whole { sequence, stamp: Some(stamp), payload: vec![0; 10] }
    }

    fn player(playout: Playout, deadline_ms: u64) -> Player {
        Player::new(playout, Some(MS * deadline_ms), 100).unwrap()
    }

    /// When each was given on, and how old it was.
    fn play(player: &mut Player, until: Time) -> Vec<(u64, Time, Duration)> {
        let mut played = Vec::new();
        while let Some(due) = player.due().filter(|due| *due <= until) {
            let mut outcome = Outcome::default();
            player.play(due, &mut outcome);
            let of = |whole: Whole| (whole.sequence, due, whole.stamp.unwrap().age.likely);
            played.extend(outcome.whole.into_iter().map(of));
        }
        played
    }

    #[test]
    fn what_came_unevenly_is_given_on_evenly_and_is_as_old_as_it_is_then() {
        let (mut player, mut played) = (player(Playout::Fixed(MS * 20), 200), Vec::new());
        for (sequence, took) in [10, 25, 12, 29, 11].into_iter().enumerate() {
            let sequence = sequence as u64;
            let came = at(sequence * 20 + took);
            played.extend(play(&mut player, came));
            let mut outcome = Outcome::default();
            player.take(came, whole(sequence, sequence * 20, took), &mut outcome);
            assert!(outcome.whole.is_empty() && outcome.dropped.is_empty());
        }
        played.extend(play(&mut player, Time::MAX));
        assert_eq!(played, (0..5).map(|i| (i, at(i * 20 + 30), MS * 30)).collect::<Vec<_>>());
        assert_eq!((player.bytes(), player.due()), (0, None));
    }

    #[test]
    fn what_comes_after_its_time_or_would_be_past_its_deadline_is_dropped_and_counted() {
        let mut player = player(Playout::Fixed(MS * 20), 28);
        let mut outcome = Outcome::default();
        player.take(at(5), whole(1, 0, 5), &mut outcome);
        player.take(at(50), whole(2, 20, 30), &mut outcome);
        assert_eq!(outcome.dropped, [(2, DropCause::TooLate)]);
        assert_eq!(play(&mut player, at(100)).len(), 1);
        // The way has become longer by 5 ms: what is held for 20 ms more is past its deadline.
        let late = Stamp {
            age: Age { likely: MS * 10, ..whole(3, 0, 0).stamp.unwrap().age },
            ..whole(3, 100, 0).stamp.unwrap()
        };
        player.take(at(105), Whole { stamp: Some(late), ..whole(3, 100, 10) }, &mut outcome);
        player.play(at(200), &mut outcome);
        assert_eq!(outcome.whole, []);
        assert_eq!((outcome.late, outcome.dropped[1]), (2, (3, DropCause::TooLate)));
    }

    #[test]
    fn what_is_held_is_bounded_and_the_oldest_makes_room() {
        let mut player = player(Playout::Fixed(MS * 900), 2_000);
        let mut outcome = Outcome::default();
        (0..14).for_each(|i| player.take(at(i + 5), whole(i, i, 5), &mut outcome));
        assert_eq!(outcome.dropped.len(), 4);
        assert_eq!(outcome.dropped[0], (0, DropCause::QueueFullPackets));
        assert_eq!(player.bytes(), 100);
        let unknown = Whole { stamp: None, ..whole(20, 0, 0) };
        player.take(at(30), unknown.clone(), &mut outcome);
        assert_eq!(outcome.whole, [unknown], "nobody knows when its time is");
    }

    #[test]
    fn an_adaptive_delay_follows_the_jitter() {
        let (min, max) = (MS * 2, MS * 60);
        let (mut player, mut held) = (player(Playout::Adaptive { min, max }, 500), Vec::new());
        for sequence in 0..400 {
            let took = 10 + if sequence < 200 { 0 } else { sequence % 2 * 8 };
            let came = at(sequence * 20 + took);
            held.extend(play(&mut player, came));
            player.take(came, whole(sequence, sequence * 20, took), &mut Outcome::default());
        }
        assert_eq!(held[150].2, MS * 12);
        assert!(held.last().unwrap().2 > MS * 35 && held.last().unwrap().2 <= MS * 70, "{:?}", held.last());
    }
}
