//! From a setting to bounds, and to an answer.

use std::fmt;

use serde::Serialize;
use taut_core::{Bytes, Duration, Medium};

use super::equations::{Acks, Bottleneck, audio_delay, delta_max, m_cross, m_tcp, video_delay};
use super::loss::{FrameLoss, Frames, PHASES, frame_loss, packet_loss};
use super::validity::{MEDIA_FIT, media_fit, validity};
use super::{MediaRates, SharedLink, SharedLinkError};
use crate::limits::Profile;
use crate::touch::Felt;

const HAPTIC_JITTER: &str = "haptic_jitter";
/// Needs that phases decide.
const LOSSES: [&str; 3] = ["haptic_loss", "audio_loss", "video_loss"];

/// What the model says of a [`SharedLink`], with every quantity on the way. Quantities that do not exist in a setting,
/// or that nothing here predicts, are `None`; times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// R in bits per second.
    pub load_bps: u64,
    /// α = R/μ.
    pub alpha: f64,
    /// TCP's cycle, (1) to (8) and (11); of several flows alike, as if they lost and halved together. `None` without TCP, with flows
    /// that differ, or when R ≥ μ.
    pub tcp: Option<TcpCycle>,
    /// Σ m_cross S_cross in (13): bytes of CBR that can arrive between two packets of the stream.
    pub cross_bytes: u64,
    /// Least delay. (8), or τ where TCP does not keep the queue from running empty.
    pub d_min_s: f64,
    /// τ + B/μ, (9): no drop-tail queue delays more.
    pub buffer_delay_s: f64,
    /// Largest delay. (9); without TCP and with R < μ, what one packet of every flow at once makes, if less (ours).
    pub d_max_s: f64,
    /// δ_max: (13) with TCP, without the time that `cross_bytes` takes (ours). `None` with TCP flows that differ or when R ≥ μ.
    pub jitter_max_s: Option<f64>,
    /// Fraction of the stream's packets lost. Beside TCP, which fills the queue, where phases are random ([`packet_loss`]). `Some(0.0)`
    /// without TCP where the queue holds one packet of every flow at once; `None` otherwise.
    pub loss: Option<f64>,
    /// Fraction of frames lost under the fixed-fragment multiplexer, with any packet that has a part of them. `None` without one, or
    /// where `loss` or `media` is.
    pub frames: Option<FrameLoss>,
    /// Frame delays under the fixed-fragment multiplexer, from `d_max_s`. `None` without one, and where audio and video
    /// are more than its fragments carry: they then wait longer and longer.
    pub media: Option<MediaDelays>,
    /// How things feel whose touch goes through the link one way, with `d_max_s`, and back with τ.
    pub touch: [Felt; 3],
    /// The range of the model: its numbers bind where every one of these holds.
    pub validity: Vec<Condition>,
    /// What a smooth session needs, as far as it can be said here.
    pub compliance: Vec<Condition>,
    /// `Some(true)`: every need in `compliance` is met, within the model's range. `Some(false)`: one is not, or media do not fit. `None`:
    /// the model cannot say, or phases decide whether too much is lost.
    pub compliant: Option<bool>,
}

/// TCP's cycle of filling the queue, losing and halving.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TcpCycle {
    /// How many do so together.
    pub flows: u32,
    /// W_min, (1), of all of them.
    pub w_min_segments: f64,
    /// Q_init, (2).
    pub q_init_bytes: f64,
    /// c, (3).
    pub c_slots: f64,
    /// Q_min, (7).
    pub q_min_bytes: f64,
    /// The slot of (7) in which Q_min is reached, from 1.
    pub q_min_slot: u64,
    /// m_tcp, (11).
    pub m_tcp_segments: u64,
}

/// Largest delays of whole frames under the fixed-fragment multiplexer, network included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MediaDelays {
    /// d_aud; `None` without audio.
    pub audio_s: Option<f64>,
    /// d_vid; `None` without video.
    pub video_s: Option<f64>,
}

/// Something that must hold, whether it does, and both numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// A short name that does not change.
    pub name: &'static str,
    /// Does it hold?
    pub holds: bool,
    /// Both numbers; when it does not hold, also what that means.
    pub explanation: String,
}

/// Applies the model, with audio and video at the paper's rates ([`MediaRates::of_source`]).
///
/// # Errors
/// When a rate, size or period that the equations divide by is 0.
pub fn predict(link: &SharedLink) -> Result<Prediction, SharedLinkError> {
    predict_within(link, Profile::default())
}

