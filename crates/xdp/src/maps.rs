//! The program's maps, as the knobs of a gate.

use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, MapError};
use taut_link::frame_gate::{Account, Knobs, Settings, Stream, StreamKey};

use super::GateError;
use super::classify::{FILTER_WORDS, MAX_FILTERS, VideoFilter};

/// `struct settings`: three words, three rooms of two, the filters.
const SETTINGS_WORDS: usize = 9 + MAX_FILTERS * FILTER_WORDS;

/// Elements of the map `shared`.
const BYTE_COUNT: u32 = 0;
const UNTRACKED: u32 = 1;

/// What user space and program share.
///
/// The knobs ([`Knobs`]) cannot fail, the system calls behind them can: [`Maps::check`] tells.
pub struct Maps {
    settings: Array<MapData, [u64; SETTINGS_WORDS]>,
    shared: Array<MapData, u64>,
    /// `struct account`: level, as of when, unused.
    account: Array<MapData, [u64; 3]>,
    streams: HashMap<MapData, u64, [u64; Stream::WORDS]>,
    filters: Vec<VideoFilter>,
    orders: Settings,
    failed: Option<MapError>,
}

impl Maps {
    pub(crate) fn new(bpf: &mut Ebpf, filters: &[VideoFilter]) -> Result<Self, GateError> {
        let mut take = |name: &str| bpf.take_map(name).expect("the program has this map");
        let mut maps = Self {
            settings: Array::try_from(take("settings"))?,
            shared: Array::try_from(take("shared"))?,
            account: Array::try_from(take("account"))?,
            streams: HashMap::try_from(take("streams"))?,
            filters: filters.to_vec(),
            orders: Settings::default(),
            failed: None,
        };
        maps.set(Settings::default());
        maps.check()?;
        Ok(maps)
    }

    /// The first failure of a knob since the last call.
    ///
    /// # Errors
    /// What the system said.
    pub fn check(&mut self) -> Result<(), MapError> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn note<T: Default>(&mut self, outcome: Result<T, MapError>) -> T {
        outcome.unwrap_or_else(|error| {
            self.failed.get_or_insert(error);
            T::default()
        })
    }

    fn write(&mut self, index: u32, value: u64) {
        let outcome = self.shared.set(index, value, 0);
        self.note(outcome);
    }

    fn read(&mut self, index: u32) -> u64 {
        let outcome = self.shared.get(&index, 0);
        self.note(outcome)
    }

    /// What is video, in the order of [`StreamKey::filter`].
    pub fn filters(&self) -> &[VideoFilter] {
        &self.filters
    }

    /// C_byte.
    pub fn byte_count(&mut self) -> u64 {
        self.read(BYTE_COUNT)
    }

    /// Packets that passed because there were too many streams.
    pub fn untracked(&mut self) -> u64 {
        self.read(UNTRACKED)
    }

    /// When the program last brought its account up to date, on the monotonic clock.
    pub fn drained_at_ns(&mut self) -> u64 {
        self.account_then()[1]
    }

    /// Level, and what was unused, then.
    pub fn level_then(&mut self) -> (u64, u64) {
        let [level, _, unused] = self.account_then();
        (level, unused)
    }

    fn account_then(&mut self) -> [u64; 3] {
        let outcome = self.account.get(&0, 0);
        self.note(outcome)
    }

    fn drained(&mut self, now_ns: u64) -> (u64, u64) {
        let [level, then, unused] = self.account_then();
        let elapsed = now_ns.saturating_sub(then).min(8_000_000_000);
        let sent = elapsed * self.orders.rate.min(Settings::RATE_MAX) / 1_000_000_000;
        (level.saturating_sub(sent), unused + sent.saturating_sub(level))
    }

    /// What the program remembers of every stream, sorted.
    pub fn streams(&mut self) -> Vec<(StreamKey, Stream)> {
        // A stream that is forgotten meanwhile is no failure.
        let mut streams: Vec<(StreamKey, Stream)> = self
            .streams
            .iter()
            .filter_map(Result::ok)
            .map(|(key, words)| (StreamKey::from_word(key), Stream::from_words(&words)))
            .collect();
        streams.sort_unstable_by_key(|(key, _)| *key);
        streams
    }

    /// One stream.
    pub fn stream(&self, key: StreamKey) -> Option<Stream> {
        self.streams.get(&key.to_word(), 0).ok().map(|words| Stream::from_words(&words))
    }

    /// Forgets a stream.
    pub fn forget(&mut self, key: StreamKey) {
        // It may be gone already.
        let _ = self.streams.remove(&key.to_word());
    }
}

impl Knobs for Maps {
    fn set(&mut self, settings: Settings) {
        let Settings { rate_limit, by_deadline, rate, rooms } = settings;
        let mut words = [0; SETTINGS_WORDS];
        words[..3].copy_from_slice(&[rate_limit, by_deadline.into(), rate.min(Settings::RATE_MAX)]);
        for (room, place) in rooms.iter().zip(words[3..9].chunks_exact_mut(2)) {
            place.copy_from_slice(&[room.before, room.with]);
        }
        for (filter, place) in self.filters.iter().zip(words[9..].chunks_exact_mut(FILTER_WORDS)) {
            place.copy_from_slice(&filter.words());
        }
        self.orders = settings;
        let outcome = self.settings.set(0, words, 0);
        self.note(outcome);
    }

    fn reset_count(&mut self) {
        self.write(BYTE_COUNT, 0);
    }

    fn account(&mut self, now_ns: u64) -> Account {
        let (level, unused) = self.drained(now_ns);
        Account { level, unused, offered: self.streams().iter().map(|(_, stream)| stream.offered()).sum() }
    }

    fn set_level(&mut self, now_ns: u64, bytes: u64) {
        let (_, unused) = self.drained(now_ns);
        let outcome = self.account.set(0, [bytes, now_ns, unused], 0);
        self.note(outcome);
    }
}
