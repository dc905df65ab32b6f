//! Who is due next: a 4-ary heap that holds each component once, at the time of its current deadline.
//!
//! Packets wait inside links, never here, so the agenda is as large as the network and no larger, however many packets
//! are under way. Components due at the same time come in the order of their numbers.

const ARITY: usize = 4;
const NEVER: u64 = u64::MAX;

/// Deadlines by component, `0..count`.
pub(crate) struct Agenda {
    /// Due time of each component, in nanoseconds; [`NEVER`] when it has none.
    due: Vec<u64>,
    /// Components in heap order.
    heap: Vec<u32>,
    /// Where each component is in `heap`.
    place: Vec<u32>,
}

impl Agenda {
    pub(crate) fn new(count: usize) -> Self {
        let all: Vec<u32> = (0..u32::try_from(count).expect("fewer than 2^32 components")).collect();
        Self { due: vec![NEVER; count], heap: all.clone(), place: all }
    }

    /// The component that is due first, and when.
    pub(crate) fn first(&self) -> Option<(u64, usize)> {
        let component = *self.heap.first()? as usize;
        let due = self.due[component];
        (due != NEVER).then_some((due, component))
    }

    /// Sets or clears a component's deadline.
    pub(crate) fn set(&mut self, component: usize, due: Option<u64>) {
        let due = due.unwrap_or(NEVER);
        let before = std::mem::replace(&mut self.due[component], due);
        let place = self.place[component] as usize;
        match due.cmp(&before) {
            std::cmp::Ordering::Less => self.rise(place),
            std::cmp::Ordering::Greater => self.sink(place),
            std::cmp::Ordering::Equal => {}
        }
    }

    fn key(&self, component: u32) -> (u64, u32) {
        (self.due[component as usize], component)
    }

    fn put(&mut self, place: usize, component: u32) {
        self.heap[place] = component;
        self.place[component as usize] = place as u32;
    }

    fn rise(&mut self, mut place: usize) {
        let component = self.heap[place];
        let key = self.key(component);
        while place > 0 {
            let above = (place - 1) / ARITY;
            if self.key(self.heap[above]) <= key {
                break;
            }
            self.put(place, self.heap[above]);
            place = above;
        }
        self.put(place, component);
    }

    fn sink(&mut self, mut place: usize) {
        let component = self.heap[place];
        let key = self.key(component);
        loop {
            let first = place * ARITY + 1;
            let below = first..(first + ARITY).min(self.heap.len());
            let Some(least) = below.min_by_key(|&p| self.key(self.heap[p])) else { break };
            if key <= self.key(self.heap[least]) {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, component);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Seed;

    #[test]
    fn the_earliest_comes_first_and_ties_go_by_number() {
        let mut rng = Seed::new(3).stream("agenda");
        let mut agenda = Agenda::new(37);
        let mut plain = vec![None; 37];
        for _ in 0..20_000 {
            let component = rng.below(37) as usize;
            let due = (rng.below(5) > 0).then(|| rng.below(100));
            agenda.set(component, due);
            plain[component] = due;
            let expected = (0..37).filter_map(|c| plain[c].map(|due| (due, c))).min();
            assert_eq!(agenda.first(), expected);
        }
    }

    #[test]
    fn an_empty_agenda_has_nothing_due() {
        assert_eq!(Agenda::new(0).first(), None);
        assert_eq!(Agenda::new(3).first(), None);
    }
}
