//! Pictures of GStreamer pipelines, from a robot to an operator. Needs a taut with the feature `gstreamer`, and for H.264 `openh264`; without, they say so.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use taut_media::picture::Picture;
use taut_video::{Decoder, Image, Scene};

use crate::confinement::{capabilities, has_privileges};
use crate::sessions::{Running, beside_one};
use crate::world::World;

/// Does this taut have it, and the elements? Else it is said.
fn has(world: &World, elements: &[&str]) -> bool {
    let ended = world.taut(
        "robot --listen 127.0.0.1:0 --plaintext --transport udp --state none --video front=gst:nonsense",
    );
    if ended.err.contains("--features gstreamer") || ended.err.contains("libvpx-dev") {
        println!("skipped: {}", ended.err.trim());
        return false;
    }
    let missing = elements.iter().find(|element| {
        let found =
            Command::new("gst-inspect-1.0").arg(element).stdout(Stdio::null()).stderr(Stdio::null()).status();
        !found.is_ok_and(|status| status.success())
    });
    if let Some(missing) = missing {
        println!(
            "skipped: GStreamer has no {missing} (apt-get install gstreamer1.0-tools gstreamer1.0-plugins-ugly)"
        );
    }
    missing.is_none()
}

struct Watched {
    seen: Value,
    /// What the robot said beside its events.
    said: String,
    pictures: Vec<(Picture, Image)>,
}

/// What an operator saw of this pipeline, and the pictures that its native decoder made of what came.
fn watched(world: &World, pipeline: &str, more: &[&str]) -> Watched {
    let _beside = beside_one();
    let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
    let (robot_id, operator_id) = (identity("robot"), identity("operator"));
    let mut command = world.command(&format!(
        "robot --listen 127.0.0.1:0 --identity robot --trust {operator_id} --state kept --watchdog 3s --json"
    ));
    command.args(["--video", &format!("front=gst:{pipeline}")]).args(more);
    let mut robot = Running::saying(command, std::fs::File::create(world.path("said")).unwrap().into());
    let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let mut operator = Running::start(world.command(&format!(
        "operator --connect {address} --robot-id {robot_id} --identity operator --state asked --messages 5000 --resume start \
         --video front --json --record seen.mcap"
    )));
    let seen = operator.wait_for("video_summary");
    let summary = operator.find(|line| line["event"] == "summary").expect("the session goes on to its end");
    // It ends by itself, and is only waited for.
    assert_eq!(operator.end("-0").0, 0, "its recording is whole");
    assert!(summary["made"].as_u64() >= Some(4_000), "{summary}");
    assert_eq!(robot.end("-TERM").0, 0);
    println!("{seen}");
    let said = std::fs::read_to_string(world.path("said")).unwrap();
    Watched { seen, said, pictures: decoded(&world.path("seen.mcap")) }
}

fn decoded(file: &Path) -> Vec<(Picture, Image)> {
    let bytes = std::fs::read(file).unwrap();
    let messages = mcap::MessageStream::new(&bytes).unwrap().map(Result::unwrap);
    let mut decoder = Decoder::new().unwrap();
    let pictures = messages.filter(|message| message.channel.topic == "to_operator/front");
    let taken = pictures
        .flat_map(|message| decoder.take(&message.data).map(|taken| taken.decoded).unwrap_or_default());
    taken.map(|decoded| (decoded.picture, decoded.image)).collect()
}

#[test]
fn a_known_pattern_comes_through_as_pictures_and_as_frames_of_other_encoders() {
    let world = World::new("gst-pattern");
    if !has(&world, &["x264enc", "vp8enc", "openh264enc"]) {
        return;
    }
    let source = "videotestsrc is-live=true pattern=red ! video/x-raw,width=320,height=240,framerate=30/1";
    for (end, codec, more) in [
        ("", "vp8", &[][..]),
        (" ! videoconvert ! video/x-raw,format=NV12", "h264", &["--video-codec", "h264"]),
        (" ! x264enc tune=zerolatency key-int-max=100000", "h264", &[]),
        (" ! vp8enc deadline=1 keyframe-max-dist=100000", "vp8", &[]),
    ] {
        if codec == "h264" && !taut_video::has_h264() {
            println!("skipped: {end}: built without OpenH264");
            continue;
        }
        let Watched { seen, said, pictures } = watched(&world, &format!("{source}{end}"), more);
        assert_eq!((seen["codec"].as_str(), seen["malformed"].as_u64()), (Some(codec), Some(0)), "{seen}");
        assert!(pictures.len() > 60, "{end}: {} pictures, {seen}, {said}", pictures.len());
        assert!(seen["age_ms"]["p50"].as_f64().unwrap() < 500.0, "{seen}");
        for (picture, image) in &pictures {
            assert_eq!((picture.width, picture.height, image.width()), (320, 240, 320));
            let rgb = image.to_rgb();
            let is_red = |pixel: &[u8]| pixel[0] > 225 && pixel[1] < 30 && pixel[2] < 30;
            assert!(rgb.chunks(3).all(is_red), "{end}: {:?}", &rgb[..6]);
        }
    }
}

