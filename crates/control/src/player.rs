//! Messages that came unevenly, given on in even time.

use taut_core::{DropCause, Duration, HoldTarget, JitterBuffer, Played, Time};

/// Holds what came from the other end until its time: what a law hears is then always as old, so long after it was made as the
/// [target](HoldTarget) says.
///
/// What comes later than that is given on at once, where nothing newer was: a law that hears old news is better off than one that hears
/// none. Nothing is given on after it has expired, nor held until then. Energy is not held: [`tell`](crate::RobotEnd::tell) it when it comes.
///
/// ```
/// use taut_control::Player;
/// use taut_core::{Duration, HoldTarget, Time};
/// let ms = |n| Time::ZERO + Duration::from_millis(n);
/// let mut player = Player::new(HoldTarget::Fixed(Duration::from_millis(5)), Duration::from_millis(1));
/// player.receive(ms(10), ms(0), ms(100), "made at 0, came at 10");
/// assert_eq!(player.play(ms(14)), None);
/// assert_eq!(player.play(ms(15)), Some("made at 0, came at 10"));
/// ```
#[derive(Clone, Debug)]
pub struct Player<T> {
    buffer: JitterBuffer<Held<T>>,
    period: Duration,
    /// Came late, and is the newest.
    due: Option<Held<T>>,
    /// When the newest that was given on was made.
    played: Option<Time>,
    counts: PlayerCounts,
}

#[derive(Clone, Copy, Debug)]
struct Held<T> {
    made: Time,
    expires: Time,
    message: T,
}

/// What became of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlayerCounts {
    /// Given on.
    pub played: u64,
    /// Of these, after their time.
    pub late: u64,
    /// Not given on: a newer one was due in the same period or before.
    pub superseded: u64,
    /// Not given on: it came twice.
    pub duplicate: u64,
    /// Not given on: it had expired.
    pub expired: u64,
    /// Not given on: there was no room.
    pub overflow: u64,
    /// Not given on: motion [began anew](Player::clear) before its time.
    pub cleared: u64,
}

/// Messages that are held, at most.
const HELD: usize = 4_096;

impl<T: Copy> Player<T> {
    /// Asked every `period` what is due.
    pub fn new(target: HoldTarget, period: Duration) -> Self {
        Self {
            buffer: JitterBuffer::new(target, HELD),
            period,
            due: None,
            played: None,
            counts: PlayerCounts::default(),
        }
    }

    /// A message came that was made at `made`, by the same clock or by one that is off by as much every time. From `expires` on it is not given on.
    pub fn receive(&mut self, now: Time, made: Time, expires: Time, message: T) {
        let held = Held { made, expires, message };
        // Its time of making is its number: whatever overtook it waits behind it.
        let latest = Time::from_nanos(expires.as_nanos().saturating_sub(self.period.as_nanos())).max(now);
        match self.buffer.handle_expiring(now, made.as_nanos(), made, latest, held) {
            Ok(gone) => self.counts.overflow += u64::from(gone.is_some()),
            Err(DropCause::TooLate) if self.played.is_none_or(|played| made >= played) => {
                let older = self.due.as_ref().is_some_and(|due| due.made > made);
                self.counts.superseded += u64::from(self.due.is_some());
                if !older {
                    self.due = Some(held);
                }
            }
            Err(DropCause::Duplicate) => self.counts.duplicate += 1,
            Err(_) => self.counts.superseded += 1,
        }
    }

    /// A message came that is given on at once, ahead of all that is held.
    pub fn receive_at_once(&mut self, made: Time, expires: Time, message: T) {
        self.counts.superseded += u64::from(self.due.is_some());
        while self.buffer.drop_oldest().is_some() {
            self.counts.superseded += 1;
        }
        self.due = Some(Held { made, expires, message });
    }

    /// The newest message that is due by `now`, once.
    pub fn play(&mut self, now: Time) -> Option<T> {
        let mut newest: Option<(Held<T>, bool)> = self.due.take().map(|held| (held, true));
        while let Some(played) = self.buffer.poll(now) {
            // What is missing between two is lost, or comes late.
            let Played::Item { item, .. } = played else { continue };
            if item.expires <= now {
                self.counts.expired += 1;
                continue;
            }
            self.counts.superseded += u64::from(newest.is_some());
            if newest.as_ref().is_none_or(|(newest, _)| newest.made < item.made) {
                newest = Some((item, false));
            }
        }
        let (Held { made, expires, message }, is_late) = newest?;
        if expires <= now {
            self.counts.expired += 1;
            return None;
        }
        self.counts.played += 1;
        self.counts.late += u64::from(is_late);
        self.played = Some(made);
        Some(message)
    }

