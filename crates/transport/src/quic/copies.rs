//! Copies of samples on several paths, and the choice of a path for each.

use std::collections::VecDeque;

use bytes::Bytes;
use noq_proto::{PathId as QuicPath, PathStatus};
use taut_core::DropCause;

use super::config::PathUse;
use super::library::Connection;
use crate::window::Window;

/// What was sent over which path, and what was received.
#[derive(Debug)]
pub(super) struct Copies {
    path_use: PathUse,
    next_number: u64,
    /// Those that are to go over other paths than the one at work.
    waiting: VecDeque<(QuicPath, Bytes)>,
    /// The path that the sample in noq's buffer is for.
    steered: Option<QuicPath>,
    /// The path on which the peer was heard last.
    heard: Option<QuicPath>,
    seen: Window,
    /// Given to QUIC.
    pub(super) sent: u64,
}

impl Copies {
    pub(super) fn new(path_use: PathUse) -> Self {
        Self {
            path_use,
            next_number: 0,
            waiting: VecDeque::new(),
            steered: None,
            heard: None,
            seen: Window::new(),
            sent: 0,
        }
    }

    /// The next sample's.
    pub(super) fn next_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// The peer was heard on this path.
    pub(super) fn hear(&mut self, path: Option<QuicPath>) {
        self.heard = path.or(self.heard);
    }

    /// Did it ever choose the path of a copy?
    pub(super) const fn steers(&self) -> bool {
        self.steered.is_some()
    }

    /// Is that number a sample's that was not received yet?
    pub(super) fn is_first(&mut self, number: u64) -> bool {
        let first = number <= u64::MAX / 2 && self.seen.is_new(number);
        if first {
            self.seen.record(number);
        }
        first
    }

    pub(super) fn abandon(&mut self) {
        self.waiting.clear();
    }

    /// Sends the next copy that waits, when the one before has left. Says whether a sample may follow; and if not, whether
    /// an urgent one would go where the copy at work does.
    pub(super) fn go_on(&mut self, quic: &mut impl Connection, open: &[QuicPath]) -> (bool, bool) {
        if !quic.holds_sample()
            && let Some((path, frame)) = self.waiting.pop_front()
        {
            let _ = self.send_copy(quic, path, frame, open);
        }
        (self.waiting.is_empty() && !quic.holds_sample(), self.path_use == PathUse::Duplicate)
    }

    /// Sends a sample, or its first copy.
    pub(super) fn send(
        &mut self,
        quic: &mut impl Connection,
        frame: Bytes,
        open: &[QuicPath],
    ) -> Result<(), DropCause> {
        match (self.path_use, open) {
            (PathUse::Duplicate, [_, _, ..]) => {
                // Acknowledgements leave where the last copy did: that is where the peer was heard last, and no path that died.
                let last = self.heard.filter(|heard| open.contains(heard)).unwrap_or(open[open.len() - 1]);
                let mut order = open.iter().filter(|path| **path != last).chain([&last]);
                let first = order.next().map_or(last, |path| *path);
                self.waiting.extend(order.map(|path| (*path, frame.clone())));
                let sent = self.send_copy(quic, first, frame, open);
                if sent.is_err() {
                    self.waiting.clear();
                }
                sent
            }
            (PathUse::Duplicate, [only]) if self.steered.is_some_and(|steered| steered != *only) => {
                // The one that was available last is no more.
                self.send_copy(quic, *only, frame, open)
            }
            _ => {
                self.sent += 1;
                quic.send_sample(frame)
            }
        }
    }

    /// noq sends over the paths that are available, and has no choice for each datagram (draft-ietf-quic-multipath section
    /// 3.3): so for the time of one copy its path is the only one that is.
    fn send_copy(
        &mut self,
        quic: &mut impl Connection,
        path: QuicPath,
        frame: Bytes,
        open: &[QuicPath],
    ) -> Result<(), DropCause> {
        if !open.contains(&path) {
            return Ok(());
        }
        self.steer(quic, path, open);
        self.sent += 1;
        quic.send_sample(frame)
    }

    fn steer(&mut self, quic: &mut impl Connection, path: QuicPath, open: &[QuicPath]) {
        self.steered = Some(path);
        let Some(quic) = quic.multipath() else { return };
        for other in open {
            let status = if *other == path { PathStatus::Available } else { PathStatus::Backup };
            let _ = quic.set_path_status(*other, status);
        }
    }

    /// A copy does not leave over its path, whose window is full: another one takes it. What the peer hears last is then that
    /// one's status, so that its answers come that way.
    pub(super) fn release(&mut self, quic: &mut impl Connection, open: &[QuicPath]) -> bool {
        if self.path_use != PathUse::Duplicate || !quic.holds_sample() {
            return false;
        }
        let at = open.iter().position(|path| Some(*path) == self.steered).unwrap_or(0);
        let Some(other) = open.get((at + 1) % open.len().max(1)).filter(|_| open.len() > 1) else {
            return false;
        };
        self.steer(quic, *other, open);
        true
    }
}
