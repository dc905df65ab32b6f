//! H.264 by OpenH264: as VP8 beside it, through losses, at a rate, and against FFmpeg and x264, which know nothing of it. Needs the feature `openh264`.

use std::io::Write;

use taut_core::Bitrate;
use taut_media::picture::{Ask, Codec, HEADER, Picture};
use taut_video::{Decoder, Encoder, EncoderConfig, Image, Scene, has_h264};
use taut_wire::rtp::h264::annex_b_units;

use super::ffmpeg::{Scratch, decoded_by_ffmpeg, ffmpeg, has_ffmpeg};
use super::{HEIGHT, WIDTH, World, has_libvpx};

/// Says so where it is not.
fn has_openh264() -> bool {
    if !has_h264() {
        println!("skipped: built without OpenH264 (--features openh264)");
    }
    has_h264()
}

fn encoder(codec: Codec, kbps: u64) -> Encoder {
    let config = EncoderConfig::new(WIDTH, HEIGHT, 30).rate(Bitrate::from_bps(kbps * 1_000)).codec(codec);
    Encoder::new(config).unwrap()
}

#[test]
fn losses_cost_a_few_frames_each_and_seldom_a_key_frame_in_h264() {
    if !has_openh264() {
        return;
    }
    for way in [1, 4] {
        let mut world = World::of(encoder(Codec::H264, 1_500), way);
        // One in thirty, from when the first key frame is acknowledged.
        (0..600).for_each(|number| world.step(number, number > 20 && number % 30 == 7));
        let counts = world.decoder.counts();
        println!("{way} frames each way: {counts:?}, {:.1} dB or more", world.least_psnr);
        // What has moved far is too long as a frame that recovers.
        assert_eq!((counts.keys - 1 + counts.recovered, counts.malformed), (19, 0), "{counts:?}");
        assert!(counts.keys <= 5, "{counts:?}");
        assert!(counts.missing <= 19 * (2 * way as u64 + 2), "{counts:?}");
        assert!(world.numbers.is_sorted() && world.least_psnr > 22.0, "{} dB", world.least_psnr);
    }
}

/// Losses in bursts, also of frames that recover and of what keeps a picture: whatever is decoded is right, and it always goes on.
#[test]
fn whatever_is_lost_what_is_decoded_is_right() {
    if !has_openh264() {
        return;
    }
    let mut rng = taut_core::Seed::new(7).stream("losses");
    for way in [0, 2, 7] {
        let mut world = World::of(encoder(Codec::H264, 1_500), way);
        let mut bad = false;
        for number in 0..400 {
            bad = if bad { rng.below(100) < 60 } else { rng.below(100) < 3 };
            world.step(number, bad);
        }
        (400..460).for_each(|number| world.step(number, false));
        let counts = world.decoder.counts();
        println!("{way} frames each way: {counts:?}, {:.1} dB or more", world.least_psnr);
        assert!(world.least_psnr > 22.0 && counts.malformed == 0, "{counts:?}, {} dB", world.least_psnr);
        assert!(counts.decoded > 200 && counts.keys <= 8, "{counts:?}");
        let last = *world.numbers.last().unwrap();
        assert_eq!(last as usize, 459 - way);
    }
}