/// The same, against the limits of `profile`.
///
/// # Errors
/// When a rate, size or period that the equations divide by is 0.
pub fn predict_within(link: &SharedLink, profile: Profile) -> Result<Prediction, SharedLinkError> {
    predicted(link, link.multiplexer.map(MediaRates::of_source).unwrap_or_default(), profile)
}

/// Applies the model, with audio and video at `media`.
///
/// # Errors
/// When a rate, size or period that the equations divide by is 0.
pub fn predict_with_media(link: &SharedLink, media: MediaRates) -> Result<Prediction, SharedLinkError> {
    predicted(link, media, Profile::default())
}

fn predicted(link: &SharedLink, media: MediaRates, profile: Profile) -> Result<Prediction, SharedLinkError> {
    link.check()?;
    let mu = link.rate.as_bps() as f64 / 8.0;
    let load = link.load();
    let alpha = load.as_bps() as f64 / link.rate.as_bps() as f64;
    let buffer = link.buffer.get() as f64;
    let bottleneck = Bottleneck { mu, tau: link.delay.as_secs_f64(), buffer, alpha };
    let acks = acks(link);
    let tcp = acks.and_then(|acks| tcp_cycle(link, &bottleneck, acks));
    let cross_bytes = cross_bytes(link);
    let d_max = d_max(link, &bottleneck);
    let mut validity = validity(link, &bottleneck, tcp.as_ref());
    let media_fit = media_fit(link, media);
    let fit = media_fit.as_ref().is_none_or(|condition| condition.holds);
    validity.extend(media_fit);
    let valid = validity.iter().all(|condition| condition.holds);
    let lossless = link.tcp.is_empty() && link.load() < link.rate && burst(link) <= link.buffer;
    let beside_tcp =
        acks.zip(tcp.as_ref()).map(|(acks, cycle)| packet_loss(link.stream.packet, acks, cycle.c_slots));
    let loss = lossless.then_some(0.0).or(beside_tcp);
    let multiplexer = link.multiplexer.filter(|_| fit);
    let mut prediction = Prediction {
        load_bps: load.as_bps(),
        alpha,
        d_min_s: tcp.map_or(bottleneck.tau, |cycle| bottleneck.d_min(cycle.q_min_bytes)),
        buffer_delay_s: bottleneck.d_max(),
        d_max_s: d_max,
        jitter_max_s: jitter(link, mu, tcp.as_ref(), cross_bytes),
        loss,
        frames: multiplexer.zip(loss).map(|(multiplexer, p)| frame_loss(link, multiplexer, media, p)),
        media: multiplexer.map(|multiplexer| MediaDelays {
            audio_s: multiplexer
                .audio_frame
                .map(|frame| audio_delay(d_max, frame, multiplexer.fragment, link.stream.period)),
            video_s: multiplexer.video_period.map(|period| video_delay(d_max, period)),
        }),
        touch: Felt::all((d_max + bottleneck.tau) * 1e3, link.stream.period),
        tcp,
        cross_bytes,
        validity,
        compliance: Vec::new(),
        compliant: None,
    };
    prediction.compliance = compliance(link, &prediction, profile);
    prediction.compliant = answer(&prediction, valid);
    Ok(prediction)
}

/// Of TCP flows that are all alike.
fn acks(link: &SharedLink) -> Option<Acks> {
    let first = link.tcp.first().filter(|first| link.tcp.iter().all(|flow| flow == *first))?;
    let flows = u32::try_from(link.tcp.len()).ok()?;
    Some(Acks { segment: first.segment, every: first.ack_every, flows })
}

fn tcp_cycle(link: &SharedLink, bottleneck: &Bottleneck, acks: Acks) -> Option<TcpCycle> {
    // R ≥ μ leaves TCP nothing, and (11) nothing to divide by.
    let m_tcp_segments = m_tcp(link.rate, link.load(), link.stream.period, acks)?;
    let (segment, flows) = (acks.segment.get() as f64, acks.flows);
    let least = bottleneck.q_min(segment, flows);
    Some(TcpCycle {
        flows,
        w_min_segments: bottleneck.w_min(segment),
        q_init_bytes: bottleneck.q_init(),
        c_slots: bottleneck.c(segment, flows),
        q_min_bytes: least.bytes,
        q_min_slot: least.slot,
        m_tcp_segments,
    })
}

