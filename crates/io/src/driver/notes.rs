//! What other threads ask for: alarms first, then commands.

use super::{Driver, MachineId};
use crate::mailbox::{Inbox, Note};
use crate::{Alarm, Machine};

impl<M: Machine> Driver<M> {
    /// Tells every machine of an alarm, if there is one. It waits for a machine where there is none.
    pub(super) fn take_alarm(&mut self, events: &mut impl FnMut(MachineId, M::Event)) {
        if self.slots.iter().all(Option::is_none) {
            return;
        }
        let Some((alarm, rings)) = self.inbox.take_alarm() else { return };
        self.alarms_told = rings;
        self.stats.alarms += 1;
        for index in 0..self.slots.len() {
            let Some(slot) = &mut self.slots[index] else { continue };
            let was_blocked = slot.is_blocked();
            slot.alarm(self.clock.now(), alarm);
            slot.pump(&self.clock, &mut |event| events(MachineId(index), event));
            self.settle(index, was_blocked);
        }
    }

    /// It is about to end: from here on [`alarm`](crate::Mailbox::alarm) says that nobody hears it. The last that somebody rang.
    pub(crate) fn close_alarms(&mut self) -> Option<Alarm> {
        self.inbox.close_bell()
    }

    pub(super) fn take_notes(&mut self, events: &mut impl FnMut(MachineId, M::Event)) {
        self.inbox.acknowledge();
        let beside = self.inbox.take_beside();
        let mut left = Inbox::<M::Command>::CAPACITY;
        while left > 0 {
            self.take_alarm(events);
            let Some(note) = self.inbox.next() else { break };
            self.take_note(note, events);
            left -= 1;
        }
        // All that left them no room was taken. Those that came meanwhile wait for the next turn.
        for note in beside {
            self.take_alarm(events);
            self.take_note(note, events);
        }
        self.inbox.beside_done();
        if left == 0 {
            self.inbox.wake();
        }
    }

    fn take_note(&mut self, note: Note<M::Command>, events: &mut impl FnMut(MachineId, M::Event)) {
        match note {
            Note::Stop => self.stopped = true,
            Note::Command(_, command, rings) if rings < self.alarms_told && M::alarm_voids(&command) => {
                self.stats.commands_void += 1;
            }
            Note::Command(id, command, _) => {
                let Some(Some(slot)) = self.slots.get_mut(id.0) else {
                    self.stats.commands_astray += 1;
                    return;
                };
                self.stats.commands += 1;
                let was_blocked = slot.is_blocked();
                slot.command(self.clock.now(), command);
                slot.pump(&self.clock, &mut |event| events(id, event));
                self.settle(id.0, was_blocked);
            }
        }
    }
}
