//! A datagram on every path for every message.

use taut_core::{Datagram, Origin, PathId, Time, Transmit, Transport, passes_on};

use crate::udp::{Udp, UdpConfig};

/// UDP that sends each message over all of its paths at once, and tells its receiver's user of each copy. What it has in time
/// is the most that could be had by any choice of paths that sends nothing later: a bound to measure others by.
///
/// The end that waits sends over the paths from which it was heard.
#[derive(Debug)]
pub struct EveryPath {
    udp: Udp,
    paths: Vec<PathId>,
    /// What is being sent, and over which of the paths next.
    current: Vec<u8>,
    next: Option<usize>,
    copies: u64,
}

/// Paths at most.
const MAX_PATHS: usize = crate::mtip::MAX_PATHS;

impl EveryPath {
    /// An end without paths.
    pub fn new(config: UdpConfig) -> Self {
        Self { udp: Udp::new(config), paths: Vec::new(), current: Vec::new(), next: None, copies: 0 }
    }

    /// Messages that were offered.
    pub fn offered(&self) -> u64 {
        self.udp.stats().offered
    }

    /// Copies of them that were sent.
    pub fn copies(&self) -> u64 {
        self.copies
    }

    fn learn(&mut self, path: PathId) -> bool {
        let added = self.paths.len() < MAX_PATHS && !self.paths.contains(&path);
        if added {
            self.paths.push(path);
        }
        added
    }
}

impl Transport for EveryPath {
    passes_on!(self, self.udp => send handle_timeout poll_event poll_timeout close abandon round_trip send_rate delivered waiting);
    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.learn(input.path);
        self.udp.handle_input(now, input);
    }
    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        if self.next.is_none() && !self.paths.is_empty() {
            self.current.clear();
            self.udp.poll_transmit(now, &mut self.current)?;
            self.next = Some(0);
        }
        let at = self.next?;
        let path = self.paths[at];
        self.next = Some(at + 1).filter(|next| *next < self.paths.len());
        self.copies += 1;
        buffer.extend_from_slice(&self.current);
        Some(Transmit { path, ..Transmit::default() })
    }
    fn add_path(&mut self, _: Time, path: PathId) -> bool {
        self.learn(path)
    }
    fn remove_path(&mut self, _: Time, path: PathId) {
        let Some(gone) = self.paths.iter().position(|known| *known == path) else { return };
        self.paths.remove(gone);
        // Of what is on its way, the other paths had their copies or get them.
        let next = self.next.map(|next| next - usize::from(gone < next));
        self.next = next.filter(|next| *next < self.paths.len());
    }
    fn set_origin(&mut self, _: PathId, _: Origin) {}
    fn uses_path(&self, path: PathId) -> bool {
        self.paths.contains(&path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::{Ecn, Message};

    fn copies(end: &mut EveryPath) -> Vec<u8> {
        let mut buffer = Vec::new();
        std::iter::from_fn(|| end.poll_transmit(Time::ZERO, &mut buffer)).map(|sent| sent.path.0).collect()
    }

    #[test]
    fn a_message_takes_every_path_that_there_is() {
        let mut end = EveryPath::new(UdpConfig::new());
        let message = || Message { data: vec![1, 2], ..Message::default() };
        end.send(Time::ZERO, message()).unwrap();
        assert!(copies(&mut end).is_empty(), "it waits for a path");
        assert!((0..3).all(|path| end.add_path(Time::ZERO, PathId(path))));
        assert!(!end.add_path(Time::ZERO, PathId(1)), "it is known");
        assert_eq!(copies(&mut end), [0, 1, 2]);
        end.remove_path(Time::ZERO, PathId(1));
        let input = Datagram { path: PathId(9), ecn: Ecn::NotCapable, data: &[7], padding: 0 };
        end.handle_input(Time::ZERO, input);
        end.send(Time::ZERO, message()).unwrap();
        assert_eq!(copies(&mut end), [0, 2, 9]);
        assert!(end.uses_path(PathId(9)) && !end.uses_path(PathId(1)));
        assert_eq!((end.offered(), end.copies()), (2, 6));
    }

    #[test]
    fn a_path_that_goes_amid_a_message_gives_no_other_a_second_copy() {
        for (gone, rest) in [(0, [2, 3]), (1, [2, 3])] {
            let mut end = EveryPath::new(UdpConfig::new());
            (0..4).for_each(|path| assert!(end.add_path(Time::ZERO, PathId(path))));
            end.send(Time::ZERO, Message::default()).unwrap();
            for path in 0..2 {
                let sent = end.poll_transmit(Time::ZERO, &mut Vec::new());
                assert_eq!(sent.map(|sent| sent.path), Some(PathId(path)));
            }
            end.remove_path(Time::ZERO, PathId(gone));
            assert_eq!((copies(&mut end), end.copies()), (rest.to_vec(), 4));
        }
    }
}
