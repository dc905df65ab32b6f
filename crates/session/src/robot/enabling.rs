//! A resume waits for the device: it is answered when that has taken it, and nothing moves the device before.

use taut_core::{Time, Transport};
use taut_wire::session::{Answer, Body};

use super::Robot;

impl<T: Transport> Robot<T> {
    /// The device has taken the [`RobotEvent::Enabled`](super::RobotEvent::Enabled) of this epoch: only now the operator is told that the robot moves, and the device is told to, from where it is now. An epoch that is over
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
}
