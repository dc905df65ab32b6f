//! Motion that comes over channels: nothing moves the robot that its guard did not let through.

use taut_core::{DropCause, Time, Transport};
use taut_wire::session::{DataHeader, StopCause, Verdict};

use super::{Robot, RobotEvent};
use crate::channel::Arrival;
use crate::motion::Motion;
use crate::safety::Source;
use crate::sync::Stamp;

impl<T: Transport> Robot<T> {
    /// Judges what came, and gives to the device what passes.
    pub(super) fn move_by_channels(&mut self, now: Time) {
        while let Some(arrival) = self.sending.channels.poll_motion() {
            let (channel, sequence) = (arrival.channel, arrival.sequence);
            match self.judge_motion(now, &arrival) {
                Err(cause) => self.sending.channels.discard(channel, sequence, cause),
                Ok((motion, stamp)) => {
                    let age = stamp.age.likely;
                    // The watchdog waits for motion, not for what was to become motion, and counts the time on its way.
                    self.safety.feed(Source::Channel(channel.0), now - age);
                    self.events.push_back(RobotEvent::Move { channel, sequence, motion, age });
                }
            }
        }
    }

    /// A message says that the enabling input is not held: that stops a robot which demands it, however old the message is, whatever
    /// overtook it, and also while nobody knows how old that is.
    pub(super) fn check_release(&mut self, now: Time, header: &DataHeader, frame: &[u8]) {
        if !self.config.hold_to_run {
            return;
        }
        for (piece, payload) in header.pieces(frame).map_while(Result::ok) {
            let Some(schema) = self.sending.channels.moves(&piece) else { continue };
            let releases = Motion::parse(schema, payload).is_ok_and(|motion| !motion.enabling());
            let sent = self.sync.peer_time(now, header.sent_us);
            let is_of_now = sent.is_none_or(|sent| {
                sent.0.saturating_sub(u64::from(piece.waited_us) * 1_000) >= self.floor_ns
            });
            if releases && is_of_now && self.safety.pause(StopCause::Released) {
                self.halt(now, StopCause::Released);
            }
        }
    }

    /// May it move the robot, and how?
    fn judge_motion(&mut self, now: Time, arrival: &Arrival) -> Result<(Motion, Stamp), DropCause> {
        let motion = Motion::parse(arrival.schema, &arrival.payload).map_err(|_| DropCause::Malformed)?;
        // Nobody knows how old it is: it may be of any age.
        let stamp = arrival.stamp.ok_or(DropCause::TooLate)?;
        let is_of_now = stamp.created.0 >= self.floor_ns;
        if stamp.age.most() >= self.config.oldest() {
            return Err(DropCause::TooLate);
        }
        if !self.safety.is_enabled() || !is_of_now {
            return Err(DropCause::Stopped);
        }
        // Of one that came in parts nobody has asked before.
        if self.config.hold_to_run && !motion.enabling() && self.safety.pause(StopCause::Released) {
            self.halt(now, StopCause::Released);
            return Err(DropCause::Stopped);
        }
        if self.safety.is_waiting() {
            return Err(DropCause::Stopped);
        }
        let guard = self.guards.get_mut(&arrival.channel.0).ok_or(DropCause::OutOfLimits)?;
        if !guard.admits(now) {
            return Err(DropCause::RateLimited);
        }
        // The resume may be long ago, and something else has moved the robot since: it begins where the robot is now.
        if let Some(since) = self.safety.begins(Source::Channel(arrival.channel.0), now) {
            guard.begin(now, since);
        }
        let cause = |verdict: Verdict| verdict.cause().unwrap_or(DropCause::OutOfLimits);
        guard.bound(now, &motion).map(|motion| (motion, stamp)).map_err(cause)
    }
}