#[test]
fn ffmpeg_sees_every_frame_of_ours_as_our_decoder_does_also_after_a_loss() {
    if !has_openh264() || !has_ffmpeg() {
        return;
    }
    let scratch = Scratch::new("h264-ours");
    let (mut encoder, mut decoder) = (encoder(Codec::H264, 1_500), Decoder::new().unwrap());
    let mut scene = Scene::new(WIDTH, HEIGHT).unwrap();
    let (mut bytes, mut ours, mut drawn, mut recovered) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for number in 0..60 {
        let made = encoder.encode(scene.draw(number)).unwrap();
        // Never sent, nor its two followers.
        if number == 20 {
            encoder.lost();
            continue;
        }
        recovered += u32::from(made.picture.recovers && !made.picture.key);
        bytes.extend_from_slice(made.frame());
        let mut taken = decoder.take(&made.payload).unwrap();
        ours.push(taken.decoded.remove(0).image);
        drawn.push(scene.draw(number).clone());
        taken.ask.into_iter().for_each(|ask| encoder.ask(ask));
    }
    assert_eq!(recovered, 1);
    let file = scratch.path("ours.h264");
    std::fs::File::create(&file).unwrap().write_all(&bytes).unwrap();
    let theirs = decoded_by_ffmpeg(&file, &scratch);
    let psnr: Vec<_> = drawn.iter().zip(&theirs).map(|(drawn, theirs)| drawn.psnr(theirs)).collect();
    let (least, mean) = (psnr.iter().copied().fold(f64::MAX, f64::min), psnr.iter().sum::<f64>() / 59.0);
    println!("{} frames, {mean:.1} dB in the mean, {least:.1} dB at least", theirs.len());
    assert!(theirs == ours, "{} frames of FFmpeg differ from {}", theirs.len(), ours.len());
    assert!(theirs.len() == 59 && least > 22.0 && mean > 30.0, "{least} {mean}");
}

/// The frames of a byte stream with a delimiter before each.
fn access_units(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for unit in annex_b_units(stream) {
        if unit[0] & 0x1f == 9 {
            frames.push(Vec::new());
        }
        let frame = frames.last_mut().expect("a delimiter is first");
        frame.extend_from_slice(&[0, 0, 0, 1]);
        frame.extend_from_slice(unit);
    }
    frames
}

#[test]
fn our_decoder_sees_the_pixels_that_ffmpeg_sees_of_x264s_frames() {
    if !has_openh264() || !has_ffmpeg() {
        return;
    }
    let size = format!("testsrc2=size={WIDTH}x{HEIGHT}:rate=30:duration=2");
    for profile in ["baseline", "main", "high"] {
        let scratch = Scratch::new(&format!("h264-{profile}"));
        let file = scratch.path("theirs.h264");
        let encode =
            ["-f", "lavfi", "-i", &size, "-pix_fmt", "yuv420p", "-c:v", "libx264", "-profile:v", profile];
        let low = ["-tune", "zerolatency", "-g", "30", "-b:v", "1M", "-x264-params", "aud=1:threads=1"];
        ffmpeg(&encode.into_iter().chain(low).chain([file.to_str().unwrap()]).collect::<Vec<_>>());
        let theirs = decoded_by_ffmpeg(&file, &scratch);
        let (mut decoder, mut ours) = (Decoder::new().unwrap(), Vec::new());
        for (number, frame) in (0..).zip(access_units(&std::fs::read(&file).unwrap())) {
            let key = Picture::key(Codec::H264, WIDTH as u16, HEIGHT as u16, number);
            let is_key = annex_b_units(&frame).any(|unit| unit[0] & 0x1f == 5);
            let picture = if is_key {
                key
            } else {
                Picture { key: false, recovers: false, reference: number - 1, ..key }
            };
            let mut payload = Vec::with_capacity(HEADER + frame.len());
            picture.emit(&mut payload);
            payload.extend_from_slice(&frame);
            ours.extend(decoder.take(&payload).unwrap().decoded.into_iter().map(|decoded| decoded.image));
        }
        println!("{profile}: {} frames of FFmpeg, {} of ours", theirs.len(), ours.len());
        assert!(ours.len() == 60 && theirs == ours, "{profile}");
    }
}

