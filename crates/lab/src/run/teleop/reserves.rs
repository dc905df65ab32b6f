//! How long the reserves of a control law last, told by the devices to what carries the session: messages are wanted before one is spent.

use std::cell::Cell;
use std::rc::Rc;

use taut_agent::{
    CoupledArm, CoupledHand, DeviceFailure, Measured, OperatorDevice, RobotDevice, Sample, SetPoint,
};
use taut_core::{Duration, Time};
use taut_session::motion::Motion;
use taut_session::{ChannelId, StopCause};
use taut_transport::stack::Side;

use crate::scenario::{ReserveOf, WantedSpec};

/// Of both ends, as of now.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct Reserves(Rc<Cell<[Option<Duration>; 2]>>);

impl Reserves {
    fn tell(&self, side: Side, lasts: Option<Duration>) {
        let mut both = self.0.get();
        both[side as usize] = lasts;
        self.0.set(both);
    }
}

/// How soon what one end says is to be at the other.
#[derive(Clone, Debug)]
pub(in crate::run) struct Wanted {
    pub(super) spec: WantedSpec,
    /// Who says it.
    pub(super) side: Side,
    pub(super) reserves: Reserves,
}

impl Wanted {
    /// At which age; `None`: at its deadline.
    pub(in crate::run) fn age(&self) -> Option<Duration> {
        let reserve = match self.spec {
            WantedSpec::Fixed(age) => return Some(age),
            WantedSpec::Reserve(reserve) => reserve,
        };
        let whose = match reserve.of {
            ReserveOf::Sender => self.side,
            ReserveOf::Receiver => self.side.peer(),
        };
        self.reserves.0.get()[whose as usize].map(|lasts| lasts.max(reserve.least))
    }
}

/// A hand under a law that tells.
pub(super) struct TellingHand<D>(pub(super) CoupledHand<D>, pub(super) Reserves);

impl<D: OperatorDevice> TellingHand<D> {
    fn tell(&self) {
        self.1.tell(Side::Opens, self.0.lasts());
    }
}

impl<D: OperatorDevice> OperatorDevice for TellingHand<D> {
    taut_agent::forward_operator_device!(self, self.0 => skip resumed feel receive limit_bitrate poll_message);
    fn sample(&mut self, now: Time) -> Option<Sample> {
        let sample = self.0.sample(now);
        self.tell();
        sample
    }
    fn lost(&mut self) {
        self.0.lost();
        self.tell();
    }
}

/// An arm under a law that tells.
pub(super) struct TellingArm<D>(pub(super) CoupledArm<D>, pub(super) Reserves);

impl<D: RobotDevice> TellingArm<D> {
    fn tell(&self) {
        self.1.tell(Side::Waits, self.0.lasts());
    }
}

impl<D: RobotDevice> RobotDevice for TellingArm<D> {
    taut_agent::forward_robot_device!(self => self.0);
    fn enable(&mut self) -> Result<(), DeviceFailure> {
        self.0.enable()
    }
    fn apply(&mut self, point: &SetPoint) -> bool {
        self.0.apply(point)
    }
    fn drive(&mut self, channel: ChannelId, motion: &Motion, lease: Duration) -> bool {
        self.0.drive(channel, motion, lease)
    }
    fn stop(&mut self, cause: StopCause) {
        self.0.stop(cause);
        self.tell();
    }
    fn measure(&mut self) -> Option<Measured> {
        let measured = self.0.measure();
        self.tell();
        measured
    }
    fn failure(&mut self) -> Option<DeviceFailure> {
        self.0.failure()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ReserveSpec;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_is_said_is_wanted_before_the_reserve_is_spent_but_no_sooner_than_it_can_come() {
        let reserves = Reserves::default();
        let of = |side, of| {
            let spec = WantedSpec::Reserve(ReserveSpec { of, least: MS * 30 });
            Wanted { spec, side, reserves: reserves.clone() }
        };
        let operator = of(Side::Opens, ReserveOf::Receiver);
        assert_eq!(operator.age(), None, "nothing is known of the robot");
        reserves.tell(Side::Waits, Some(MS * 80));
        assert_eq!(operator.age(), Some(MS * 80));
        assert_eq!(of(Side::Waits, ReserveOf::Sender).age(), Some(MS * 80));
        assert_eq!(of(Side::Waits, ReserveOf::Receiver).age(), None);
        reserves.tell(Side::Waits, Some(Duration::ZERO));
        assert_eq!(operator.age(), Some(MS * 30));
        let fixed = Wanted { spec: WantedSpec::Fixed(MS * 5), side: Side::Opens, reserves };
        assert_eq!(fixed.age(), Some(MS * 5));
    }
}
