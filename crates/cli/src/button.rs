//! The emergency button on standard input: lines of bytes in, what is pressed out. Whatever goes wrong with it is a stop.

use std::collections::VecDeque;
use std::fmt;
use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use taut_core::{Duration, Time, printable};
use taut_io::session::Remote;
use taut_io::{Alarm, Clock, Machine, outrank, spawn_unprivileged};

use crate::lines::LineTaker;
use crate::streams::Complaints;

/// What a line means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word<C> {
    /// The emergency stop.
    Stop,
    Command(C),
    /// The last command: nothing that comes after it counts, its end neither.
    Quit(C),
    /// Nothing but that the button is there.
    Nothing,
}

/// What the button says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Press<C> {
    /// The emergency stop was pressed.
    Stop,
    Command(C),
    /// Nobody can rely on the button: a stop as well.
    Lost(Loss),
}

/// What went wrong with the button.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Loss {
    /// A line that means nothing, and what means something.
    Unknown(String, String),
    /// A line of more than [`LONGEST`] bytes.
    TooLong,
    /// Bytes that are no UTF-8.
    NotUtf8,
    /// Nothing for so long.
    Silent(Duration),
    /// End of file: the cable is cut.
    Ended,
    /// It cannot be read.
    Failed(String),
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(line, words) => write!(f, "`{}` is no command; there are {words}", printable(line)),
            Self::TooLong => write!(f, "a line is longer than {LONGEST} bytes"),
            Self::NotUtf8 => f.write_str("there are bytes that are no text"),
            Self::Silent(silence) => write!(f, "it has said nothing for {silence}"),
            Self::Ended => {
                f.write_str("standard input has ended; start this command anew to have a button again")
            }
            Self::Failed(error) => write!(f, "standard input: {error}"),
        }
    }
}

/// Bytes of a line at most.
pub(crate) const LONGEST: usize = 64;

/// The button, without input of its own. After its end nothing comes of it any more.
#[derive(Debug)]
pub(crate) struct Button<C: 'static> {
    words: &'static [(&'static str, Word<C>)],
    line: Vec<u8>,
    /// Until the next line: what is wrong with this one was said.
    skips: bool,
    heartbeat: Option<Duration>,
    /// When a line was recognised last.
    fed: Time,
    /// It was said that it is silent.
    silent: bool,
    ended: bool,
    presses: VecDeque<Press<C>>,
}

impl<C: Clone> Button<C> {
    /// A button that says `words`, and one of them at least every `heartbeat`.
    pub(crate) fn new(
        now: Time,
        words: &'static [(&'static str, Word<C>)],
        heartbeat: Option<Duration>,
    ) -> Self {
        Self {
            words,
            line: Vec::with_capacity(LONGEST),
            skips: false,
            heartbeat,
            fed: now,
            silent: false,
            ended: false,
            presses: VecDeque::new(),
        }
    }

    /// Bytes were read.
    pub(crate) fn handle_input(&mut self, now: Time, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.end_line(now),
                _ if self.skips || self.ended => {}
                byte => {
                    self.line.push(*byte);
                    self.check_line();
                }
            }
        }
    }

    /// Nothing more can be read.
    pub(crate) fn handle_end(&mut self, loss: Loss) {
        if !std::mem::replace(&mut self.ended, true) {
            self.presses.push_back(Press::Lost(loss));
        }
    }

    /// Time passes. What was read before is to be given before: a host that was late does not blame the button.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.poll_timeout().is_some_and(|due| now >= due) {
            self.silent = true;
            self.presses.push_back(Press::Lost(Loss::Silent(now - self.fed)));
        }
    }

    /// When its silence is too long.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let heartbeat = self.heartbeat.filter(|_| !self.silent && !self.ended)?;
        Some(self.fed + heartbeat)
    }

    /// What was pressed.
    pub(crate) fn poll(&mut self) -> Option<Press<C>> {
        self.presses.pop_front()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// A line was recognised, or is none. Of one reading each stop counts once, until something else is pressed: whoever floods standard
    /// input stops the robot as often as it is read, not as often as there are lines.
    fn press(&mut self, press: Press<C>) {
        let is_again = match self.presses.back() {
            Some(Press::Stop) => matches!(press, Press::Stop),
            Some(Press::Lost(_)) => matches!(press, Press::Lost(_)),
            Some(Press::Command(_)) | None => false,
        };
        if !is_again {
            self.presses.push_back(press);
        }
    }

    /// What is wrong with a line before its end is said at once.
    fn check_line(&mut self) {
        let broken = matches!(std::str::from_utf8(&self.line), Err(error) if error.error_len().is_some());
        if broken {
            self.lose_line(Loss::NotUtf8);
        } else if self.line.len() > LONGEST {
            self.lose_line(Loss::TooLong);
        }
    }

    fn lose_line(&mut self, loss: Loss) {
        self.press(Press::Lost(loss));
        self.line.clear();
        self.skips = true;
    }

    fn end_line(&mut self, now: Time) {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.skips) || self.ended {
            return;
        }
        let Ok(text) = std::str::from_utf8(&line) else {
            return self.press(Press::Lost(Loss::NotUtf8));
        };
        // Serial lines end in both.
        let text = text.strip_suffix('\r').unwrap_or(text);
        let Some((_, word)) = self.words.iter().find(|(name, _)| *name == text) else {
            let names: Vec<&str> = self.words.iter().map(|(name, _)| *name).collect();
            return self.press(Press::Lost(Loss::Unknown(text.to_owned(), names.join(", "))));
        };
        (self.fed, self.silent) = (now, false);
        match word {
            Word::Stop => self.press(Press::Stop),
            Word::Command(command) => self.press(Press::Command(command.clone())),
            Word::Quit(command) => {
                self.press(Press::Command(command.clone()));
                self.ended = true;
            }
            Word::Nothing => {}
        }
    }
}

