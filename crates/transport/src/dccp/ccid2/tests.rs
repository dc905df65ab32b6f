use super::*;
use crate::dccp::sent::Sent;
use taut_wire::dccp::AckVector;

const MS: Duration = Duration::from_millis(1);

fn at(ms: u64) -> Time {
    Time::ZERO + MS * ms
}

/// A sender whose packets are numbered from 0.
struct Bench {
    ccid: Ccid2,
    sent: SentLog,
    next: u64,
}

impl Bench {
    /// With a window of four packets, a round trip of 100 ms and a least timeout of 200 ms.
    fn new() -> Self {
        let config = DccpConfig::new().max_datagram(taut_core::Bytes::new(1_000)).unwrap();
        let ccid = Ccid2::new(&config, Seq::new(0), Some(MS * 100));
        Self { ccid, sent: SentLog::new(Seq::new(0)), next: 0 }
    }

    /// Sends what the window allows.
    fn fill(&mut self, now: Time) -> u64 {
        let first = self.next;
        while self.ccid.may_send() {
            self.ccid.before_sending(now);
            let packet =
                Sent { at: now, data: true, counter: 0, unlimited: None, fate: Fate::Flying, told: None };
            self.sent.push(packet);
            self.ccid.on_sent(now);
            self.next += 1;
        }
        self.next - first
    }

    /// An Ack Vector with these cells for the Acknowledgement Number `number`.
    fn ack(&mut self, now: Time, number: u64, cells: &[u8]) {
        let mut bytes = Vec::new();
        DccpOption::AckVector(AckVector { nonce: false, cells }).emit(&mut bytes);
        let options = Options::new(&bytes);
        let ack = Acked { number: Seq::new(number), options, elapsed: Duration::ZERO };
        self.ccid.on_ack(now, ack, &mut self.sent, Seq::new(self.next - 1));
    }
}

/// RFC 4341 section 5: one packet more for two acknowledged, as long as an acknowledgement tells of Ack Ratio packets.
#[test]
fn slow_start_adds_a_packet_for_two() {
    let mut bench = Bench::new();
    assert_eq!(bench.fill(at(0)), 4);
    assert!(!bench.ccid.may_send());
    bench.ack(at(100), 1, &[0x01]);
    assert_eq!((bench.ccid.cwnd(), bench.fill(at(100))), (5, 3));
    bench.ack(at(101), 3, &[0x03]);
    assert_eq!(bench.ccid.cwnd(), 6);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut bench = Bench::new();
    bench.fill(at(0));
    bench.ack(at(100), 1, &[0x01]);
    bench.ack(at(101), 3, &[0x03]);
    assert_eq!(bench.ccid.cwnd(), 5, "the second acknowledgement met a window that was not full");
}

/// RFC 4341 section 5: lost when three that were sent later arrived; then the window is halved, once for what was sent
/// before the loss was noticed.
#[test]
fn the_window_is_halved_once_for_each_window_with_losses() {
    let mut bench = Bench::new();
    bench.ccid.cwnd = 20;
    bench.fill(at(0));
    bench.ack(at(100), 4, &[0x01, 0xc0, 0x01]); // 4, 3; 2 is missing; 1, 0
    assert_eq!((bench.ccid.cwnd(), bench.ccid.counts.lost), (21, 0), "two arrived after it");
    bench.ack(at(101), 5, &[0x02, 0xc0]);
    assert_eq!((bench.ccid.cwnd(), bench.ccid.counts.lost), (10, 1));
    // More losses of the same window: 7, 9 and 11.
    bench.ack(at(102), 14, &[0x02, 0xc0, 0x00, 0xc0, 0x00, 0xc0, 0x01]);
    let counts = bench.ccid.counts;
    assert_eq!((bench.ccid.cwnd(), counts.lost, counts.halved), (10, 4, 1));
    assert_eq!(bench.ccid.pipe, 5, "15 to 19 fly");
    // A loss of the next window counts again.
    assert_eq!(bench.fill(at(103)), 5);
    bench.ack(at(200), 24, &[0x03, 0xc0, 0x04]);
    assert_eq!((bench.ccid.cwnd(), bench.ccid.counts.halved), (5, 2));
    assert_eq!(bench.ccid.ssthresh, 5);
}

#[test]
fn a_mark_halves_the_window_and_a_latecomer_leaves_the_pipe_alone() {
    let mut bench = Bench::new();
    bench.ccid.cwnd = 10;
    bench.fill(at(0));
    bench.ack(at(100), 1, &[0x40, 0x00]);
    assert_eq!(bench.ccid.cwnd(), 5);
    assert_eq!(bench.ccid.pipe, 8);
    bench.ack(at(101), 5, &[0x02, 0xc0, 0x40, 0x00]);
    assert_eq!((bench.ccid.pipe, bench.ccid.counts.lost), (4, 1));
    bench.ack(at(102), 5, &[0x03, 0x40, 0x00]);
    assert_eq!(bench.ccid.pipe, 4, "2 was taken for lost before");
    bench.ack(at(103), 5, &[0x03, 0x40, 0x00]);
    assert_eq!((bench.ccid.pipe, bench.ccid.cwnd()), (4, 5), "said twice");
}

