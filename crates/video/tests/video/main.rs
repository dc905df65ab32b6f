//! VP8 by libvpx and H.264 by OpenH264, from picture to picture: through losses, at a rate, and against FFmpeg. Where taut was built without a library
//! nothing of it can be tested, and that is said.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod ffmpeg;
mod h264;

use std::collections::VecDeque;

use taut_core::Bitrate;
use taut_media::picture::Ask;
use taut_video::{Decoder, Encoder, EncoderConfig, Image, Scene, is_available};

const WIDTH: usize = 640;
const HEIGHT: usize = 480;

/// Says so where it is not.
fn has_libvpx() -> bool {
    if !is_available() {
        println!("skipped: built without libvpx");
    }
    is_available()
}

fn encoder(kbps: u64) -> Encoder {
    Encoder::new(EncoderConfig::new(WIDTH, HEIGHT, 30).rate(Bitrate::from_bps(kbps * 1_000))).unwrap()
}

/// A way of so many frames, each way, which loses some.
struct World {
    scene: Scene,
    encoder: Encoder,
    decoder: Decoder,
    forth: VecDeque<Option<Vec<u8>>>,
    back: VecDeque<Option<Ask>>,
    numbers: Vec<u32>,
    sizes: Vec<usize>,
    least_psnr: f64,
}

impl World {
    fn new(kbps: u64, way: usize) -> Self {
        Self::of(encoder(kbps), way)
    }

    fn of(encoder: Encoder, way: usize) -> Self {
        Self {
            scene: Scene::new(WIDTH, HEIGHT).unwrap(),
            encoder,
            decoder: Decoder::new().unwrap(),
            forth: (0..way).map(|_| None).collect(),
            back: (0..way).map(|_| None).collect(),
            numbers: Vec::new(),
            sizes: Vec::new(),
            least_psnr: f64::INFINITY,
        }
    }

    fn step(&mut self, number: u32, lost: bool) {
        let made = self.encoder.encode(self.scene.draw(number)).unwrap();
        self.sizes.push(made.payload.len());
        self.forth.push_back((!lost).then_some(made.payload));
        let arrived = self.forth.pop_front().flatten();
        let taken = arrived.map(|payload| self.decoder.take(&payload).unwrap()).unwrap_or_default();
        for decoded in &taken.decoded {
            let number = Scene::read(&decoded.image).expect("its number can be read");
            let original: Image = self.scene.draw(number).clone();
            self.least_psnr = self.least_psnr.min(original.psnr(&decoded.image));
            self.numbers.push(number);
        }
        self.back.push_back(taken.ask);
        if let Some(ask) = self.back.pop_front().flatten() {
            self.encoder.ask(ask);
        }
    }
}

#[test]
fn every_picture_comes_back_with_its_number() {
    if !has_libvpx() {
        return;
    }
    let mut world = World::new(1_500, 0);
    (0..60).for_each(|number| world.step(number, false));
    assert_eq!(world.numbers, (0..60).collect::<Vec<_>>());
    println!("1500 kbit/s: {:.1} dB or more", world.least_psnr);
    assert!(world.least_psnr > 25.0, "{} dB", world.least_psnr);
}

#[test]
fn losses_cost_a_few_frames_each_and_no_key_frame_and_leave_no_trace_in_pictures() {
    if !has_libvpx() {
        return;
    }
    let mut world = World::new(1_500, 1);
    // One in thirty, from when the first key frame is acknowledged.
    (0..300).for_each(|number| world.step(number, number > 10 && number % 30 == 7));
    let counts = world.decoder.counts();
    println!("{counts:?}, {:.1} dB or more", world.least_psnr);
    assert_eq!(counts.keys, 1, "{counts:?}");
    assert_eq!(counts.recovered, 9, "{counts:?}");
    // The frame, and the two that were made before its loss was known.
    assert!(counts.missing <= 9 * 4, "{counts:?}");
    assert!(world.numbers.is_sorted() && world.least_psnr > 25.0, "{} dB", world.least_psnr);
}

#[test]
fn a_lost_key_frame_is_made_again_once() {
    if !has_libvpx() {
        return;
    }
    let mut world = World::new(1_500, 2);
    (0..60).for_each(|number| world.step(number, number == 0));
    assert_eq!(world.decoder.counts().keys, 1);
    let first = world.numbers[0];
    assert!((1..=14).contains(&first), "the first is {first}");
    assert_eq!(world.numbers, (first..58).collect::<Vec<_>>());
}

