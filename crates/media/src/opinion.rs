//! What viewers would think of a video: a mean opinion score by frame rate and quantiser.
//!
//! By ITU-T P.1203.1 (10/2017), the video module of P.1203, in its modes 2 and 3: those that know every frame's quantiser. Its
//! score of a second is made of a degradation by coarseness and one by low frame rates, on the scale of transmission
//! ratings R of 0 to 100:
//!
//! ```text
//! MOS_cod = q1 + q2·exp(q3·QP/51)                q1 = 4.66, q2 = −0.07, q3 = 4.06; from 1 to 5
//! D_q     = 100 − R(MOS_cod)
//! D_t     = (100 − D_q)·(t1 − t2·f)/(t3 + f)     t1 = 30.98, t2 = 1.29, t3 = 64.65; below 24 frames/s, else 0
//! MOS     = MOS(100 − D_q − D_t)
//! MOS(R)  = 1.05 + 3.85·R/100 + 7·10⁻⁶·R·(R − 60)·(100 − R)
//! ```
//!
//! QP is the mean quantiser parameter of the frames that are no key frames. The picture is shown in the size in which it was coded, so
//! that there is no degradation by scaling.
//!
//! What is ours:
//!
//! - The Recommendation is about H.264. VP8's quantiser is taken for that of H.264 whose step is the same in an
//!   orthonormal transform ([`quantizer`]).
//! - It has no frame rates that networks left over. Below [`LEAST_RATED`] the score falls in a straight line, to 1 where no
//!   frame comes.
//! - It is about video that comes late, but whole. That a decoder shows damage after a lost frame is not in it.
//!
//! ```
//! use taut_media::opinion::mos;
//! assert!(mos(60.0, 26.0) > 4.0);
//! assert!(mos(60.0, 40.0) < 3.2);
//! assert!(mos(15.0, 26.0) < mos(30.0, 26.0));
//! assert_eq!(mos(0.0, 26.0), 1.0);
//! ```

use taut_wire::rtp::{Codec, vp8};

/// Frames a second, below which the score is not the Recommendation's.
pub const LEAST_RATED: f64 = 8.0;

/// The score where nothing degrades the picture further than its quantiser, 1 (bad) to 4.9 (excellent).
///
/// `frame_rate` in frames a second, from 0; `quantizer` as a parameter of H.264, 0 to 51.
pub fn mos(frame_rate: f64, quantizer: f64) -> f64 {
    if frame_rate < LEAST_RATED {
        return 1.0 + (mos(LEAST_RATED, quantizer) - 1.0) * (frame_rate / LEAST_RATED);
    }
    let coded = (4.66 - 0.07 * libm::exp(4.06 * quantizer / 51.0)).clamp(1.0, 5.0);
    let rating = rating_of(coded);
    let slow = if frame_rate < 24.0 { (30.98 - 1.29 * frame_rate) / (64.65 + frame_rate) } else { 0.0 };
    mos_of(rating * (1.0 - slow))
}

/// How coarse the frame is whose first packet has this payload, as a quantiser parameter of H.264, 4 to 47.
///
/// `None` where that cannot be told. Of H.264 itself it cannot: it stands deep in the slice header, and cannot be read without the
/// parameter sets.
pub fn quantizer(codec: Codec, payload: &[u8]) -> Option<f64> {
    let Codec::Vp8 = codec else { return None };
    let (descriptor, at) = vp8::Descriptor::parse(payload).ok()?;
    let header = vp8::FrameHeader::parse(&payload[at..]).filter(|_| descriptor.starts_frame())?;
    Some(h264_quantizer(header.quantizer_step()))
}

/// H.264's step is 1 at a parameter of 4 and doubles every 6 (ITU-T H.264 section 8.5.9); VP8's coefficients are twice those of
/// an orthonormal transform ([`vp8::FrameHeader::quantizer_step`]).
fn h264_quantizer(step: u16) -> f64 {
    4.0 + 6.0 * libm::log2(f64::from(step) / 2.0)
}

/// The score of a rating from 0 to 100.
fn mos_of(rating: f64) -> f64 {
    let score = 1.05 + 3.85 * rating / 100.0 + 7e-6 * rating * (rating - 60.0) * (100.0 - rating);
    score.clamp(1.05, 4.9)
}

/// The rating of a score: the inverse, where that rises.
fn rating_of(score: f64) -> f64 {
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if mos_of(middle) < score { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand from the formulas above: at a QP of 26, MOS_cod = 4.66 − 0.07·e^2.0698 = 4.1053, R = 78.5; at 12 frames/s
    /// D_t takes (30.98 − 15.48)/(64.65 + 12) = 20.2 % of it.
    #[test]
    fn scores_are_those_of_the_recommendation() {
        for (rate, quantizer, expected) in [(60.0, 26.0, 4.105), (24.5, 26.0, 4.105), (60.0, 38.0, 3.218)] {
            let score = mos(rate, quantizer);
            assert!((score - expected).abs() < 0.002, "{rate} {quantizer}: {score}");
        }
        let rating = rating_of(4.105_3);
        assert!((mos(12.0, 26.0) - mos_of(rating * (1.0 - 15.5 / 76.65))).abs() < 1e-3);
    }

    #[test]
    fn a_score_falls_with_the_quantiser_and_rises_with_the_frame_rate_within_its_range() {
        for quantizer in 0..=51 {
            let of = |rate: u32| mos(f64::from(rate), f64::from(quantizer));
            let scores: Vec<f64> = (0..=60).map(of).collect();
            assert!(scores.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9), "{quantizer}: {scores:?}");
            assert!(scores.iter().all(|score| (1.0..=4.9).contains(score)), "{quantizer}: {scores:?}");
            assert!(mos(60.0, f64::from(quantizer + 1)) <= scores[60]);
        }
    }

    #[test]
    fn a_rating_and_its_score_are_each_others_inverse() {
        for rating in 4..=100 {
            let again = rating_of(mos_of(f64::from(rating)));
            assert!((again - f64::from(rating)).abs() < 1e-6, "{rating}: {again}");
        }
        assert_eq!((mos_of(0.0), mos_of(100.0)), (1.05, 4.9));
    }

    #[test]
    fn a_step_of_vp8_is_half_as_long_in_h264() {
        assert!((h264_quantizer(4) - 10.0).abs() < 1e-12 && (h264_quantizer(128) - 40.0).abs() < 1e-12);
        let mut payload = vec![0x10];
        vp8::FrameHeader { key: true, quantizer_index: 4 }.emit((480, 360), &mut payload);
        assert_eq!(quantizer(Codec::Vp8, &payload), Some(h264_quantizer(8)));
        assert_eq!(quantizer(Codec::Vp8, &[0x00, 1, 2, 3, 4, 5, 6, 7, 8]), None, "not the first packet");
        assert_eq!(quantizer(Codec::H264, &payload), None);
    }
}
