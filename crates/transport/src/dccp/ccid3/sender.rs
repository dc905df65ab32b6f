//! The sender of data: the allowed rate (RFC 5348 section 4) and the window counter (RFC 4342 section 8.1).
//!
//! RFC 5348 section 4.5, which damps oscillations by following the root of the round trip, is left out.

use taut_core::{Duration, RttEstimator, Time};
use taut_wire::dccp::LossIntervals;

use super::equation::{INTERVALS, mean_interval, throughput};

/// The longest time between two packets, t_mbi in seconds.
const MAX_BACKOFF: f64 = 64.0;
/// Weight of the old estimate of the round trip: very low, as RFC 5348 section 4.5 wants it where it is not followed.
const Q: f64 = 0.1;
/// The nofeedback timer before there is a round trip (section 4.2).
const FIRST_TIMEOUT: Duration = Duration::from_secs(2);
/// Elements of X_recv_set (section 8.2.2).
const RECEIVE_RATES: usize = 3;

/// The state of RFC 5348 section 4, by its names there. Rates are bytes per second, times seconds.
#[derive(Clone, Debug)]
pub(crate) struct Ccid3 {
    /// Bytes of a message, averaged.
    s: f64,
    x: f64,
    x_bps: f64,
    /// Round trip; `None` before it was measured.
    r: Option<f64>,
    p: f64,
    tld: Time,
    x_recv_set: Vec<(Time, f64)>,
    fed_back: bool,
    /// Does not run while there is nothing to hear of.
    nofeedback: Option<Time>,
    /// When the first packet went since the timer was set; `None` while it is idle.
    first: Option<Time>,
    /// Nominal time of the last packet, and its bytes.
    nominal: Option<Time>,
    last: f64,
    /// When everything that was allowed had last been sent.
    unlimited: Option<Time>,
    counter: u8,
    counter_at: Option<Time>,
    /// No faster until then: the receiver is slow (RFC 4340 section 11.6).
    hold_until: Time,
    /// Times that the timer expired.
    pub(crate) timeouts: u64,
    /// Loss events that were reported.
    pub(crate) loss_events: u64,
}

/// What a feedback packet says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feedback {
    /// When the packet was sent that it acknowledges.
    pub(crate) sent: Time,
    /// That packet's window counter, if it carried data.
    pub(crate) counter: Option<u8>,
    /// [`Ccid3::unlimited`] as of that packet.
    pub(crate) unlimited: Option<Time>,
    /// How long the receiver held it.
    pub(crate) elapsed: Duration,
    /// The receive rate.
    pub(crate) x_recv: f64,
    /// The loss event rate.
    pub(crate) p: f64,
    /// There is a loss event that was not reported before.
    pub(crate) new_loss: bool,
}

impl Ccid3 {
    /// With the round trip of the handshake, if it was measured: then the initial rate is a whole window in it (RFC 5348
    /// section 4.2).
    pub(crate) fn new(now: Time, s: usize, rtt: Option<Duration>) -> Self {
        let s = s.max(1) as f64;
        let r = rtt.map(|rtt| rtt.as_secs_f64().max(1e-6));
        let mut this = Self {
            s,
            x: s,
            x_bps: 0.0,
            r,
            p: 0.0,
            tld: now,
            x_recv_set: vec![(now, f64::INFINITY)],
            fed_back: false,
            nofeedback: None,
            first: None,
            nominal: None,
            last: s,
            unlimited: None,
            counter: 0,
            counter_at: None,
            hold_until: Time::ZERO,
            timeouts: 0,
            loss_events: 0,
        };
        this.x = this.initial_rate().unwrap_or(s);
        this
    }

    /// The loss event rate of reported intervals (RFC 4342 section 8.6, RFC 5348 section 5.4); 0 before the first loss.
    pub(crate) fn loss_event_rate(intervals: LossIntervals<'_>) -> f64 {
        let mut lengths = [0; INTERVALS];
        let count = lengths.iter_mut().zip(intervals.iter()).map(|(length, i)| *length = i.data).count();
        mean_interval(&lengths[..count]).map_or(0.0, |mean| 1.0 / mean)
    }

    /// The allowed rate in bytes of messages per second.
    pub(crate) fn rate(&self) -> f64 {
        self.x
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.r.map(Duration::from_secs_f64)
    }

    /// W_init / R: 4380 bytes, but two to four packets.
    fn initial_rate(&self) -> Option<f64> {
        self.r.map(|r| (4.0 * self.s).min((2.0 * self.s).max(4380.0)) / r)
    }

