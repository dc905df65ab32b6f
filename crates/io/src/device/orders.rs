//! What a device in another process is to be told next.

use taut_agent::SetPoint;
use taut_core::{Duration, Time};
use taut_session::{State, StopCause};

use super::lines::{Apply, DeviceLimits, Order};

/// What waits to be written to a device: the newest of each kind, a stop ahead of all. Sans-IO; its time is of one clock.
///
/// Nothing but a stop is written before the device has read what was written before: so at most one set point is ahead of a
/// stop, and what waits makes way for what is newer.
#[derive(Debug)]
pub(super) struct Orders {
    stop: Option<StopCause>,
    last_stop: StopCause,
    limits: Option<DeviceLimits>,
    enable: bool,
    /// And until when it is worth anything.
    point: Option<(State, Time)>,
    /// Enabled, and not stopped since.
    moves: bool,
    /// When the device has to have read what was written.
    unread: Option<Time>,
    dropped: u64,
}

/// What has no lease is read within this time.
const PATIENCE: Duration = Duration::from_secs(1);

impl Default for Orders {
    fn default() -> Self {
        Self {
            stop: None,
            last_stop: StopCause::Start,
            limits: None,
            enable: false,
            point: None,
            moves: false,
            unread: None,
            dropped: 0,
        }
    }
}

impl Orders {
    pub(super) fn limit(&mut self, limits: DeviceLimits) {
        self.limits = Some(limits);
    }

    pub(super) fn enable(&mut self) {
        (self.moves, self.enable) = (true, true);
    }

    pub(super) fn apply(&mut self, now: Time, point: &SetPoint) {
        let replaced =
            if self.moves { self.point.replace((point.state, now + point.lease)).is_some() } else { true };
        self.dropped += u64::from(replaced);
    }

    pub(super) fn stop(&mut self, cause: StopCause) {
        (self.moves, self.enable, self.stop) = (false, false, Some(cause));
        self.dropped += u64::from(self.point.take().is_some());
    }

    /// What is written now, if anything; `is_read`: the device has read all that was written before.
    pub(super) fn next(&mut self, now: Time, is_read: bool) -> Option<Order> {
        if is_read {
            self.unread = None;
        }
        if let Some(cause) = self.stop.take() {
            self.last_stop = cause;
            self.unread.get_or_insert(now + PATIENCE);
            return Some(Order::Stop(cause.name().to_owned()));
        }
        if !is_read {
            return None;
        }
        let (order, until) = if let Some(limits) = self.limits.take() {
            (Order::Limits(limits), now + PATIENCE)
        } else if std::mem::take(&mut self.enable) {
            (Order::Enable {}, now + PATIENCE)
        } else {
            let (state, until) = self.point.take()?;
            if until <= now {
                self.dropped += 1;
                return None;
            }
            (Order::Apply(Apply::new(&state, until - now)), until)
        };
        self.unread = Some(until);
        Some(order)
    }

    /// The stop that [`next`](Self::next) gave could not be written.
    pub(super) fn put_back(&mut self) {
        self.stop.get_or_insert(self.last_stop);
    }

    /// Is there something to write once the device has read the rest?
    pub(super) fn is_empty(&self) -> bool {
        self.stop.is_none() && self.limits.is_none() && !self.enable && self.point.is_none()
    }

    /// Until when the device has to read.
    pub(super) fn due(&self) -> Option<Time> {
        self.unread
    }

    /// It has not. True once for what was written.
    pub(super) fn is_overdue(&mut self, now: Time) -> bool {
        self.unread.take_if(|until| *until <= now).is_some()
    }

    /// Set points that were never written: a newer one or a stop came first, or they were too old.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn point(x: f32) -> SetPoint {
        let state = State { position: [x, 0.0, 0.0], ..State::at(Time::ZERO) };
        SetPoint { state, lease: Duration::from_millis(100) }
    }

    fn enabled() -> Orders {
        let mut orders = Orders::default();
        orders.enable();
        assert_eq!(orders.next(at(0), true), Some(Order::Enable {}));
        orders
    }

    fn x_and_lease(order: Option<Order>) -> (f32, f64) {
        match order {
            Some(Order::Apply(apply)) => (apply.position[0], apply.lease_ms),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_newest_set_point_is_written_once_the_last_one_is_read_with_the_lease_that_is_left() {
        let mut orders = enabled();
        orders.apply(at(0), &point(1.0));
        assert_eq!(orders.next(at(0), false), None, "the device has not read that it is enabled");
        orders.apply(at(1), &point(2.0));
        assert_eq!(x_and_lease(orders.next(at(11), true)), (2.0, 90.0));
        assert!(orders.is_empty() && orders.dropped() == 1);
    }

    #[test]
    fn a_stop_overtakes_what_waits_and_needs_no_reader() {
        let mut orders = enabled();
        orders.apply(at(0), &point(1.0));
        orders.stop(StopCause::Watchdog);
        assert_eq!(orders.next(at(0), false), Some(Order::Stop("watchdog".to_owned())));
        assert_eq!(orders.next(at(1), true), None);
        orders.apply(at(2), &point(2.0));
        assert_eq!(orders.next(at(2), true), None, "what is applied after a stop waits for nobody");
        assert_eq!(orders.dropped(), 2);
    }

    #[test]
    fn a_resume_after_a_stop_follows_it() {
        let mut orders = enabled();
        orders.stop(StopCause::Emergency);
        orders.enable();
        orders.apply(at(0), &point(1.0));
        assert_eq!(orders.next(at(0), true), Some(Order::Stop("emergency".to_owned())));
        assert_eq!(orders.next(at(0), true), Some(Order::Enable {}));
        assert!(matches!(orders.next(at(0), true), Some(Order::Apply(_))));
    }

    #[test]
    fn a_stop_takes_back_a_resume_that_was_not_written() {
        let mut orders = Orders::default();
        orders.enable();
        orders.stop(StopCause::Watchdog);
        assert!(matches!(orders.next(at(0), true), Some(Order::Stop(_))));
        assert!(orders.is_empty());
    }

    #[test]
    fn a_set_point_whose_lease_is_over_is_not_written() {
        let mut orders = enabled();
        orders.apply(at(0), &point(1.0));
        assert_eq!(orders.next(at(100), true), None);
        assert_eq!(orders.dropped(), 1);
    }

    #[test]
    fn a_device_that_does_not_read_within_the_lease_is_overdue_once() {
        let mut orders = enabled();
        orders.apply(at(0), &point(1.0));
        x_and_lease(orders.next(at(1), true));
        assert_eq!(orders.due(), Some(at(100)));
        assert!(!orders.is_overdue(at(99)) && orders.is_overdue(at(100)) && !orders.is_overdue(at(101)));
        // One that read in time is not.
        orders.apply(at(101), &point(2.0));
        x_and_lease(orders.next(at(101), true));
        assert_eq!(orders.next(at(150), true), None);
        assert!(!orders.is_overdue(at(300)));
    }
}
