use taut_media::picture::Codec;

use super::*;

const STATES: (u32, Kind) = (2, Kind::Each);
const MAPS: (u32, Kind) = (1, Kind::Newest);
const VIDEO: (u32, Kind) = (3, Kind::Pictures);

fn subscribed() -> Waiting {
    let mut waiting = Waiting::new();
    [1, 2, 3].iter().for_each(|channel| waiting.subscribe(*channel, 10 + channel));
    waiting
}

fn taken(waiting: &mut Waiting) -> Vec<(u32, u64)> {
    waiting.take(usize::MAX).iter().map(|message| (message.subscription, message.log_time)).collect()
}

/// What was left out so far: superseded, behind, without reference.
fn left_out(waiting: &Waiting) -> [u64; 3] {
    let NotShown { superseded, behind, without_reference } = waiting.not_shown();
    [superseded, behind, without_reference]
}

fn of(length: usize) -> Arc<Vec<u8>> {
    Arc::new(vec![0; length])
}

/// A picture of so many bytes; a key picture is its own reference.
fn picture(number: u32, reference: u32, length: usize) -> Arc<Vec<u8>> {
    let key = Picture::key(Codec::Vp8, 640, 480, number);
    let picture = Picture { key: number == reference, recovers: number == reference, reference, ..key };
    let mut payload = Vec::new();
    picture.emit(&mut payload);
    payload.resize(length, 0);
    Arc::new(payload)
}

#[test]
fn of_long_messages_of_the_newest_the_newest_waits_for_one_that_is_behind_and_what_lies_between_stays() {
    let mut waiting = subscribed();
    waiting.blocked(true);
    let (map, state) = (of(1 << 20), of(400));
    for at in 0..100 {
        waiting.message(MAPS, at, &map);
        waiting.message(STATES, at, &state);
    }
    assert_eq!(waiting.message((4, Kind::Each), 0, &map).0, NotShown::default(), "nobody subscribed to it");
    assert_eq!(waiting.bytes, (1 << 20) + 100 * 400);
    let mut expected: Vec<_> = (0..100).map(|at| (12, at)).collect();
    expected.insert(99, (11, 99));
    assert_eq!(taken(&mut waiting), expected);
    assert_eq!((waiting.bytes, left_out(&waiting)), (0, [99, 0, 0]));
}

#[test]
fn who_takes_what_comes_misses_nothing_however_much_comes_at_once() {
    let mut waiting = subscribed();
    let map = of(LONG);
    (0..60).for_each(|at| _ = waiting.message(MAPS, at, &map));
    assert_eq!((taken(&mut waiting).len(), left_out(&waiting)), (60, [0; 3]));
}

#[test]
fn what_every_message_of_counts_is_superseded_by_none_however_long() {
    let mut waiting = subscribed();
    waiting.blocked(true);
    let file = of(1_000_000);
    (0..4).for_each(|at| _ = waiting.message(STATES, at, &file));
    assert_eq!((taken(&mut waiting), left_out(&waiting)), ((0..4).map(|at| (12, at)).collect(), [0; 3]));
}

#[test]
fn a_key_picture_supersedes_what_waits_before_it_and_no_other_picture_does() {
    let mut waiting = subscribed();
    waiting.blocked(true);
    // The key picture is the longest, as they are, and those behind it refer to it.
    waiting.message(VIDEO, 0, &picture(0, 0, 2 * LONG));
    for number in 1..10 {
        waiting.message(VIDEO, u64::from(number), &picture(number, number - 1, 9_000));
    }
    assert_eq!(left_out(&waiting), [0; 3]);
    waiting.message(VIDEO, 10, &picture(10, 10, 2 * LONG));
    waiting.message(VIDEO, 11, &picture(11, 10, 2 * LONG));
    assert_eq!((taken(&mut waiting), left_out(&waiting)), (vec![(13, 10), (13, 11)], [10, 0, 0]));
}

