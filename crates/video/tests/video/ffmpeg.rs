//! An independent codec: FFmpeg decodes what is encoded here, and encodes what is decoded here. Decoding VP8 is exact (RFC 6386 section 1), so
//! both have the same pixels.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use taut_media::picture::{Codec, HEADER, Picture};
use taut_video::{Decoder, Image, Ivf, IvfHeader, Scene, ivf_frame};

use super::{HEIGHT, WIDTH, encoder, has_libvpx};

/// A folder of its own, removed with it.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("taut-video-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn has_ffmpeg() -> bool {
    let found = Command::new("ffmpeg").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = found.is_ok_and(|status| status.success());
    if !is_there {
        println!("skipped: there is no ffmpeg (apt-get install ffmpeg)");
    }
    is_there
}

pub(super) fn ffmpeg(arguments: &[&str]) {
    let output = Command::new("ffmpeg").args(["-v", "error", "-nostdin", "-y"]).args(arguments).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What FFmpeg makes of the file.
pub(super) fn decoded_by_ffmpeg(file: &Path, scratch: &Scratch) -> Vec<Image> {
    let raw = scratch.0.join("raw.yuv");
    ffmpeg(
        &["-i", file.to_str().unwrap(), "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "yuv420p"]
            .into_iter()
            .chain([raw.to_str().unwrap()])
            .collect::<Vec<_>>(),
    );
    let bytes = std::fs::read(raw).unwrap();
    let image = |bytes: &[u8]| Image::from_i420(WIDTH, HEIGHT, bytes.to_vec()).unwrap();
    bytes.chunks_exact(WIDTH * HEIGHT * 3 / 2).map(image).collect()
}

#[test]
fn ffmpeg_sees_the_pixels_that_our_decoder_sees_of_our_frames() {
    if !has_libvpx() || !has_ffmpeg() {
        return;
    }
    let scratch = Scratch::new("ours");
    let (mut encoder, mut decoder) = (encoder(1_500), Decoder::new().unwrap());
    let mut scene = Scene::new(WIDTH, HEIGHT).unwrap();
    let file = scratch.0.join("ours.ivf");
    let header = IvfHeader { width: WIDTH as u16, height: HEIGHT as u16, rate: 30, scale: 1 };
    let mut bytes = header.emit();
    let (mut ours, mut psnr) = (Vec::new(), 0.0);
    for number in 0..40 {
        let made = encoder.encode(scene.draw(number)).unwrap();
        bytes.extend(ivf_frame(u64::from(number), made.frame()));
        let mut taken = decoder.take(&made.payload).unwrap();
        let image = taken.decoded.remove(0).image;
        psnr += scene.draw(number).psnr(&image) / 40.0;
        ours.push(image);
        taken.ask.into_iter().for_each(|ask| encoder.ask(ask));
        // A frame that recovers is decoded by others as well.
        if number == 20 {
            encoder.lost();
        }
    }
    std::fs::File::create(&file).unwrap().write_all(&bytes).unwrap();
    let theirs = decoded_by_ffmpeg(&file, &scratch);
    println!("40 frames, {psnr:.1} dB in the mean beside what was drawn");
    assert!(theirs == ours, "{} frames of FFmpeg differ from {}", theirs.len(), ours.len());
    assert!(psnr > 28.0, "{psnr}");
}

#[test]
fn our_decoder_sees_the_pixels_that_ffmpeg_sees_of_its_own_frames() {
    if !has_libvpx() || !has_ffmpeg() {
        return;
    }
    let scratch = Scratch::new("theirs");
    let file = scratch.0.join("theirs.ivf");
    let size = format!("testsrc2=size={WIDTH}x{HEIGHT}:rate=30:duration=2");
    let encode = ["-f", "lavfi", "-i", &size, "-c:v", "libvpx", "-deadline", "realtime", "-b:v", "1M"];
    ffmpeg(&encode.into_iter().chain(["-auto-alt-ref", "0", file.to_str().unwrap()]).collect::<Vec<_>>());
    let theirs = decoded_by_ffmpeg(&file, &scratch);
    let mut ivf = Ivf::new(std::fs::read(&file).unwrap()).unwrap();
    let mut decoder = Decoder::new().unwrap();
    let (mut ours, mut number) = (Vec::new(), 0);
    while let Some(frame) = ivf.next_frame() {
        let (key, before) = (frame[0] & 1 == 0, u32::wrapping_sub(number, 1));
        let key_picture = Picture::key(Codec::Vp8, WIDTH as u16, HEIGHT as u16, number);
        let picture = match key {
            true => key_picture,
            false => Picture { key, recovers: false, reference: before, ..key_picture },
        };
        let mut payload = Vec::with_capacity(HEADER + frame.len());
        picture.emit(&mut payload);
        payload.extend_from_slice(frame);
        ours.extend(decoder.take(&payload).unwrap().decoded.into_iter().map(|decoded| decoded.image));
        number += 1;
    }
    assert!(ours.len() == 60 && theirs == ours, "{} frames of FFmpeg, {} of ours", theirs.len(), ours.len());
}