/// A thread that outranks the session reads no more often: whoever floods standard input holds nobody up.
const BETWEEN_READS: std::time::Duration = std::time::Duration::from_millis(1);

/// The clock goes on while the machine is suspended, poll(2) does not: it is looked at so often at least.
const LOOK: Duration = Duration::from_millis(100);

/// Parts bytes into lines that begin with `{` and those of a button. Sans-IO.
#[derive(Debug, Default)]
struct Router {
    /// Within a line, whose it is.
    json: Option<bool>,
}

impl Router {
    /// Gives each run of bytes, and whether it is of lines that begin with `{`.
    fn part<'a>(&mut self, mut bytes: &'a [u8], mut each: impl FnMut(bool, &'a [u8])) {
        while let Some(first) = bytes.first() {
            let json = *self.json.get_or_insert(*first == b'{');
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (run, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            each(json, run);
            if end.is_some() {
                self.json = None;
            }
            bytes = rest;
        }
    }
}

/// Takes the button on standard input to a session, on a thread of its own, until standard input ends. Lines that begin with `{` go
/// to `lines`, where there is such. Called on the session's thread, whose priority is that of the button less one.
pub(crate) fn listen<M>(
    words: &'static [(&'static str, Word<M::Command>)],
    heartbeat: Option<Duration>,
    remote: Remote<M>,
    lines: Option<LineTaker>,
) -> Result<(), String>
where
    M: Machine + 'static,
    M::Command: Clone + Send + Sync,
    Remote<M>: Send,
{
    let work = move || {
        let clock = Clock::start();
        let mut button = Button::new(clock.now(), words, heartbeat);
        let (mut complaints, mut router, mut lines) = (Complaints::default(), Router::default(), lines);
        while !button.has_ended() {
            wait_and_read(&mut button, &clock, |button, now, bytes| match &mut lines {
                None => button.handle_input(now, bytes),
                Some(lines) => {
                    router.part(
                        bytes,
                        |json, run| {
                            if json { lines.take(run) } else { button.handle_input(now, run) }
                        },
                    )
                }
            });
            button.handle_timeout(clock.now());
            while let Some(press) = button.poll() {
                let taken = tell(&remote, &press);
                complain(&mut complaints, &press, taken);
            }
            std::thread::park_timeout(BETWEEN_READS);
        }
    };
    let thread = spawn_unprivileged("taut button", outrank, work);
    thread.map(drop).map_err(|error| format!("a thread: {error}"))
}