fn cross_bytes(link: &SharedLink) -> u64 {
    let of = |flow: &super::Cbr| {
        let packets = m_cross(flow.rate, link.stream.period, flow.packet).unwrap_or(0);
        packets.saturating_mul(flow.packet.get())
    };
    link.cbr.iter().map(of).fold(0, u64::saturating_add)
}

/// One packet of every flow but TCP, the stream's own included.
fn burst(link: &SharedLink) -> Bytes {
    link.cbr
        .iter()
        .filter(|flow| flow.rate.as_bps() > 0)
        .fold(link.stream.packet, |sum, flow| sum + flow.packet)
}

/// (9), or without TCP the delay bound of a FIFO server under flows (R_k, S_k) with Σ R_k ≤ μ: Σ S_k/μ, the packet's own
/// serialisation included (Cruz, *A Calculus for Network Delay*, part I, 1991).
fn d_max(link: &SharedLink, bottleneck: &Bottleneck) -> f64 {
    if link.tcp.is_empty() && link.load() < link.rate {
        let burst_delay = bottleneck.tau + burst(link).get() as f64 / bottleneck.mu;
        burst_delay.min(bottleneck.d_max())
    } else {
        bottleneck.d_max()
    }
}

/// (13), which assumes that the queue never runs empty. Without TCP it does; then a packet waits longer than the one
/// before it by at most what arrived between them.
fn jitter(link: &SharedLink, mu: f64, tcp: Option<&TcpCycle>, cross_bytes: u64) -> Option<f64> {
    match (&link.tcp[..], tcp) {
        ([flow, ..], Some(cycle)) => {
            let tcp_bytes = cycle.m_tcp_segments as f64 * flow.segment.get() as f64;
            let arrivals = tcp_bytes + cross_bytes as f64 + link.stream.packet.get() as f64;
            Some(delta_max(arrivals, mu, link.stream.period.as_secs_f64()))
        }
        ([], _) if link.load() < link.rate => Some(cross_bytes as f64 / mu),
        _ => None,
    }
}

/// R < μ, (14), δ_max and the frame delays against the limits of each medium.
fn compliance(link: &SharedLink, prediction: &Prediction, profile: Profile) -> Vec<Condition> {
    let mut conditions = vec![Condition::new(
        "rate",
        link.load() < link.rate,
        format!("R = {}/s, must be below μ = {}/s", link.load(), link.rate),
        "the link cannot carry it",
    )];
    let mut below = |name, value: Option<f64>, limit: Duration| {
        if let Some(value) = value {
            let numbers = format!("{:.3} ms, must be below {} ms", value * 1e3, limit.as_millis_f64());
            conditions.push(Condition::new(name, value < limit.as_secs_f64(), numbers, "it will be felt"));
        }
    };
    let of = |medium| profile.limits(medium).expect("haptic, audio and video have limits");
    below("haptic_delay", Some(prediction.d_max_s), of(Medium::Haptic).delay);
    below(HAPTIC_JITTER, prediction.jitter_max_s, of(Medium::Haptic).jitter);
    if let Some(media) = prediction.media {
        below("audio_delay", media.audio_s, of(Medium::Audio).delay);
        below("video_delay", media.video_s, of(Medium::Video).delay);
    }
    conditions.extend(losses(prediction, profile));
    conditions
}

/// What of each medium may be lost, against what flows lose whose phases stand.
fn losses(prediction: &Prediction, profile: Profile) -> Vec<Condition> {
    let Some(p) = prediction.loss else { return Vec::new() };
    let sample = Some(Frames { packets: 1, lost: p });
    let (audio, video) = prediction.frames.map_or((None, None), |frames| (frames.audio, frames.video));
    let all = [(Medium::Haptic, sample), (Medium::Audio, audio), (Medium::Video, video)];
    let one = |(name, (medium, frames)): (&'static str, (Medium, Option<Frames>))| {
        let Frames { packets, lost } = frames?;
        let limit = profile.limits(medium)?.loss.as_fraction();
        let most = (lost * PHASES).min(1.0);
        let of = if packets == 1 { String::new() } else { format!(" of frames of {packets} packets") };
        let numbers = format!(
            "{:.3} %{of}, up to {:.3} % as phases stand, must be at most {:.0} %",
            lost * 1e2,
            most * 1e2,
            limit * 1e2
        );
        Some(Condition::new(name, most <= limit, numbers, "the phases of the flows decide; simulate"))
    };
    LOSSES.into_iter().zip(all).filter_map(one).collect()
}

