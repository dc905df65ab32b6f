//! The agents of both ends as what a driver drives.

use taut_agent::{
    Alarm, Conversation, Operator, OperatorCommand, OperatorDevice, OperatorNote, Robot, RobotCommand,
    RobotDevice, RobotNote,
};
use taut_core::{Datagram, Deadline, Origin, PathId, Time, Transmit};

use super::carrier::Carrier;
use crate::Machine;
use crate::device::Guarded;

/// An operator on sockets.
pub type OperatorMachine<D> = Operator<Carrier, D>;
/// A robot on sockets, whose device is stopped also when its thread is held up.
pub type RobotMachine<P> = Robot<Carrier, Guarded<P>>;

/// Passes each verb on to the agent's own of that name.
macro_rules! machine {
    ($agent:ident, $device:ident, $command:ident, $note:ident, $has_peer:expr) => {
        impl<T: Conversation, D: $device> Machine for $agent<T, D> {
            type Command = $command;
            type Event = $note;

            fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
                $agent::handle_input(self, now, input);
            }
            fn handle_timeout(&mut self, now: Time) {
                $agent::handle_timeout(self, now);
            }
            fn handle_command(&mut self, now: Time, command: $command) {
                $agent::handle_command(self, now, command);
            }
            fn handle_alarm(&mut self, now: Time, alarm: Alarm) {
                $agent::handle_alarm(self, now, alarm);
            }
            fn alarm_voids(command: &$command) -> bool {
                command.is_voided_by_alarm()
            }
            fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
                $agent::poll_transmit(self, now, buffer)
            }
            fn poll_event(&mut self, now: Time) -> Option<$note> {
                $agent::poll_event(self, now)
            }
            fn poll_timeout(&self) -> Option<Deadline> {
                $agent::poll_timeout(self)
            }
            fn uses_path(&self, path: PathId) -> bool {
                self.transport().uses_path(path)
            }
            fn has_peer(&self) -> bool {
                $has_peer(self)
            }
            fn remove_path(&mut self, now: Time, path: PathId) {
                $agent::remove_path(self, now, path);
            }
            fn set_origin(&mut self, path: PathId, origin: Origin) {
                self.transport_mut().set_origin(path, origin);
            }
        }
    };
}

// Who dials has the paths of whom he dialled.
machine!(Operator, OperatorDevice, OperatorCommand, OperatorNote, |_: &Self| true);
machine!(Robot, RobotDevice, RobotCommand, RobotNote, |robot: &Self| robot.session().has_operator());
