//! Copies of samples on several paths, and the choice of a path for each.

use std::collections::VecDeque;

use bytes::Bytes;
use noq_proto::{PathId as QuicPath, PathStatus};
use taut_core::{DropCause, Priority};

use super::config::PathUse;
use super::library::Connection;
use crate::window::Window;

/// What was sent over which path, and what was received.
#[derive(Debug)]
pub(super) struct Copies {
    path_use: PathUse,
    /// What is so urgent goes over every path.
    emergency: Option<Priority>,
    next_number: u64,
    /// Those that are to go over other paths than the one at work.
    waiting: VecDeque<(QuicPath, Bytes)>,
    /// The path that the sample in noq's buffer is for, or was last.
    steered: Option<QuicPath>,
    /// With fail-over, while an emergency goes over every path: what each is apart from that.
    usual: Vec<(QuicPath, PathStatus)>,
    /// The path on which the peer was heard last.
    heard: Option<QuicPath>,
    seen: Window,
    /// Given to QUIC.
    pub(super) sent: u64,
}

impl Copies {
    pub(super) fn new(path_use: PathUse, emergency: Option<Priority>) -> Self {
        Self {
            path_use,
            emergency,
            next_number: 0,
            waiting: VecDeque::new(),
            steered: None,
            usual: Vec::new(),
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

    /// May a path be given that status, or is it chosen here which of them stands by? Then it has the status afterwards.
    pub(super) fn leaves(&mut self, path: QuicPath, status: PathStatus) -> bool {
        if self.steered.is_none() {
            return true;
        }
        if self.path_use == PathUse::FailOver {
            self.usual.retain(|(other, _)| *other != path);
            self.usual.push((path, status));
        }
        false
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
        // One for a path that is no more goes nowhere.
        while !quic.holds_sample()
            && let Some((path, frame)) = self.waiting.pop_front()
        {
            let _ = self.send_copy(quic, path, frame, open);
        }
        let free = self.waiting.is_empty() && !quic.holds_sample();
        if free && self.path_use == PathUse::FailOver && self.steered.take().is_some() {
            self.restore(quic, open);
        }
        (free, self.steered.is_some() || self.path_use == PathUse::Duplicate)
    }

    /// All copies of an emergency have left.
    fn restore(&mut self, quic: &mut impl Connection, open: &[QuicPath]) {
        let usual = std::mem::take(&mut self.usual);
        let Some(quic) = quic.multipath() else { return };
        for (path, status) in usual.iter().filter(|(path, _)| open.contains(path)) {
            let _ = quic.set_path_status(*path, *status);
        }
    }

    /// Sends a sample, or its first copy: of an emergency one over each path, whatever they are for.
    pub(super) fn send(
        &mut self,
        quic: &mut impl Connection,
        frame: Bytes,
        priority: Priority,
        open: &[QuicPath],
    ) -> Result<(), DropCause> {
        let urgent = self.emergency.is_some_and(|emergency| priority <= emergency);
        let everywhere = urgent || self.path_use == PathUse::Duplicate;
        match open {
            [_, _, ..] if everywhere => {
                self.remember(quic, open);
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
            [only] if everywhere && self.steered.is_some_and(|steered| steered != *only) => {
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

    /// What each path is before an emergency chooses.
    fn remember(&mut self, quic: &mut impl Connection, open: &[QuicPath]) {
        if self.path_use != PathUse::FailOver || self.steered.is_some() {
            return;
        }
        let Some(quic) = quic.multipath() else { return };
        let status = |path: &QuicPath| Some((*path, quic.path_status(*path).ok()?));
        self.usual = open.iter().filter_map(status).collect();
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
        let steers = self.path_use == PathUse::Duplicate || self.steered.is_some();
        if !steers || !quic.holds_sample() {
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