/// RFC 8985 section 6.2: where packets overtake each other, lost is what is a quarter of a round trip late.
#[test]
fn what_was_overtaken_before_is_lost_when_later_packets_were_sent_long_after_it() {
    let mut bench = Bench::new();
    bench.ccid.cwnd = 60;
    for ms in 0..60 {
        let packet =
            Sent { at: at(ms), data: true, counter: 0, unlimited: None, fate: Fate::Flying, told: None };
        bench.sent.push(packet);
        bench.ccid.on_sent(at(ms));
        bench.next += 1;
    }
    bench.ack(at(101), 1, &[0x00, 0xc0]); // 1 arrived; 0 is missing
    bench.ack(at(101), 1, &[0x01]); // 0, too
    bench.ack(at(107), 6, &[0x03, 0xc0, 0x01]); // 2 is missing, four arrived after it
    assert_eq!(bench.ccid.counts.lost, 0, "0 was overtaken, so 2 may have been");
    bench.ack(at(127), 26, &[0x17, 0xc0, 0x01]);
    assert_eq!(bench.ccid.counts.lost, 0, "26 was sent 24 ms after it");
    bench.ack(at(128), 27, &[0x18, 0xc0, 0x01]);
    assert_eq!((bench.ccid.counts.lost, bench.ccid.counts.halved), (1, 1));
    bench.ack(at(129), 28, &[0x1b]);
    assert_eq!(bench.ccid.reordering.window(), MS * 50, "it was late after all: half a round trip");
}

/// RFC 4341 section 5 and RFC 6298 section 5.5.
#[test]
fn silence_starts_over_and_waits_twice_as_long() {
    let mut bench = Bench::new();
    bench.ccid.cwnd = 20;
    bench.fill(at(0));
    // RTO = 100 + 4·50.
    assert_eq!(bench.ccid.poll_timeout(), Some(at(300)));
    bench.ccid.handle_timeout(at(299), &mut bench.sent, Seq::new(19));
    assert_eq!(bench.ccid.cwnd(), 20);
    bench.ccid.handle_timeout(at(300), &mut bench.sent, Seq::new(19));
    assert_eq!((bench.ccid.cwnd(), bench.ccid.ssthresh, bench.ccid.pipe), (1, 10, 0));
    assert_eq!(bench.fill(at(300)), 1);
    assert_eq!(bench.ccid.poll_timeout(), Some(at(900)));
    assert_eq!(bench.ccid.ack_ratio(), 1, "a receiver that waited for two would wait in vain");
    bench.ack(at(400), 20, &[0x00]);
    assert_eq!((bench.ccid.pipe, bench.ccid.poll_timeout()), (0, None));
}

/// RFC 9002 section 5.3: nothing is held for as long as it was away.
#[test]
fn a_peer_that_says_it_held_all_of_it_makes_no_path_of_no_length() {
    let mut bench = Bench::new();
    bench.fill(at(0));
    let ack = Acked { number: Seq::new(3), options: Options::new(&[]), elapsed: MS * 100 };
    bench.ccid.on_ack(at(100), ack, &mut bench.sent, Seq::new(3));
    assert_eq!(bench.ccid.rtt(), Some(MS * 100));
}

/// After a gap of the path, however long, the next attempt is 4 s away at most.
#[test]
fn the_timer_backs_off_to_four_seconds() {
    let mut bench = Bench::new();
    bench.fill(at(0));
    for _ in 0..20 {
        let due = bench.ccid.poll_timeout().expect("something is under way");
        let gss = Seq::new(bench.next - 1);
        bench.ccid.handle_timeout(due, &mut bench.sent, gss);
        assert_eq!(bench.fill(due), 1);
        assert!(bench.ccid.poll_timeout().is_some_and(|next| next <= due + MS * 4_000));
    }
}

/// RFC 5681 section 4.1.
#[test]
fn after_idleness_the_window_is_the_initial_one() {
    let mut bench = Bench::new();
    bench.ccid.cwnd = 20;
    bench.fill(at(0));
    bench.ack(at(100), 19, &[0x13]);
    assert_eq!(bench.ccid.cwnd(), 21);
    assert_eq!(bench.fill(at(5_000)), 4);
}

/// RFC 4341 section 6.1.
#[test]
fn the_ack_ratio_follows_lost_acknowledgements() {
    let mut bench = Bench::new();
    bench.ccid.cwnd = 16;
    let mut received = Received::new(at(0), 64, Seq::new(500));
    let record = |received: &mut Received, numbers: std::ops::Range<u64>| {
        for n in numbers {
            received.record(at(0), Seq::new(n), false);
        }
    };
    let window = |bench: &mut Bench, received: &Received, alone| {
        bench.ccid.acks.window = 16;
        bench.ccid.watch_acks(received, alone);
        bench.ccid.ack_ratio()
    };
    record(&mut received, 501..520);
    assert_eq!(window(&mut bench, &received, true), 2);
    record(&mut received, 521..540);
    assert_eq!(window(&mut bench, &received, true), 4, "520 is missing");
    record(&mut received, 541..560);
    assert_eq!(window(&mut bench, &received, false), 4, "540 may have been data");
    // One less after cwnd/(R² − R) = 16/12 windows, then 16/6.
    let ratios: Vec<_> = (0..4).map(|_| window(&mut bench, &received, true)).collect();
    assert_eq!(ratios, [3, 3, 3, 2]);
    bench.ccid.cwnd = 3;
    bench.ccid.acks.ratio = 8;
    bench.ccid.acks.fit(3);
    assert_eq!(bench.ccid.ack_ratio(), 2, "at most half a window, rounded up");
}