/// In each tenth of a second from when the rate is halved, beside VP8: kbit/s.
#[test]
fn frames_keep_to_a_rate_that_is_halved_within_a_second() {
    if !has_openh264() {
        return;
    }
    for (codec, is_there) in [(Codec::H264, true), (Codec::Vp8, has_libvpx())] {
        if !is_there {
            continue;
        }
        let mut world = World::of(encoder(codec, 2_000), 0);
        (0..120).for_each(|number| world.step(number, false));
        world.encoder.set_bitrate(Bitrate::from_bps(1_000_000)).unwrap();
        (120..240).for_each(|number| world.step(number, false));
        let kbps = |range: std::ops::Range<usize>| {
            world.sizes[range.clone()].iter().sum::<usize>() * 8 * 30 / range.len() / 1_000
        };
        let tenths: Vec<_> = (0..15).map(|tenth| kbps(120 + 3 * tenth..123 + 3 * tenth)).collect();
        let (before, first, second) = (kbps(30..120), kbps(120..150), kbps(150..180));
        println!("{codec:?}: {before} kbit/s, then {first} and {second}; in tenths of a second {tenths:?}");
        assert!((1_500..2_500).contains(&before), "{codec:?}: {before}");
        assert!(first < 1_300 && (700..1_150).contains(&second), "{codec:?}: {first} {second}");
        world.encoder.restart();
        let average = world.sizes[150..].iter().sum::<usize>() / 90;
        world.step(240, false);
        println!("{codec:?}: a key frame of {} B, others {average} B", world.sizes[240]);
        assert!(world.sizes[240] < 4 * average, "{codec:?}: {} B", world.sizes[240]);
    }
}

#[test]
fn where_no_frame_of_h264_would_be_in_time_pictures_are_smaller_until_one_is() {
    if !has_openh264() {
        return;
    }
    let mut world = World::of(encoder(Codec::H264, 1_500), 0);
    let mut widths = Vec::new();
    for (kbps, frames) in [(1_500, 0..60), (60, 60..120), (2_000, 120..210)] {
        world.encoder.set_bitrate(Bitrate::from_bps(kbps * 1_000)).unwrap();
        world.encoder.restart();
        for number in frames {
            let made = world.encoder.encode(world.scene.draw(number)).unwrap();
            let bytes = made.frame().len() as u64;
            assert!(bytes * 8 <= kbps * 200, "{bytes} B at {kbps} kbit/s, picture {number}");
            let taken = world.decoder.take(&made.payload).unwrap();
            assert_eq!(usize::from(made.picture.width), taken.decoded[0].image.width());
            taken.ask.into_iter().for_each(|ask| world.encoder.ask(ask));
            widths.push(made.picture.width);
        }
    }
    println!("wide at 1500, 60 and 2000 kbit/s: {}, {}, {}", widths[59], widths[119], widths[209]);
    assert!(widths[..60].iter().all(|width| *width == 640) && widths[119] < 640 && widths[209] == 640);
}

#[test]
fn sizes_that_h264_has_not_are_refused_and_so_are_bytes_that_are_no_frame() {
    if !has_openh264() {
        return;
    }
    for (width, height) in [(641, 480), (640, 481), (14, 480), (3_842, 480), (2_400, 2_400)] {
        let config = EncoderConfig::new(width, height, 30).codec(Codec::H264);
        assert!(Encoder::new(config).is_err(), "{width}×{height}");
    }
    let mut decoder = Decoder::new().unwrap();
    let mut encoder = encoder(Codec::H264, 1_500);
    let mut scene = Scene::new(WIDTH, HEIGHT).unwrap();
    let mut made = encoder.encode(scene.draw(0)).unwrap();
    made.payload.truncate(HEADER + 40);
    assert_eq!(decoder.take(&made.payload).unwrap().ask, Some(Ask::Key(0)));
    // Bytes that were turned over on the way never are: the session is sealed. But they take no more than a frame's time.
    let mut rng = taut_core::Seed::new(5).stream("hostile");
    for number in 1..200 {
        encoder.restart();
        let mut made = encoder.encode(scene.draw(number)).unwrap();
        for _ in 0..8 {
            let at = HEADER + rng.below((made.payload.len() - HEADER) as u64) as usize;
            made.payload[at] = rng.below(256) as u8;
        }
        let _ = decoder.take(&made.payload);
    }
    encoder.restart();
    let made = encoder.encode(scene.draw(200)).unwrap();
    let taken = decoder.take(&made.payload).unwrap();
    assert_eq!(
        taken.decoded.iter().map(|decoded| Scene::read(&decoded.image)).collect::<Vec<_>>(),
        [Some(200)]
    );
}