    /// When the next packet may go: in the time that the last one's bytes take at X after its nominal time. Section 4.6 has it s/X, of an
    /// average packet. But X counts bytes, and so does the receiver: of short messages that alone go between long ones, a quarter as long as
    /// `s` still says, less than a half of X would arrive, and twice that is the most that X may be, each time anew.
    pub(crate) fn next_send(&self) -> Time {
        self.nominal.map_or(Time::ZERO, |nominal| nominal + Duration::from_secs_f64(self.last / self.x))
    }

    pub(crate) fn may_send(&self, now: Time) -> bool {
        now >= self.next_send()
    }

    /// The window counter for a packet that goes now.
    pub(crate) fn window_counter(&mut self, now: Time) -> u8 {
        let since = now.saturating_since(*self.counter_at.get_or_insert(now)).as_secs_f64();
        let quarters = self.r.map_or(0.0, |r| since / (r / 4.0)).min(5.0) as u8;
        if quarters > 0 {
            (self.counter, self.counter_at) = ((self.counter + quarters) & 0x0f, Some(now));
        }
        self.counter
    }

    /// A message of `bytes` went.
    pub(crate) fn on_sent(&mut self, now: Time, bytes: usize) {
        // Unused permissions of one round trip at most are kept (section 4.6).
        let credit = now - Duration::from_secs_f64(self.r.unwrap_or(0.0));
        if self.nominal.is_none() {
            self.s = bytes.max(1) as f64;
            self.x = self.initial_rate().unwrap_or(self.s);
            self.nofeedback = Some(now + FIRST_TIMEOUT);
        }
        let resumes = self.nofeedback.is_none();
        if resumes {
            self.restart_timer(now);
        }
        self.nominal = Some(if self.nominal.is_none() { now } else { self.next_send().max(credit) });
        self.last = bytes.max(1) as f64;
        self.s += (bytes as f64 - self.s) / 16.0;
        self.first.get_or_insert(now);
        // Section 8.2.1: everything that was allowed has been sent, so the sender is not limited by its data; but of the first packet
        // after idleness, what is reported covers that as well.
        if self.next_send() > now && !resumes {
            self.unlimited = Some(now);
        }
    }

    /// When everything that was allowed had last been sent: then the sender was limited by its rate, not by its data.
    pub(crate) fn unlimited(&self) -> Option<Time> {
        self.unlimited
    }

    /// The receiver cannot keep up.
    pub(crate) fn on_slow_receiver(&mut self, now: Time) {
        self.hold_until = now + Duration::from_secs_f64(self.r.unwrap_or(1.0));
    }

    /// Section 4.3.
    pub(crate) fn on_feedback(&mut self, now: Time, feedback: Feedback) {
        let sample = RttEstimator::without_hold(now.saturating_since(feedback.sent), feedback.elapsed);
        let sample = sample.as_secs_f64().max(1e-6);
        let first = !std::mem::replace(&mut self.fed_back, true);
        let r = self.r.filter(|_| !first).map_or(sample, |r| Q * r + (1.0 - Q) * sample);
        self.r = Some(r);
        let rises = feedback.new_loss || feedback.p > self.p;
        self.loss_events += u64::from(feedback.new_loss);
        self.p = feedback.p;
        let before = self.x;
        let limit = self.receive_limit(now, feedback, rises);
        if first && self.p == 0.0 {
            self.x = self.initial_rate().unwrap_or(self.x);
            self.tld = now;
        } else {
            self.update_rate(now, limit);
        }
        if now < self.hold_until {
            self.x = self.x.min(before);
        }
        self.restart_timer(now);
        self.jump_counter(now, feedback.counter);
    }

    /// The limit from X_recv_set: twice what arrives. The first report does not know that (section 6.3 has it say 0), and limits nothing: where
    /// a loss delays it, 0 would leave a packet a minute.
    fn receive_limit(&mut self, now: Time, feedback: Feedback, rises: bool) -> f64 {
        if self.is_data_limited(feedback) {
            if rises {
                self.x_recv_set.iter_mut().for_each(|(_, rate)| *rate /= 2.0);
                self.maximize(now, 0.85 * feedback.x_recv);
                return self.greatest_receive_rate();
            }
            self.maximize(now, feedback.x_recv);
        } else if feedback.x_recv > 0.0 {
            let old = now - Duration::from_secs_f64(2.0 * self.r.unwrap_or(0.0));
            self.x_recv_set.push((now, feedback.x_recv));
            self.x_recv_set.retain(|(at, _)| *at >= old);
            let surplus = self.x_recv_set.len().saturating_sub(RECEIVE_RATES);
            self.x_recv_set.drain(..surplus);
        }
        2.0 * self.greatest_receive_rate()
    }