#[test]
fn with_a_picture_goes_what_refers_to_it_until_one_refers_to_what_was_sent() {
    let mut waiting = subscribed();
    waiting.message(VIDEO, 0, &picture(0, 0, 100));
    assert_eq!(taken(&mut waiting), [(13, 0)]);
    // 1 refers to what was sent, 2 to 1, 3 to 0 again.
    for (number, reference) in [(1, 0), (2, 1), (3, 0)] {
        waiting.message(VIDEO, u64::from(number), &picture(number, reference, BYTES / 4));
    }
    // There is no place for this one, but for 1's: and without 1 there is none for 2 either.
    waiting.message(STATES, 9, &of(BYTES / 2));
    assert_eq!(left_out(&waiting), [0, 1, 1]);
    // 4 refers to 2, 5 to 4, 6 to 3 which waits, 7 is a key picture.
    for (number, reference) in [(4, 2), (5, 4), (6, 3), (7, 7), (8, 7)] {
        waiting.message(VIDEO, u64::from(number), &picture(number, reference, 100));
    }
    assert_eq!(left_out(&waiting), [0, 1, 3]);
    assert_eq!(taken(&mut waiting), [(13, 3), (12, 9), (13, 6), (13, 7), (13, 8)]);
    assert_eq!(waiting.bytes, 0);
}

#[test]
fn a_picture_whose_reference_made_way_for_it_is_left_out() {
    let mut waiting = subscribed();
    waiting.message(VIDEO, 0, &picture(0, 0, BYTES - 10));
    waiting.message(VIDEO, 1, &picture(1, 0, 100));
    waiting.message(VIDEO, 2, &picture(2, 1, 100));
    assert_eq!((taken(&mut waiting), left_out(&waiting)), (vec![], [0, 1, 2]));
}

#[test]
fn the_oldest_make_way_by_number_and_by_bytes() {
    let mut waiting = subscribed();
    let state = of(40);
    let most = MESSAGES as u64;
    (0..most + 7).for_each(|at| _ = waiting.message(STATES, at, &state));
    assert_eq!(left_out(&waiting), [0, 7, 0]);
    assert_eq!(taken(&mut waiting), (7..most + 7).map(|at| (12, at)).collect::<Vec<_>>());
    let fit = (BYTES / LONG) as u64;
    (0..fit + 3).for_each(|at| _ = waiting.message(STATES, at, &of(LONG)));
    assert!(waiting.bytes <= BYTES);
    assert_eq!(left_out(&waiting), [0, 7 + 3, 0]);
    // What is longer than all that may wait, waits alone.
    waiting.message(STATES, 0, &of(2 * BYTES));
    assert_eq!(left_out(&waiting), [0, 7 + 3 + fit, 0]);
    assert_eq!(taken(&mut waiting), [(12, 0)]);
}

#[test]
fn who_unsubscribes_is_sent_nothing_more_of_it_and_at_the_end_what_waits_goes_out() {
    let mut waiting = subscribed();
    let state = of(40);
    (0..3).for_each(|at| _ = (waiting.message(MAPS, at, &state), waiting.message(STATES, at, &state)));
    waiting.unsubscribe(&BTreeSet::from([11, 99]));
    assert!(!waiting.wants(1) && waiting.wants(2) && waiting.bytes == 3 * 40);
    waiting.close();
    assert_eq!(waiting.message(STATES, 3, &state).0, NotShown::default());
    assert!(!waiting.is_over());
    assert_eq!(taken(&mut waiting), [(12, 0), (12, 1), (12, 2)]);
    assert!(waiting.is_over());
}

#[test]
fn a_thread_that_sleeps_is_woken_once_when_as_much_waits_as_it_sleeps_to() {
    let mut waiting = subscribed();
    let state = of(40);
    assert!(waiting.sleep(0));
    assert!(waiting.message(STATES, 0, &state).1 && !waiting.message(STATES, 1, &state).1);
    assert!(!waiting.sleep(0) && waiting.sleep(200));
    assert!(!waiting.message(STATES, 2, &state).1 && waiting.message(STATES, 3, &of(80)).1);
    taken(&mut waiting);
    assert!(waiting.sleep(200) && waiting.close() && !waiting.close() && !waiting.sleep(200));
}

#[test]
fn messages_are_as_the_protocol_has_them() {
    let payload = Arc::new(vec![7, 8]);
    let message = Message { subscription: 0x0403_0201, log_time: 5, payload, picture: None };
    assert_eq!(message.data(), [1, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0, 7, 8]);
}