/// Both may come on one channel, one after the other, where the robot was started anew.
#[test]
fn a_key_frame_may_be_of_the_other_codec() {
    if !has_openh264() || !has_libvpx() {
        return;
    }
    let mut decoder = Decoder::new().unwrap();
    let mut scene = Scene::new(WIDTH, HEIGHT).unwrap();
    // Each numbers its frames from anywhere, as a robot's first encoder does.
    for (codec, first) in [(Codec::Vp8, 9_000), (Codec::H264, 5_000), (Codec::Vp8, 70_000)] {
        let config = EncoderConfig::new(WIDTH, HEIGHT, 30).codec(codec).first(first);
        let mut encoder = Encoder::new(config).unwrap();
        for number in 0..3 {
            let made = encoder.encode(scene.draw(number)).unwrap();
            let read =
                decoder.take(&made.payload).unwrap().decoded.pop().map(|decoded| Scene::read(&decoded.image));
            assert_eq!((made.picture.codec, read), (codec, Some(Some(number))));
        }
    }
}

/// One run of both, in turns of a second: time of a frame, its bytes and dB, of all seconds but the first two, and how many were made smaller.
#[test]
#[ignore = "measures: cargo test --release -p taut-video --features openh264 h264_beside_vp8 -- --ignored --nocapture"]
#[allow(clippy::disallowed_methods)] // It measures time.
fn h264_beside_vp8_measured() {
    assert!(has_h264() && has_libvpx());
    let pictures: Vec<Image> = pictures();
    for kbps in [300, 500, 700, 1_000, 1_400, 2_000] {
        let mut measured = [Codec::Vp8, Codec::H264]
            .map(|codec| (codec, encoder(codec, kbps), Decoder::new().unwrap(), (0.0, 0, 0.0, 0)));
        for (second, pictures) in pictures.chunks(30).enumerate() {
            for (_, encoder, decoder, sum) in &mut measured {
                for image in pictures {
                    let began = std::time::Instant::now();
                    let made = encoder.encode(image).unwrap();
                    let ms = began.elapsed().as_secs_f64() * 1e3;
                    let mut taken = decoder.take(&made.payload).unwrap();
                    let seen = taken.decoded.remove(0).image;
                    taken.ask.into_iter().for_each(|ask| encoder.ask(ask));
                    let small = u32::from(seen.width() < WIDTH);
                    let psnr = if small == 1 { 0.0 } else { image.psnr(&seen) };
                    if second >= 2 {
                        *sum = (sum.0 + ms, sum.1 + made.frame().len(), sum.2 + psnr, sum.3 + small);
                    }
                }
            }
        }
        let count = (pictures.len() - 60) as f64;
        for (codec, _, _, (ms, bytes, db, small)) in measured {
            let rate = bytes as f64 * 8.0 * 30.0 / count / 1e3;
            let (ms, db) = (ms / count, db / (count - f64::from(small)));
            println!(
                "{kbps} kbit/s, {codec:?}: {ms:.2} ms a frame, {rate:.0} kbit/s, {db:.2} dB, {small} smaller"
            );
        }
    }
}

/// Ten seconds that no one here drew, where there is FFmpeg, else of the test picture.
fn pictures() -> Vec<Image> {
    if !has_ffmpeg() {
        let mut scene = Scene::new(WIDTH, HEIGHT).unwrap();
        return (0..300).map(|number| scene.draw(number).clone()).collect();
    }
    let scratch = Scratch::new("h264-measure");
    let file = scratch.path("pictures.yuv");
    let source = format!(
        "testsrc2=size={WIDTH}x{HEIGHT}:rate=30:duration=10,noise=alls=6:allf=t:all_seed=1,rotate=a=0.3*sin(t*1.3):c=gray"
    );
    ffmpeg(&["-f", "lavfi", "-i", &source, "-pix_fmt", "yuv420p", "-f", "rawvideo", file.to_str().unwrap()]);
    let bytes = std::fs::read(file).unwrap();
    bytes
        .chunks_exact(WIDTH * HEIGHT * 3 / 2)
        .map(|bytes| Image::from_i420(WIDTH, HEIGHT, bytes.to_vec()).unwrap())
        .collect()
}
