//! Who looks on at one end of a session, and writes what it sees into that end's book.

use std::cell::RefCell;
use std::rc::Rc;

use taut_agent::{Observed, SessionObserver};
use taut_core::{Bytes, PacketMeta, PathId, Time};
use taut_session::OperatorEvent;
use taut_sim::NodeClock;

use super::books::{Book, Moment};
use super::devices::RunClock;
use super::notes::Scribe;
use super::record::Transit;
use crate::lever;
use crate::run::agent::{Account, Agent, Events};
use crate::scenario::Direction;
use taut_transport::stack::Side;

/// The clocks of this end, and of the operator's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    pub(super) own: NodeClock,
    pub(super) operator: NodeClock,
}

/// What the node of an end and its agent's observer share.
pub(super) struct Page {
    pub(super) scribe: Scribe,
    pub(super) book: Book,
    pub(super) clocks: Clocks,
    pub(super) run: RunClock,
    /// How the packet went that is being handled.
    pub(super) transit: Option<Transit>,
    pub(super) events: Events,
}

impl Page {
    fn moment(&self, at: Time) -> Moment {
        let now = self.clocks.own.when(at);
        let operator_ahead_ns = self.clocks.operator.read(now).as_nanos() as i64 - at.as_nanos() as i64;
        Moment { now, transit: self.transit, operator_ahead_ns }
    }
}

/// Writes what an agent shows into its book.
#[derive(Clone)]
pub(super) struct Onlooker(pub(super) Rc<RefCell<Page>>);

impl SessionObserver for Onlooker {
    fn on_event(&mut self, at: Time, event: Observed<'_>) {
        let page = &mut *self.0.borrow_mut();
        if let Observed::Operator(OperatorEvent::Feedback { state, .. }) = event {
            page.book.record.borrow_mut().control.feels(Some(lever::at_lever(state)[2]));
        }
        if let Some(note) = page.scribe.note(event) {
            let moment = page.moment(at);
            page.book.write(moment, note);
            page.events.borrow_mut().append(&mut page.book.events);
        }
    }

    fn reads_messages(&self) -> bool {
        true
    }
}

impl Account for Onlooker {
    /// Also what the robot knows of the operator's clock before something happens.
    fn begins(&mut self, now: Time, agent: &Agent, arrived: Option<&PacketMeta>) {
        let page = &mut *self.0.borrow_mut();
        if let Agent::Robot(agent) = agent {
            let moment = page.moment(now);
            page.book.knows(moment, agent.session().clock(now));
        }
        let at = page.clocks.own.when(now);
        page.run.advance(at);
        page.transit = arrived.map(|meta| page.book.record.borrow().transit(at, meta));
    }

    fn done(&mut self) {
        self.0.borrow_mut().transit = None;
    }

    fn sent(&mut self, _path: PathId, size: Bytes) {
        let page = self.0.borrow();
        let way = match page.scribe.side {
            Side::Opens => Direction::Forward,
            Side::Waits => Direction::Backward,
        };
        page.book.record.borrow_mut().sent(page.run.now(), way, size);
    }
}
