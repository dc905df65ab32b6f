//! Which counters arrived already: of datagrams, of messages.

/// At 40,000 datagrams a second, it tells those of paths whose delays differ by 200 ms from copies.
pub type Window = taut_core::ReplayWindow<128>;

/// How far behind the newest counter one may be and still be told from a replay.
pub const REPLAY_WINDOW: u64 = Window::SPAN;