    /// Maximize X_recv_set().
    fn maximize(&mut self, now: Time, x_recv: f64) {
        self.x_recv_set.retain(|(_, rate)| rate.is_finite());
        let greatest = self.x_recv_set.iter().fold(x_recv, |greatest, (_, rate)| greatest.max(*rate));
        self.x_recv_set.clear();
        self.x_recv_set.push((now, greatest));
    }

    fn greatest_receive_rate(&self) -> f64 {
        self.x_recv_set.iter().fold(0.0, |greatest: f64, (_, rate)| greatest.max(*rate))
    }

    /// Did the sender send all it was allowed to at no time in the interval that the feedback covers, the round trip before the packet that it
    /// acknowledges (section 8.2.1)? That section remembers two such times in all, and so takes a flow for limited by its data whose packets after
    /// them were lost, and halves it for each further loss; here each packet tells its own.
    fn is_data_limited(&self, feedback: Feedback) -> bool {
        let from = feedback.sent - Duration::from_secs_f64(self.r.unwrap_or(0.0));
        feedback.x_recv > 0.0 && feedback.unlimited.is_none_or(|at| at <= from)
    }

    /// The end of step 4 of section 4.3.
    fn update_rate(&mut self, now: Time, recv_limit: f64) {
        let (r, least) = (self.r.unwrap_or(1.0), self.s / MAX_BACKOFF);
        if self.p > 0.0 {
            self.x_bps = throughput(self.s, r, self.p);
            self.x = self.x_bps.min(recv_limit).max(least);
        } else if now.saturating_since(self.tld).as_secs_f64() >= r {
            self.x = (2.0 * self.x).min(recv_limit).max(self.initial_rate().unwrap_or(self.x));
            self.tld = now;
        }
    }

    /// max(4 R, 2 s/X).
    fn restart_timer(&mut self, now: Time) {
        let r = self.r.unwrap_or(FIRST_TIMEOUT.as_secs_f64() / 4.0);
        self.nofeedback = Some(now + Duration::from_secs_f64((4.0 * r).max(2.0 * self.s / self.x)));
        self.first = None;
    }

    /// RFC 4342 section 8.1: what goes after an acknowledgement is a round trip later than what it acknowledges.
    fn jump_counter(&mut self, now: Time, acknowledged: Option<u8>) {
        let Some(least) = acknowledged.map(|counter| (counter + 4) & 0x0f) else { return };
        let behind = least.wrapping_sub(self.counter) & 0x0f;
        if (1..=4).contains(&behind) {
            (self.counter, self.counter_at) = (least, Some(now));
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.nofeedback
    }

    /// Section 4.4.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.nofeedback.is_none_or(|timer| timer > now) {
            return;
        }
        // What went less than a round trip ago is not unheard of.
        let answer = self.first.map(|first| first + Duration::from_secs_f64(2.0 * self.r.unwrap_or(0.0)));
        if answer.is_some_and(|answer| answer > now) {
            self.nofeedback = answer;
            return;
        }
        self.timeouts += u64::from(self.first.is_some());
        let x_recv = self.greatest_receive_rate();
        let recover = self.initial_rate();
        let least = self.s / MAX_BACKOFF;
        let recovered = recover
            .is_some_and(|recover| if self.p > 0.0 { x_recv < recover } else { self.x < 2.0 * recover });
        if self.first.is_none() && (recovered || recover.is_none()) {
            // Idleness does not take away what a new connection would be given.
            self.nofeedback = None;
            return;
        } else if self.p == 0.0 {
            self.x = (self.x / 2.0).max(least);
        } else {
            let limit = if self.x_bps > 2.0 * x_recv { x_recv } else { self.x_bps / 2.0 };
            let limit = limit.max(least);
            self.x_recv_set.clear();
            self.x_recv_set.push((now, limit / 2.0));
            self.update_rate(now, limit);
        }
        self.restart_timer(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::ZERO + MS * ms
    }

    fn ccid(s: usize, rtt: Option<Duration>) -> Ccid3 {
        Ccid3::new(at(0), s, rtt)
    }

    fn feedback(sent: Time, x_recv: f64, p: f64) -> Feedback {
        Feedback {
            sent,
            counter: None,
            unlimited: Some(sent),
            elapsed: Duration::ZERO,
            x_recv,
            p,
            new_loss: false,
        }
    }

    fn close(value: f64, expected: f64) -> bool {
        (value / expected - 1.0).abs() < 1e-6
    }