fn wait_and_read<C: Clone>(
    button: &mut Button<C>,
    clock: &Clock,
    mut take: impl FnMut(&mut Button<C>, Time, &[u8]),
) {
    let wait = button.poll_timeout().map(|due| due.saturating_since(clock.now()).min(LOOK));
    // One nanosecond more than nothing: a timeout of zero is for those who do not wait.
    let wait = wait.map(|wait| Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as i64 + 1 });
    let stdin = io::stdin();
    let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
    let mut bytes = [0; 4_096];
    let read = match poll(&mut ready, wait.as_ref()) {
        Ok(0) => return,
        Ok(_) => rustix::io::read(&stdin, &mut bytes),
        Err(error) => Err(error),
    };
    match read {
        Ok(0) => button.handle_end(Loss::Ended),
        Ok(count) => take(button, clock.now(), &bytes[..count]),
        Err(Errno::INTR | Errno::AGAIN) => {}
        Err(error) => button.handle_end(Loss::Failed(io::Error::from(error).to_string())),
    }
}

/// Tells the session, however busy it is. False when nobody is there to hear it.
pub(crate) fn tell<M: Machine>(remote: &Remote<M>, press: &Press<M::Command>) -> bool
where
    M::Command: Clone,
{
    match press {
        Press::Stop => remote.stop(Alarm::Pressed),
        Press::Command(command) => remote.insist(command.clone()),
        Press::Lost(_) => remote.stop(Alarm::Lost),
    }
}

