//! What arrived of videos over RTP.

use super::format::escape;
use super::measures::{self, Measured};
use super::page;
use crate::result::VideoResult;

fn values(video: &VideoResult) -> Vec<Measured> {
    measures::of_video(video).into_iter().chain(measures::of_pair(video)).collect()
}

/// Nothing when there was none.
pub(super) fn html(videos: &[VideoResult]) -> String {
    let table = |video: &VideoResult| {
        let at = "put together at the receiver; latencies one way, an offset is a frame's arrival less that of the force sent nearest to it";
        page::measures(&format!("Frames of {}, {at}", escape(&video.name)), values(video))
    };
    videos.iter().map(table).collect()
}

/// Heading and rows, one table for each video.
pub(super) fn text_tables(videos: &[VideoResult]) -> Vec<(String, Vec<Vec<String>>)> {
    let table = |video: &VideoResult| (format!("frames of {}", video.name), measures::in_text(values(video)));
    videos.iter().map(table).collect()
}