    /// RFC 5348 section 4.2: min(4 s, max(2 s, 4380)) bytes in a round trip of 100 ms; one packet a second without one.
    #[test]
    fn the_initial_rate_is_a_window_in_a_round_trip() {
        let initial = |s| ccid(s, Some(MS * 100)).rate();
        assert!(close(initial(100), 4_000.0));
        assert!(close(initial(1_400), 43_800.0));
        assert!(close(initial(4_000), 80_000.0));
        assert!(close(ccid(100, None).rate(), 100.0));
    }

    /// Sends as fast as is allowed from `from` until `to`; when the last one went.
    fn greedy(sender: &mut Ccid3, from: Time, to: Time) -> Time {
        let mut now = from;
        loop {
            sender.on_sent(now, 100);
            let next = sender.next_send().max(now);
            if next > to {
                return now;
            }
            now = next;
        }
    }

    /// RFC 5348 section 4.3: doubled for each round trip, not beyond twice what arrives.
    #[test]
    fn slow_start_doubles_up_to_twice_the_receive_rate() {
        let mut sender = ccid(100, Some(MS * 100));
        let sent = greedy(&mut sender, at(0), at(0));
        sender.on_feedback(at(100), feedback(sent, 0.0, 0.0));
        assert!(close(sender.rate(), 4_000.0));
        let sent = greedy(&mut sender, at(100), at(150));
        sender.on_feedback(at(250), feedback(sent, 4_000.0, 0.0));
        let r = sender.r.unwrap();
        assert!(close(sender.rate(), 8_000.0), "{} {r}", sender.rate());
        let sent = greedy(&mut sender, at(250), at(300));
        sender.on_feedback(at(390), feedback(sent, 5_000.0, 0.0));
        assert!(close(sender.rate(), 10_000.0), "{}", sender.rate());
    }

    #[test]
    fn a_first_report_that_comes_late_and_with_a_loss_leaves_the_rate_of_the_equation() {
        let mut sender = ccid(100, Some(MS * 100));
        let sent = greedy(&mut sender, at(0), at(150));
        sender.on_feedback(at(260), feedback(sent, 0.0, 0.1));
        assert!(close(sender.rate(), throughput(100.0, sender.r.unwrap(), 0.1)), "{}", sender.rate());
    }

    #[test]
    fn with_loss_the_equation_and_the_receive_rate_decide() {
        let mut sender = ccid(100, Some(MS * 100));
        sender.on_sent(at(0), 100);
        sender.on_feedback(at(100), feedback(at(0), 0.0, 0.0));
        let sent = greedy(&mut sender, at(100), at(110));
        sender.on_feedback(at(210), feedback(sent, 50_000.0, 0.01));
        let equation = throughput(100.0, sender.r.unwrap(), 0.01);
        assert!(close(sender.rate(), equation));
        let sent = greedy(&mut sender, at(211), at(300));
        sender.on_feedback(at(400), feedback(sent, 1_000.0, 0.001));
        let sent = greedy(&mut sender, at(500), at(600));
        sender.on_feedback(at(700), feedback(sent, 1_000.0, 0.001));
        assert!(close(sender.rate(), 2_000.0), "twice what arrives: {}", sender.rate());
    }

    /// What arrives is counted in bytes: a short message goes as much sooner.
    #[test]
    fn short_messages_after_long_ones_do_not_lower_the_rate() {
        let mut sender = ccid(100, Some(MS * 2));
        let mut now = greedy(&mut sender, at(0), at(100));
        sender.on_feedback(now, feedback(now - MS * 2, 20_000.0, 0.1));
        let before = sender.rate();
        for _ in 0..20 {
            now = sender.next_send().max(now);
            sender.on_sent(now, 20);
            let takes = sender.next_send().saturating_since(now);
            sender.on_feedback(now + MS * 2, feedback(now, 20.0 / takes.as_secs_f64(), 0.1));
        }
        assert!(sender.rate() > before / 4.0, "{before} {}", sender.rate());
    }

    /// The sender had sent all that it was allowed whenever a packet went, and most of them were lost.
    #[test]
    fn losses_do_not_make_a_flow_limited_by_its_data() {
        let mut sender = ccid(100, Some(MS * 2));
        let sent = greedy(&mut sender, at(0), at(20));
        sender.on_feedback(at(22), feedback(sent, 10_000.0, 0.1));
        for n in 0..8 {
            let sent = greedy(&mut sender, at(40 + 40 * n), at(70 + 40 * n));
            let unlimited = sender.unlimited();
            assert_eq!(unlimited, Some(sent));
            let late = Feedback { unlimited, new_loss: true, ..feedback(sent, 5_000.0, 0.1) };
            sender.on_feedback(sent + MS * 2, late);
            assert!(close(sender.rate(), 10_000.0), "{n}: twice what arrives: {}", sender.rate());
        }
    }