#[test]
fn a_key_frame_that_comes_behind_a_newer_one_is_not_shown_and_stops_nothing() {
    if !has_libvpx() {
        return;
    }
    let (mut encoder, mut decoder) = (encoder(1_500), Decoder::new().unwrap());
    let mut scene = Scene::new(WIDTH, HEIGHT).unwrap();
    let mut late = None;
    for number in 0..60 {
        let made = encoder.encode(scene.draw(number)).unwrap();
        if number == 0 {
            late = Some(made.payload);
            continue;
        }
        let taken = decoder.take(&made.payload).unwrap();
        assert_eq!(taken.decoded.len(), usize::from(number > 2), "frame {number}");
        taken.ask.into_iter().for_each(|ask| encoder.ask(ask));
        if number == 6 {
            let taken = decoder.take(&late.take().unwrap()).unwrap();
            assert_eq!((taken.decoded.len(), taken.ask), (0, None));
        }
    }
    assert_eq!((decoder.counts().keys, decoder.counts().useless), (1, 3));
}

#[test]
fn an_encoder_that_begins_anew_soon_is_not_taken_for_one_whose_frames_are_late_for_long() {
    if !has_libvpx() {
        return;
    }
    let mut decoder = Decoder::new().unwrap();
    let mut scene = Scene::new(WIDTH, HEIGHT).unwrap();
    for frames in [100, 60] {
        let mut encoder = encoder(1_500);
        for number in 0..frames {
            let taken = decoder.take(&encoder.encode(scene.draw(number)).unwrap().payload).unwrap();
            taken.ask.into_iter().for_each(|ask| encoder.ask(ask));
            assert!(frames == 100 || number < 40 || taken.decoded.len() == 1, "frame {number}");
        }
    }
}

#[test]
fn a_frame_that_nobody_sees_is_none_that_is_missing() {
    if !has_libvpx() {
        return;
    }
    let (mut encoder, mut decoder) = (encoder(1_500), Decoder::new().unwrap());
    let mut scene = Scene::new(WIDTH, HEIGHT).unwrap();
    for number in 0..5 {
        let made = encoder.encode(scene.draw(number)).unwrap();
        let (header, mut payload) = (made.payload.len() - made.frame().len(), made.payload);
        if number == 2 {
            // `show_frame` (RFC 6386 section 9.1).
            payload[header] &= !0x10;
        }
        let taken = decoder.take(&payload).unwrap();
        assert_eq!(taken.decoded.len(), usize::from(number != 2), "frame {number}");
        assert_eq!(taken.ask, Some(Ask::Decoded { last: number, later: 0 }));
    }
    assert_eq!((decoder.counts().malformed, decoder.counts().missing), (0, 0));
}

#[test]
fn frames_keep_to_the_rate_and_key_frames_to_three_times_an_average_frame() {
    if !has_libvpx() {
        return;
    }
    let mut world = World::new(2_000, 0);
    (0..120).for_each(|number| world.step(number, false));
    let kbps = |sizes: &[usize]| sizes.iter().sum::<usize>() * 8 * 30 / sizes.len() / 1_000;
    let before = kbps(&world.sizes[30..]);
    world.encoder.set_bitrate(Bitrate::from_bps(700_000)).unwrap();
    (120..240).for_each(|number| world.step(number, false));
    let after = kbps(&world.sizes[150..]);
    world.encoder.restart();
    let average = world.sizes[150..].iter().sum::<usize>() / 90;
    world.step(240, false);
    let key = world.sizes[240];
    println!("2000 and 700 kbit/s: {before} and {after}; a key frame of {key} B, others {average} B");
    assert!((1_600..2_400).contains(&before) && (560..840).contains(&after), "{before} {after}");
    assert!(key < average * 4, "{key} B, others {average} B");
}

/// A camera whose first picture takes longer than it counts would never show one.
#[test]
fn a_camera_of_few_pictures_has_them_in_full_size_and_key_frames_that_take_no_longer() {
    if !has_libvpx() {
        return;
    }
    let rate = Bitrate::from_bps(2_000_000);
    for frames in [5, 10, 15, 20, 30, 60] {
        let mut encoder = Encoder::new(EncoderConfig::new(WIDTH, HEIGHT, frames).rate(rate)).unwrap();
        let (mut scene, mut decoder) = (Scene::new(WIDTH, HEIGHT).unwrap(), Decoder::new().unwrap());
        for number in 0..3 * frames {
            if number % frames == 0 {
                encoder.restart();
            }
            let made = encoder.encode(scene.draw(number)).unwrap();
            let taken = decoder.take(&made.payload).unwrap();
            let read: Vec<_> = taken.decoded.iter().map(|decoded| Scene::read(&decoded.image)).collect();
            assert_eq!(read, [Some(number)], "{frames} a second");
            // A frame that comes once in 200 ms may take as long. libvpx keeps to what it is told within a quarter.
            let most = (1_000 / u64::from(frames)).max(150) * 5 / 4;
            let takes = made.payload.len() as u64 * 8 / 2_000;
            assert!(number % frames != 0 || takes <= most, "{frames} a second, {number}: {takes} ms");
        }
    }
}