    /// Nothing from before is given on any more; what is known of the way stays.
    pub fn clear(&mut self) {
        self.counts.cleared += u64::from(self.due.take().is_some());
        while self.buffer.drop_oldest().is_some() {
            self.counts.cleared += 1;
        }
    }

    /// How long one that took the shortest way lately is held now.
    pub fn hold(&self) -> Duration {
        self.buffer.target()
    }

    /// So far.
    pub const fn counts(&self) -> PlayerCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::ZERO + MS * ms
    }

    /// Made every millisecond, asked every millisecond; when each was given on, of those that took so long.
    fn played(player: &mut Player<u64>, took: impl Fn(u64) -> u64, fresh_ms: u64) -> Vec<(u64, u64)> {
        let mut played = Vec::new();
        for now in 0..400u64 {
            for made in (0..300u64).filter(|made| made + took(*made) == now) {
                player.receive(at(now), at(made), at(made + fresh_ms), made);
            }
            played.extend(player.play(at(now)).map(|made| (made, now)));
        }
        played
    }

    #[test]
    fn what_came_unevenly_is_given_on_evenly_also_where_it_was_overtaken() {
        let mut player = Player::new(HoldTarget::Fixed(MS * 20), MS);
        let played = played(&mut player, |made| 10 + made * 7 % 21, 1_000);
        assert_eq!(played, (0..300).map(|made| (made, made + 30)).collect::<Vec<_>>());
        assert_eq!(player.counts(), PlayerCounts { played: 300, ..PlayerCounts::default() });
    }

    #[test]
    fn what_comes_late_is_given_on_at_once_unless_something_newer_was() {
        let mut player = Player::new(HoldTarget::Fixed(MS * 5), MS);
        // A stall: what was made from 100 to 139 comes together.
        let stalled = |made: u64| if (100..140).contains(&made) { 150 - made } else { 10 };
        let played = played(&mut player, stalled, 1_000);
        assert!(played.is_sorted() && played.iter().all(|(made, now)| now - made >= 11 || *now == 150));
        // 135 was due at that time; those before it are old news, those after it wait for theirs.
        assert!(played.contains(&(135, 150)) && played.contains(&(139, 154)), "{played:?}");
        let counts = player.counts();
        assert_eq!((counts.superseded, counts.played + counts.superseded), (35, 300), "{counts:?}");
        let mut player = Player::new(HoldTarget::Fixed(MS * 5), MS);
        for (now, made) in [(20, 0), (60, 1), (60, 2)] {
            player.receive(at(now), at(made * 10), at(1_000), made);
        }
        assert_eq!((player.play(at(60)), player.play(at(99))), (Some(2), None));
        player.receive(at(99), at(5), at(1_000), 9);
        assert_eq!((player.play(at(99)), player.counts().late, player.counts().superseded), (None, 1, 3));
    }

    #[test]
    fn nothing_is_held_until_it_expires_or_given_on_after_that() {
        let mut player = Player::new(HoldTarget::Fixed(MS * 50), MS);
        let played = played(&mut player, |_| 10, 31);
        assert_eq!(played, (0..300).map(|made| (made, made + 30)).collect::<Vec<_>>());
        // Nobody asks in time.
        player.receive(at(500), at(490), at(510), 1);
        assert_eq!((player.play(at(510)), player.counts().expired), (None, 1));
        player.receive_at_once(at(520), at(530), 2);
        assert_eq!((player.play(at(530)), player.counts().expired), (None, 2));
    }

    #[test]
    fn what_goes_at_once_leaves_what_is_held_behind_and_a_new_beginning_forgets_all() {
        let mut player = Player::new(HoldTarget::Fixed(MS * 50), MS);
        (0..5).for_each(|made| player.receive(at(made + 10), at(made), Time::MAX, made));
        player.receive_at_once(at(5), Time::MAX, 5);
        assert_eq!(
            (player.play(at(15)), player.play(at(100)), player.counts().superseded),
            (Some(5), None, 5)
        );
        player.receive(at(110), at(100), Time::MAX, 6);
        player.receive(at(110), at(100), Time::MAX, 6);
        player.clear();
        assert_eq!(player.play(at(400)), None);
        assert_eq!((player.counts().cleared, player.counts().duplicate), (1, 1));
    }
}