    /// RFC 5348 section 4.3: a sender that had less to send than it was allowed keeps its greatest receive rate.
    #[test]
    fn a_sender_limited_by_its_data_keeps_its_rate() {
        let mut sender = ccid(100, Some(MS * 10));
        let limits: Vec<f64> = (1..40)
            .map(|n| {
                sender.on_sent(at(n * 10 - 10), 100);
                sender.on_feedback(
                    at(n * 10),
                    Feedback {
                        unlimited: None,
                        ..feedback(at(n * 10 - 10), if n == 1 { 0.0 } else { 10_000.0 }, 0.0)
                    },
                );
                sender.rate()
            })
            .collect();
        assert!(limits.iter().all(|rate| *rate >= 20_000.0), "{limits:?}");
        assert!(sender.may_send(at(400)));
    }

    /// RFC 5348 section 4.4.
    #[test]
    fn silence_halves_the_rate_and_idleness_does_not() {
        let mut sender = ccid(100, Some(MS * 100));
        sender.on_sent(at(0), 100);
        assert_eq!(sender.poll_timeout(), Some(at(2_000)));
        sender.on_feedback(at(100), feedback(at(0), 0.0, 0.0));
        assert_eq!(sender.poll_timeout(), Some(at(500)));
        sender.handle_timeout(at(500));
        assert!(close(sender.rate(), 4_000.0), "nothing was sent");
        sender.on_sent(at(600), 100);
        sender.handle_timeout(at(999));
        assert!(close(sender.rate(), 4_000.0), "it counts from what was sent");
        sender.handle_timeout(at(1_000));
        assert!(close(sender.rate(), 2_000.0));
        assert_eq!(sender.timeouts, 1);
        for _ in 0..200 {
            let now = sender.poll_timeout().expect("the timer runs");
            sender.on_sent(now, 100);
            sender.handle_timeout(now);
        }
        assert!(sender.rate() >= 100.0 / 64.0, "never less than a packet in 64 s");
    }

    #[test]
    fn an_idle_sender_over_a_short_path_wakes_up_seldom_whatever_its_peer_says() {
        for elapsed in [Duration::ZERO, Duration::from_micros(50), MS * 9] {
            let mut sender = ccid(100, Some(Duration::from_micros(50)));
            sender.on_sent(at(0), 100);
            let now = at(0) + Duration::from_micros(50);
            sender.on_feedback(now, Feedback { elapsed, ..feedback(at(0), 0.0, 0.0) });
            assert_eq!(sender.rtt(), Some(Duration::from_micros(50)), "held for {elapsed}");
            let mut wakes = 0;
            while let Some(due) = sender.poll_timeout().filter(|due| *due <= at(1_000)) {
                sender.handle_timeout(due);
                wakes += 1;
                assert!(wakes <= 10, "held for {elapsed}");
            }
        }
    }

    /// RFC 5348 section 4.6, t_ipi = s/X: 4000 B/s, 100 bytes: 25 ms; permissions of 100 ms are kept.
    #[test]
    fn packets_are_paced_and_unused_permissions_expire() {
        let mut sender = ccid(100, Some(MS * 100));
        sender.on_sent(at(0), 100);
        assert_eq!(sender.next_send(), at(25));
        assert!(!sender.may_send(at(24)) && sender.may_send(at(25)));
        let mut burst = 0;
        while sender.may_send(at(1_000)) {
            sender.on_sent(at(1_000), 100);
            burst += 1;
        }
        assert_eq!(burst, 5, "four for a round trip and one for now");
        assert_eq!(sender.next_send(), at(1_025));
    }

    /// RFC 4342 section 8.1: a step for each quarter of a round trip, five at most.
    #[test]
    fn the_window_counter_counts_quarters_of_a_round_trip() {
        let mut sender = ccid(100, Some(MS * 100));
        let counters = [0, 24, 25, 60, 1_000].map(|ms| sender.window_counter(at(ms)));
        assert_eq!(counters, [0, 0, 1, 2, 7]);
        sender.on_feedback(at(1_001), Feedback { counter: Some(7), ..feedback(at(900), 0.0, 0.0) });
        assert_eq!(sender.window_counter(at(1_001)), 11);
    }
}
