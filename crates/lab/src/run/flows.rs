//! Flows of packets: whose they are, and what their transports counted.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use taut_agent::{Conversation, Refused, Trouble};
use taut_core::{Address, Message, SendError, Time, Transport, passes_on};
use taut_transport::mtip::ChoiceReport;
use taut_transport::stack::Stack;

use taut_report::result::FlowOwner;

use super::teleop::{NO_STATE, Wanted};

/// One flow of packets; its number is its place in the list of flows.
#[derive(Clone, Debug)]
pub(crate) struct FlowInfo {
    /// How results call it.
    pub(crate) name: String,
    /// Whose it is.
    pub(crate) owner: FlowOwner,
    /// What kind of traffic.
    pub(crate) kind: &'static str,
    /// The node that sends it.
    pub(crate) sender: Address,
    /// What its transport counted: empty before the run is over, and where there is no transport.
    pub(crate) counters: Counters,
}

/// Counts by name, shared between a transport inside the network and whoever reads them when it is gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters(Rc<RefCell<BTreeMap<String, u64>>>);

impl Counters {
    /// What was counted; empties it.
    pub(crate) fn take(&self) -> BTreeMap<String, u64> {
        self.0.take()
    }
}

/// A stack that leaves what it counted behind when it is dropped: the simulator drops its nodes at the end of a run. What one after the
/// other counts is added up.
pub(super) struct Counted {
    stack: Stack,
    counters: Counters,
    wanted: Option<Wanted>,
}

impl Counted {
    pub(super) fn new(stack: Stack, counters: Counters) -> Self {
        Self { stack, counters, wanted: None }
    }

    /// States and feedback are wanted so soon.
    pub(super) fn wanted(mut self, wanted: Option<Wanted>) -> Self {
        self.wanted = wanted;
        self
    }

    pub(super) fn stack(&self) -> &Stack {
        &self.stack
    }

    pub(super) fn stack_mut(&mut self) -> &mut Stack {
        &mut self.stack
    }

    fn whichever(&self) -> &dyn Transport {
        self.stack.whichever()
    }

    fn whichever_mut(&mut self) -> &mut dyn Transport {
        self.stack.whichever_mut()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counters = self.counters.0.borrow_mut();
        for (name, count) in self.stack.counts() {
            *counters.entry(name.to_owned()).or_default() += count;
        }
    }
}

impl Transport for Counted {
    fn send(&mut self, now: Time, mut message: Message) -> Result<(), SendError> {
        if message.tag & NO_STATE == 0 {
            message.wanted = self.wanted.as_ref().and_then(Wanted::age);
        }
        self.whichever_mut().send(now, message)
    }
    passes_on!(self, self.whichever_mut() => handle_input handle_timeout poll_transmit poll_event close);
    passes_on!(self, self.whichever_mut() => add_path remove_path set_origin);
    passes_on!(self, self.whichever() => poll_timeout uses_path round_trip send_rate delivered waiting);
}

/// As on sockets, but that nobody else asks for the robot.
impl Conversation for Counted {
    fn trouble(&self) -> Trouble {
        Trouble::NoAnswer
    }
    fn wakes_early(&self) -> bool {
        false
    }
    fn lingers(&self) -> bool {
        false
    }
    fn busy(&self) -> u64 {
        0
    }
    fn take_stranger(&mut self) -> Option<Refused> {
        None
    }
    fn choices(&self) -> Option<ChoiceReport> {
        self.stack.choices()
    }
    fn copies(&self) -> Option<(u64, u64)> {
        self.stack.copies()
    }
    fn stream_bytes(&self) -> Option<(u64, u64)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::PathId;
    use taut_transport::stack::{Bare, EveryPath};
    use taut_transport::udp::UdpConfig;

    #[test]
    fn what_is_watched_and_counted_has_its_paths_all_the_same() {
        let (counters, path) = (Counters::default(), PathId(4));
        let stack = Bare::EveryPath(EveryPath::new(UdpConfig::new())).into();
        let mut wire = Counted::new(stack, counters.clone());
        assert!(!wire.uses_path(path) && wire.add_path(Time::ZERO, path) && wire.uses_path(path));
        assert!(!wire.add_path(Time::ZERO, path), "it is known");
        wire.send(Time::ZERO, Message::default()).unwrap();
        assert_eq!(wire.poll_transmit(Time::ZERO, &mut Vec::new()).map(|sent| sent.path), Some(path));
        wire.remove_path(Time::ZERO, path);
        assert!(!wire.uses_path(path));
        drop(wire);
        assert_eq!(counters.take().get("offered"), Some(&1));
    }
}
