//! A resume waits for the device: it is answered when that has taken it, and nothing moves the device before.

use taut_core::{DropCause, Time, Transport};
use taut_wire::session::{Answer, Body};

use super::{Robot, RobotEvent};

impl<T: Transport> Robot<T> {
    /// The device has taken the [`RobotEvent::Enabled`] of this epoch: only now the operator is told that the robot moves, and the device is told to. An epoch that is over
    /// changes nothing. Where it cannot move, [`stop`](Self::stop) says so instead, and the operator hears of a resume that was refused; so it does where nobody says anything
    /// within the watchdog's time.
    pub fn enabled(&mut self, now: Time, epoch: u32) {
        self.check(now);
        if self.safety.taken(now, epoch) {
            self.guard.enable(now);
            self.guards.values_mut().for_each(|guard| guard.enable(now));
            self.next_status = now;
            self.answer_resume(now, Answer::Done);
        }
        self.settle(now);
    }

    /// The resume that waited for the device, if one did.
    pub(super) fn answer_resume(&mut self, now: Time, answer: Answer) {
        if let Some((command, ages)) = self.resume.take() {
            self.answer_command(now, &command, answer, ages, Body::ResumeAck);
        }
    }

    /// What would move a device that has not taken its enabling is dropped.
    pub(super) fn withhold(&mut self, event: RobotEvent) -> Option<RobotEvent> {
        let cause = DropCause::Stopped;
        match event {
            RobotEvent::Apply { sequence, state, .. } if self.safety.is_waiting() => {
                let stream = self.counters.stream(crate::counters::stream_of(state.priority));
                stream.delivered -= 1;
                stream.dropped.add(cause);
                Some(RobotEvent::Dropped { sequence, cause })
            }
            RobotEvent::Move { channel, sequence, .. } if self.safety.is_waiting() => {
                self.sending.channels.discard(channel, sequence, cause);
                None
            }
            event => Some(event),
        }
    }
}