/// A film of taut's own pictures, in which each has its number: all of them come, in order, through an encoder that taut does not know from inside.
#[test]
fn every_picture_that_a_pipeline_has_is_seen_in_order() {
    let world = World::new("gst-numbers");
    if !has(&world, &["x264enc", "rawvideoparse"]) || !taut_video::has_h264() {
        return;
    }
    let mut scene = Scene::new(576, 64).unwrap();
    let film: Vec<u8> = (0..240).flat_map(|number| scene.draw(number).as_i420().to_vec()).collect();
    std::fs::write(world.path("film.yuv"), film).unwrap();
    let source = format!(
        "filesrc location={} ! rawvideoparse width=576 height=64 format=i420 framerate=30/1",
        world.path("film.yuv").display()
    );
    for end in ["", " ! x264enc tune=zerolatency key-int-max=30"] {
        let Watched { seen, said, pictures } = watched(&world, &format!("{source}{end}"), &[]);
        let numbers: Vec<_> = pictures.iter().filter_map(|(_, image)| Scene::read(image)).collect();
        println!("{end}: {numbers:?}");
        assert!(numbers.is_sorted_by(|before, after| before < after), "{numbers:?}");
        assert!(
            numbers.len() > 80 && numbers.len() * 10 >= pictures.len() * 9,
            "{} {seen} {said}",
            pictures.len()
        );
        // Frames that refer to each other are not left out.
        let gaps = numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        assert!(end.is_empty() || gaps <= 3, "{numbers:?}");
    }
}

/// Of an encoder that would make twice as much.
#[test]
fn the_rate_of_a_pipeline_s_encoder_is_the_session_s() {
    let world = World::new("gst-rate");
    if !has(&world, &["x264enc"]) || !taut_video::has_h264() {
        return;
    }
    let pipeline = "videotestsrc is-live=true pattern=zone-plate kx2=10 ky2=10 kt=3 ! video/x-raw,width=320,height=240,framerate=30/1 \
                    ! x264enc tune=zerolatency speed-preset=ultrafast bitrate=3000";
    let Watched { seen, .. } = watched(&world, pipeline, &["--video-rate", "700kbit"]);
    let rate = seen["rate_kbps"].as_f64().unwrap();
    assert!((400.0..900.0).contains(&rate), "{seen}");
}

#[test]
fn when_a_pipeline_ends_or_breaks_it_is_said_and_the_session_goes_on() {
    let world = World::new("gst-broken");
    if !has(&world, &[]) {
        return;
    }
    for (pipeline, why) in [
        ("videotestsrc is-live=true num-buffers=45", "the pipeline is over; there are no pictures any more"),
        ("videotestsrc is-live=true ! identity error-after=45", "identity0"),
    ] {
        let Watched { said, pictures, .. } = watched(&world, pipeline, &[]);
        println!("{}", said.trim());
        assert!(said.contains("--video front: ") && said.contains(why), "{said}");
        assert!(pictures.len() < 45, "{}", pictures.len());
    }
    for (pipeline, why) in
        [("nonsense", "nonsense"), ("videotestsrc ! video/x-raw,format=RGB", "videoconvert")]
    {
        let mut robot = world.command("robot --listen 127.0.0.1:0 --plaintext --transport udp --state none");
        let ended = robot.args(["--video", &format!("front=gst:{pipeline}")]).output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert!(
            !ended.status.success() && err.contains("--video front: GStreamer") && err.contains(why),
            "{err}"
        );
    }
}

#[test]
fn what_a_pipeline_dropped_is_said_when_the_robot_ends() {
    let world = World::new("gst-dropped");
    if !has(&world, &["videotestsrc"]) {
        return;
    }
    // More than machines encode: what came while one was encoded is dropped.
    let pipeline =
        "videotestsrc is-live=true pattern=snow ! video/x-raw,width=1920,height=1080,framerate=240/1";
    let Watched { said, .. } = watched(&world, pipeline, &[]);
    assert!(said.contains("pictures came; dropped: "), "{said}");
}

#[test]
fn the_threads_of_a_pipeline_have_no_privilege() {
    let world = World::new("pipeline-privileges");
    if !has_privileges() || !has(&world, &["videotestsrc"]) {
        return;
    }
    let mut command = world.command("robot --listen 127.0.0.1:0 --plaintext --transport udp --json");
    command.args(["--video", "front=gst:videotestsrc is-live=true ! queue ! videoconvert"]);
    let mut robot = Running::start(command);
    robot.wait_for("listening");
    let has = capabilities(robot.pid());
    assert!(has.len() >= 5 && has.iter().all(|has| *has == 0), "{has:x?}");
}
