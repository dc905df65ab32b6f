//! What arrived of videos over RTP.

use super::format::{escape, optional};
use super::page::Table;
use crate::result::{Distribution, FrameRate, VideoResult};

/// Nothing when there was none.
pub(super) fn html(videos: &[VideoResult]) -> String {
    let mut frames = Table::new("Frames put together at the receiver").text("flow");
    frames = frames.number("packets lost", "%").number("frames lost", "%").number("key frames lost", "%");
    frames = frames.number("frames, mean", "1/s").number("tenth of seconds", "1/s").number("median", "1/s");
    frames = frames.number("of use", "1/s").number("MOS, 1 to 4.9", "").number("tenth of seconds", "");
    let mut times =
        Table::new("One way, and arrival of a frame less that of the haptic packet sent nearest to it");
    times = times.text("flow").number("packet, mean", "ms").number("frame, mean", "ms").number("99 %", "ms");
    times = times
        .number("haptic, 99 %", "ms")
        .number("max", "ms")
        .number("offset, mean", "ms")
        .number("99 %", "ms");
    for video in videos {
        let fps = |of: fn(&FrameRate) -> f64| optional(video.fps.as_ref().map(of), 4);
        frames.row(&[
            escape(&video.name),
            optional(video.packet_loss_percent, 4),
            optional(video.frame_loss_percent, 4),
            optional(video.key_frame_loss_percent, 4),
            fps(|fps| fps.mean),
            fps(|fps| fps.p10),
            fps(|fps| fps.p50),
            optional(video.of_use_per_s, 4),
            optional(video.opinion.as_ref().map(|opinion| opinion.mos), 3),
            optional(video.opinion.as_ref().map(|opinion| opinion.mos_p10), 3),
        ]);
        let of =
            |delay: &Option<Distribution>, of: fn(&Distribution) -> f64| optional(delay.as_ref().map(of), 4);
        times.row(&[
            escape(&video.name),
            of(&video.packet_delay_ms, |d| d.mean),
            of(&video.frame_delay_ms, |d| d.mean),
            of(&video.frame_delay_ms, |d| d.p99),
            of(&video.haptic_delay_ms, |d| d.p99),
            of(&video.haptic_delay_ms, |d| d.max),
            of(&video.offset_ms, |d| d.mean),
            of(&video.offset_ms, |d| d.p99),
        ]);
    }
    if videos.is_empty() { String::new() } else { frames.html() + &times.html() }
}

/// Heading and rows, one table for each video.
pub(super) fn text_tables(videos: &[VideoResult]) -> Vec<(String, Vec<Vec<String>>)> {
    videos.iter().map(text_table).collect()
}

fn text_table(video: &VideoResult) -> (String, Vec<Vec<String>>) {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, value: Option<f64>, unit: &str| {
        rows.extend(value.map(|value| vec![name.to_owned(), format!("{value:.2} {unit}")]));
    };
    let of = |delay: &Option<Distribution>, of: fn(&Distribution) -> f64| delay.as_ref().map(of);
    row("packets lost", video.packet_loss_percent, "%");
    row("frames lost", video.frame_loss_percent, "%");
    row("whole frames", video.fps.as_ref().map(|fps| fps.mean), "a second");
    row("of use to a decoder", video.of_use_per_s, "a second");
    row("MOS (P.1203.1; 1 to 4.9)", video.opinion.as_ref().map(|opinion| opinion.mos), "");
    row("frame latency, mean", of(&video.frame_delay_ms, |d| d.mean), "ms");
    row("99 %", of(&video.frame_delay_ms, |d| d.p99), "ms");
    if let Some(haptic) = &video.haptic {
        row(&format!("{haptic} latency, 99 %"), of(&video.haptic_delay_ms, |d| d.p99), "ms");
        row(&format!("behind {haptic}, mean"), of(&video.offset_ms, |d| d.mean), "ms");
    }
    (format!("frames of {}", video.name), rows)
}