/// Says what is wrong with a button.
fn complain<C>(complaints: &mut Complaints, press: &Press<C>, taken: bool) {
    let what = match press {
        Press::Lost(loss) => format!("STOP, the button is not to be relied on: {loss}"),
        _ if taken => return,
        _ => "the session does not answer the button".to_owned(),
    };
    let is_last = matches!(press, Press::Lost(Loss::Ended | Loss::Failed(_)));
    complaints.say(&what, is_last);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_device_are_parted_from_those_of_the_button_however_they_are_cut() {
        let text = b"e\n{\"a\":\"e\"}\nr\n{}\n{";
        for piece in [1, 3, 100] {
            let (mut router, mut json, mut words) = (Router::default(), Vec::new(), Vec::new());
            for bytes in text.chunks(piece) {
                router.part(bytes, |is_json, run| if is_json { &mut json } else { &mut words }.extend(run));
            }
            assert_eq!((&json[..], &words[..]), (&b"{\"a\":\"e\"}\n{}\n{"[..], &b"e\nr\n"[..]));
        }
    }

    const WORDS: [(&str, Word<u8>); 5] = [
        ("e", Word::Stop),
        ("stop", Word::Stop),
        ("r", Word::Command(1)),
        ("q", Word::Quit(2)),
        ("h", Word::Nothing),
    ];

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn button(heartbeat: Option<u64>) -> Button<u8> {
        Button::new(ms(0), &WORDS, heartbeat.map(Duration::from_millis))
    }

    fn all(button: &mut Button<u8>) -> Vec<Press<u8>> {
        std::iter::from_fn(|| button.poll()).collect()
    }

    fn pressed_by(bytes: &[u8]) -> Vec<Press<u8>> {
        let mut button = button(None);
        button.handle_input(ms(0), bytes);
        all(&mut button)
    }

    fn unknown(line: &str) -> Press<u8> {
        Press::Lost(Loss::Unknown(line.to_owned(), "e, stop, r, q, h".to_owned()))
    }

    #[test]
    fn lines_are_commands_by_their_names_however_they_are_cut_into_reads() {
        let all_of_them = [Press::Stop, Press::Command(1), Press::Stop];
        assert_eq!(pressed_by(b"e\nr\r\nh\nstop\n"), all_of_them);
        let mut button = button(None);
        b"e\nr\r\nh\nstop\n".iter().for_each(|byte| button.handle_input(ms(0), &[*byte]));
        assert_eq!(all(&mut button), all_of_them);
    }

    #[test]
    fn a_line_that_means_nothing_is_a_stop_and_the_next_one_is_read() {
        for line in ["E", "ee", " e", "r r", ""] {
            let pressed = pressed_by(format!("{line}\nr\n").as_bytes());
            assert_eq!(pressed, [unknown(line), Press::Command(1)]);
        }
    }

    #[test]
    fn a_flood_is_one_stop_a_reading_and_whatever_comes_between_counts() {
        assert_eq!(pressed_by("x\n".repeat(1_000).as_bytes()), [unknown("x")]);
        assert_eq!(pressed_by(b"e\ne\nx\n\xff\ne\n"), [Press::Stop, unknown("x"), Press::Stop]);
        let stopped_again = [unknown("x"), Press::Command(1), unknown("y")];
        assert_eq!(pressed_by(b"x\nx\nr\ny\nz\n"), stopped_again);
        let mut button = button(None);
        for _ in 0..2 {
            button.handle_input(ms(0), b"x\nx\n");
            assert_eq!(all(&mut button), [unknown("x")]);
        }
    }

    #[test]
    fn a_byte_that_is_no_text_stops_before_its_line_ends_and_the_next_line_is_read() {
        assert_eq!(pressed_by(b"\xff"), [Press::Lost(Loss::NotUtf8)]);
        assert_eq!(pressed_by(b"r\xffr\xff\nr\n"), [Press::Lost(Loss::NotUtf8), Press::Command(1)]);
        // A character that its line cuts.
        assert_eq!(pressed_by(b"\xc3\nr\n"), [Press::Lost(Loss::NotUtf8), Press::Command(1)]);
    }

    #[test]
    fn a_line_that_is_too_long_stops_before_it_ends_and_holds_no_memory() {
        assert_eq!(pressed_by(&[b'a'; LONGEST]), []);
        let mut button = button(None);
        button.handle_input(ms(0), &[b'a'; 100_000]);
        assert_eq!(all(&mut button), [Press::Lost(Loss::TooLong)]);
        assert!(button.line.capacity() <= 4 * LONGEST);
        button.handle_input(ms(0), b"\nr\n");
        assert_eq!(all(&mut button), [Press::Command(1)]);
    }

    #[test]
    fn after_the_last_command_an_end_is_no_stop() {
        let mut button = button(Some(10));
        button.handle_input(ms(0), b"q\ne\nnonsense\n");
        button.handle_end(Loss::Ended);
        button.handle_timeout(ms(100));
        assert_eq!(all(&mut button), [Press::Command(2)]);
        assert!(button.has_ended());
    }

    #[test]
    fn an_end_is_one_stop_that_nothing_undoes() {
        let mut button = button(Some(10));
        button.handle_input(ms(0), b"r");
        button.handle_end(Loss::Ended);
        button.handle_end(Loss::Failed("again".to_owned()));
        button.handle_input(ms(1), b"\nr\n");
        button.handle_timeout(ms(100));
        assert_eq!(all(&mut button), [Press::Lost(Loss::Ended)]);
        assert_eq!((button.has_ended(), button.poll_timeout()), (true, None));
    }

    #[test]
    fn a_heartbeat_that_stays_out_is_one_stop_until_it_comes_again() {
        let mut button = button(Some(100));
        assert_eq!(button.poll_timeout(), Some(ms(100)));
        button.handle_input(ms(60), b"h\n");
        button.handle_timeout(ms(159));
        assert_eq!(all(&mut button), []);
        // What means nothing is no sign of life.
        button.handle_input(ms(159), b"x\n");
        button.handle_timeout(ms(160));
        button.handle_timeout(ms(500));
        let silent = Press::Lost(Loss::Silent(Duration::from_millis(100)));
        assert_eq!(all(&mut button), [unknown("x"), silent.clone()]);
        assert_eq!(button.poll_timeout(), None);
        button.handle_input(ms(600), b"r\n");
        button.handle_timeout(ms(700));
        assert_eq!(all(&mut button), [Press::Command(1), silent]);
    }

    #[test]
    fn without_a_heartbeat_silence_is_no_stop() {
        let mut button = button(None);
        button.handle_timeout(Time::MAX);
        assert_eq!((all(&mut button), button.poll_timeout()), (Vec::new(), None));
    }

    #[test]
    fn what_was_read_is_printed_without_control_characters() {
        let mut button = button(None);
        button.handle_input(ms(0), b"\x1b[2J\n");
        let Some(Press::Lost(loss)) = button.poll() else { panic!("it means nothing") };
        assert!(!loss.to_string().contains('\u{1b}'), "{loss}");
    }
}