/// A need that is missed is missed within the model's range and, but for jitter, outside of it too: TCP fills the queue
/// there as well. Media that do not fit their fragments never arrive in time. That all needs are met says something only
/// within; without TCP, only where the queue is known to lose nothing. Of losses nothing is known but what phases may make of them.
fn answer(prediction: &Prediction, valid: bool) -> Option<bool> {
    let needs = || prediction.compliance.iter().filter(|condition| !condition.holds);
    let of_loss = |condition: &Condition| LOSSES.contains(&condition.name);
    let missed = needs().any(|condition| !of_loss(condition) && (valid || condition.name != HAPTIC_JITTER))
        || prediction.validity.iter().any(|condition| !condition.holds && condition.name == MEDIA_FIT);
    match (missed, valid) {
        (true, _) => Some(false),
        (false, true) => (prediction.loss.is_some() && !needs().any(of_loss)).then_some(true),
        (false, false) => None,
    }
}

impl Condition {
    pub(super) fn new(name: &'static str, holds: bool, numbers: String, otherwise: &str) -> Self {
        let explanation = if holds { numbers } else { format!("{numbers}: {otherwise}") };
        Self { name, holds, explanation }
    }
}

impl Prediction {
    /// What is touched has to be calm by some control law: is it, and why? `None`: nobody knows.
    pub fn require_calm(&mut self, holds: Option<bool>, explanation: String) {
        self.compliance.push(Condition { name: "calm_touch", holds: holds == Some(true), explanation });
        self.compliant = match (self.compliant, holds) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (compliant, Some(true)) => compliant,
            (_, None) => None,
        };
    }

    /// The shortest and the longest round trip, where one way goes through the link and the other takes `idle_way`. Without TCP all but the
    /// jitter is always there, the packet's own serialisation too.
    pub fn round_trips(&self, idle_way: Duration) -> [Duration; 2] {
        let even = self.jitter_max_s.filter(|_| self.tcp.is_none()).map(|jitter| self.d_max_s - jitter);
        let shortest = even.unwrap_or(self.d_min_s).max(self.d_min_s);
        [shortest, self.d_max_s].map(|way| Duration::from_secs_f64(way) + idle_way)
    }

    /// Is the setting within the model's range?
    pub fn is_valid(&self) -> bool {
        self.validity.iter().all(|condition| condition.holds)
    }
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "load      {:>10.3} Mbit/s  ({:.1} % of the rate)",
            self.load_bps as f64 / 1e6,
            self.alpha * 1e2
        )?;
        if let Some(tcp) = &self.tcp {
            writeln!(f, "W_min     {:>10.2} segments  (1)", tcp.w_min_segments)?;
            writeln!(f, "Q_init    {:>10.0} B  (2)", tcp.q_init_bytes)?;
            writeln!(
                f,
                "Q_min     {:>10.0} B  (7), slot {} of {:.2}",
                tcp.q_min_bytes, tcp.q_min_slot, tcp.c_slots
            )?;
        }
        let mut time = |name: &str, seconds: Option<f64>| match seconds {
            Some(seconds) => writeln!(f, "{name:<10}{:>10.3} ms", seconds * 1e3),
            None => writeln!(f, "{name:<10}{:>10}", "unknown"),
        };
        time("delay min", Some(self.d_min_s))?;
        time("delay max", Some(self.d_max_s))?;
        time("jitter", self.jitter_max_s)?;
        if let Some(media) = self.media {
            time("audio", media.audio_s)?;
            time("video", media.video_s)?;
        }
        let mut share = |name: &str, lost: Option<f64>| match lost {
            Some(lost) => writeln!(f, "{name:<10}{:>10.3} %", lost * 1e2),
            None => writeln!(f, "{name:<10}{:>10}", "unknown"),
        };
        share("loss", self.loss)?;
        if let Some(frames) = self.frames {
            share("of audio", frames.audio.map(|frames| frames.lost))?;
            share("of video", frames.video.map(|frames| frames.lost))?;
        }
        for (heading, conditions) in [("within the model", &self.validity), ("needs", &self.compliance)] {
            writeln!(f, "{heading}")?;
            for condition in conditions {
                let mark = if condition.holds { "yes" } else { "NO" };
                writeln!(f, "  {mark:<4}{:<26}{}", condition.name, condition.explanation)?;
            }
        }
        writeln!(f, "touch by position_force, in a middle grip, where force comes back")?;
        self.touch.iter().try_for_each(|felt| writeln!(f, "  {felt}"))?;
        match self.compliant {
            Some(true) => write!(f, "compliant"),
            Some(false) => write!(f, "not compliant"),
            None if self.is_valid() => write!(f, "no answer: phases decide how much is lost"),
            None => write!(f, "outside the model's range: no answer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use taut_core::Bitrate;

    use super::super::{Cbr, FixedFragment, Stream, TcpFlow};
    use super::*;

    /// The paper's backward channel at R = 3 Mbit/s.
    fn link() -> SharedLink {
        SharedLink {
            rate: Bitrate::from_bps(6_000_000),
            delay: Duration::from_millis(8),
            buffer: Bytes::new(14_000),
            stream: Stream { packet: Bytes::new(137), period: Duration::from_millis(1) },
            tcp: vec![TcpFlow { segment: Bytes::new(578), ack_every: 2 }],
            cbr: vec![Cbr { rate: Bitrate::from_bps(1_904_000), packet: Bytes::new(150) }],
            multiplexer: Some(FixedFragment {
                fragment: Bytes::new(58),
                audio_frame: Some(Bytes::new(160)),
                video_period: Some(Duration::from_millis(40)),
            }),
        }
    }

    fn failed(prediction: &Prediction) -> Vec<&str> {
        prediction.validity.iter().filter(|c| !c.holds).map(|c| c.name).collect()
    }

    fn missed(prediction: &Prediction) -> Vec<&str> {
        prediction.compliance.iter().filter(|c| !c.holds).map(|c| c.name).collect()
    }

    /// `taut plan --period 5ms --cross tcp,cbr:2.78Mbit`: 58 B per 5 ms are 92.8 kbit/s, and audio and video 464.
    #[test]
    fn media_beyond_the_fragments_are_not_compliant_and_have_no_delay() {
        let stream = Stream { packet: Bytes::new(137), period: Duration::from_millis(5) };
        let cbr = vec![Cbr { rate: Bitrate::from_bps(2_780_000), packet: Bytes::new(150) }];
        let p = predict(&SharedLink { stream, cbr, ..link() }).unwrap();
        assert_eq!((failed(&p), p.media, p.compliant), (vec![MEDIA_FIT], None, Some(false)));
        let text = p.to_string();
        assert!(text.contains("= 464kbit/s, must be at most s_m/T_h = 58B/5ms = 92.8kbit/s"), "{text}");
        assert!(text.ends_with("not compliant"), "{text}");
    }

    #[test]
    fn the_papers_media_fill_the_fragments_exactly_and_a_bit_more_does_not_fit() {
        let fits = |audio, video| {
            let media = MediaRates { audio: Bitrate::from_bps(audio), video: Bitrate::from_bps(video) };
            let p = predict_with_media(&link(), media).unwrap();
            (failed(&p).is_empty(), p.media.is_some(), p.compliant)
        };
        assert_eq!(fits(64_000, 400_000), (true, true, None));
        assert_eq!(fits(64_000, 400_001), (false, false, Some(false)));
    }

    /// A frame of video is in 40 packets, and all have to arrive: of samples and audio less is lost.
    #[test]
    fn beside_tcp_it_hangs_on_phases_whether_enough_frames_arrive() {
        let p = predict(&link()).unwrap();
        assert_eq!((missed(&p), p.compliant), (vec!["audio_loss", "video_loss"], None));
        let [audio, video] = p.frames.map(|frames| [frames.audio.unwrap(), frames.video.unwrap()]).unwrap();
        assert_eq!((audio.packets, video.packets), (3, 40));
        assert!(p.to_string().ends_with("no answer: phases decide how much is lost"), "{p}");
        let samples_alone = predict(&SharedLink { multiplexer: None, ..link() }).unwrap();
        assert_eq!((samples_alone.frames, samples_alone.compliant), (None, Some(true)));
        assert_eq!(
            p.validity[3].explanation,
            "R = 0.500 μ, R ≤ 0.65 μ (the source's sufficient condition for one loss a cycle)"
        );
        assert_eq!(predict(&SharedLink { tcp: vec![], ..link() }).unwrap().loss, Some(0.0));
    }

    #[test]
    fn every_segment_acknowledged_is_outside() {
        let tcp = vec![TcpFlow { segment: Bytes::new(578), ack_every: 1 }];
        let p = predict(&SharedLink { tcp, ..link() }).unwrap();
        assert_eq!((failed(&p), p.compliant), (vec!["acks_span_segments"], None));
    }
}