/// Another room, all at once, is one frame that takes too long: pictures are smaller for a moment, not for good. What comes behind a key frame in the middle
/// of things is none: it is no finer than that was.
#[test]
fn a_scene_that_changes_at_once_makes_pictures_smaller_for_a_moment() {
    if !has_libvpx() {
        return;
    }
    let another = bricks(WIDTH, HEIGHT);
    for (frames, kbps) in [(30, 1_500), (30, 2_000), (10, 1_000), (10, 2_000), (5, 2_000)] {
        let mut encoder =
            Encoder::new(EncoderConfig::new(WIDTH, HEIGHT, frames).rate(Bitrate::from_bps(kbps * 1_000)))
                .unwrap();
        let (mut scene, mut decoder) = (Scene::new(WIDTH, HEIGHT).unwrap(), Decoder::new().unwrap());
        let mut halved = Vec::new();
        for second in 0..12 {
            if second == 3 {
                encoder.restart();
            }
            let small = (0..frames).filter(|at| {
                let image = if second < 6 { scene.draw(second * frames + at) } else { &another };
                let made = encoder.encode(image).unwrap();
                let taken = decoder.take(&made.payload).unwrap();
                taken.ask.into_iter().for_each(|ask| encoder.ask(ask));
                usize::from(made.picture.width) < WIDTH
            });
            halved.push(small.count());
        }
        println!("{frames} a second, {kbps} kbit/s: smaller in each second {halved:?}");
        assert!(halved[..6].iter().chain(&halved[9..]).all(|small| *small == 0), "{halved:?}");
    }
}

/// A picture with edges all over.
fn bricks(width: usize, height: usize) -> Image {
    let rgb: Vec<u8> = (0..width * height)
        .flat_map(|at| {
            let (x, y) = (at % width, at / width);
            let brick = (x / 14 + y / 11 * 31).wrapping_mul(2_654_435_761) >> 7;
            [brick as u8, (brick >> 8) as u8, (brick >> 16) as u8]
        })
        .collect();
    Image::from_rgb(width, height, &rgb).unwrap()
}

#[test]
fn where_no_frame_would_be_in_time_pictures_are_smaller_until_one_is() {
    if !has_libvpx() {
        return;
    }
    let (mut scene, mut encoder, mut decoder) =
        (Scene::new(WIDTH, HEIGHT).unwrap(), encoder(2_000), Decoder::new().unwrap());
    let mut number = 0;
    let mut at = |kbps: u64, seconds: u32| {
        encoder.set_bitrate(Bitrate::from_bps(kbps * 1_000)).unwrap();
        let mut sizes = Vec::new();
        for _ in 0..30 * seconds {
            let made = encoder.encode(scene.draw(number)).unwrap();
            let bytes = made.frame().len() as u64;
            assert!(bytes * 8 <= kbps * 200, "{bytes} B at {kbps} kbit/s, picture {number}");
            let taken = decoder.take(&made.payload).unwrap();
            let image = &taken.decoded[0].image;
            assert_eq!(
                (made.picture.width, made.picture.height),
                (image.width() as u16, image.height() as u16)
            );
            taken.ask.into_iter().for_each(|ask| encoder.ask(ask));
            sizes.push(made.picture.width);
            number += 1;
        }
        println!("{kbps} kbit/s: {} wide at first, {} at last", sizes[0], sizes[sizes.len() - 1]);
        sizes
    };
    assert!(at(1_500, 2).iter().all(|width| *width == 640));
    assert!(at(60, 2)[59] < 640);
    assert!(at(2_000, 3)[89] == 640);
}

#[test]
fn bytes_that_are_no_frame_are_counted_and_ask_for_a_key_frame() {
    if !has_libvpx() {
        return;
    }
    let mut decoder = Decoder::new().unwrap();
    assert!(decoder.take(b"nothing").is_err());
    let mut encoder = encoder(1_500);
    let mut scene = Scene::new(WIDTH, HEIGHT).unwrap();
    let mut made = encoder.encode(scene.draw(0)).unwrap();
    made.payload.truncate(taut_media::picture::HEADER + 5);
    assert_eq!(decoder.take(&made.payload).unwrap().ask, Some(Ask::Key(0)));
    assert_eq!(decoder.counts().malformed, 2);
    encoder.ask(Ask::Key(0));
    encoder.restart();
    let made = encoder.encode(scene.draw(1)).unwrap();
    assert_eq!(decoder.take(&made.payload).unwrap().decoded.len(), 1);
}
