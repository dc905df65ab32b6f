//! From a setting to bounds, and to an answer.

use std::fmt;

use serde::Serialize;
use taut_core::{Bytes, Duration, Medium};

use super::equations::{Bottleneck, audio_delay, delta_max, m_cross, m_tcp, video_delay};
use super::{MediaRates, SharedLink, SharedLinkError, TcpFlow};
use crate::limits::Limits;
use crate::touch::{Felt, Thing};

/// R/μ up to which the paper says that TCP loses one segment a cycle: sufficient there, and no promise of what a run
/// does.
const LOAD_FOR_ONE_LOSS: f64 = 0.65;
/// Stream packet / TCP segment up to which we call it small. Ours: the paper saw no loss at 137/578 = 0.24 and losses at
/// 566/578 = 0.98, and names no bound between.
const SMALL_PACKET: f64 = 0.5;
/// W_min with which a loss is repaired without the timer. Ours: a full queue then holds 2 W_min = 4 segments of TCP's
/// window, one is lost, and the other three bring the three duplicate ACKs of RFC 5681 section 3.2.
const LEAST_W_MIN: f64 = 2.0;
/// n from which we let (11) speak. Ours: with every segment acknowledged, limited transmit sends new segments into a queue
/// that is still full, and timeouts follow; simulated jitter is 18.4 ms where (13) says 1.895.
const LEAST_ACK_EVERY: u32 = 2;
const HAPTIC_JITTER: &str = "haptic_jitter";
const MEDIA_FIT: &str = "media_fit_fragments";

/// What the model says of a [`SharedLink`], with every quantity on the way. Quantities that do not exist in a setting,
/// or that nothing here predicts, are `None`; times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// R in bits per second.
    pub load_bps: u64,
    /// α = R/μ.
    pub alpha: f64,
    /// TCP's cycle, (1) to (8) and (11). `None` without TCP, with several flows, or when R ≥ μ.
    pub tcp: Option<TcpCycle>,
    /// Σ m_cross S_cross in (13): bytes of CBR that can arrive between two packets of the stream.
    pub cross_bytes: u64,
    /// Least delay. (8), or τ where TCP does not keep the queue from running empty.
    pub d_min_s: f64,
    /// τ + B/μ, (9): no drop-tail queue delays more.
    pub buffer_delay_s: f64,
    /// Largest delay. (9); without TCP and with R < μ, what one packet of every flow at once makes, if less (ours).
    pub d_max_s: f64,
    /// δ_max: (13) with one TCP flow, without TCP the time that `cross_bytes` takes (ours). `None` with several TCP flows
    /// or when R ≥ μ.
    pub jitter_max_s: Option<f64>,
    /// Fraction of the stream's packets lost. `Some(0.0)` without TCP where the queue holds one packet of every flow at
    /// once; `None` otherwise: beside TCP, which fills the queue, loss is not predicted.
    pub loss: Option<f64>,
    /// Frame delays under the fixed-fragment multiplexer, from `d_max_s`. `None` without one, and where audio and video
    /// are more than its fragments carry: they then wait longer and longer.
    pub media: Option<MediaDelays>,
    /// How things feel whose touch goes through the link one way, with `d_max_s`, and back with τ.
    pub touch: [Felt; 3],
    /// The range of the model: its numbers bind where every one of these holds.
    pub validity: Vec<Condition>,
    /// What a smooth session needs, as far as it can be said here.
    pub compliance: Vec<Condition>,
    /// `Some(true)`: every need in `compliance` is met, within the model's range; loss beside TCP is not among them.
    /// `Some(false)`: one is not, or media do not fit. `None`: the model cannot say.
    pub compliant: Option<bool>,
}

/// TCP's cycle of filling the queue, losing and halving.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TcpCycle {
    /// W_min, (1).
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
    predict_with_media(link, link.multiplexer.map(MediaRates::of_source).unwrap_or_default())
}

/// Applies the model, with audio and video at `media`.
///
/// # Errors
/// When a rate, size or period that the equations divide by is 0.
pub fn predict_with_media(link: &SharedLink, media: MediaRates) -> Result<Prediction, SharedLinkError> {
    link.check()?;
    let mu = link.rate.as_bps() as f64 / 8.0;
    let load = link.load();
    let alpha = load.as_bps() as f64 / link.rate.as_bps() as f64;
    let buffer = link.buffer.get() as f64;
    let bottleneck = Bottleneck { mu, tau: link.delay.as_secs_f64(), buffer, alpha };
    let tcp = match link.tcp[..] {
        [flow] => tcp_cycle(link, &bottleneck, flow),
        _ => None,
    };
    let cross_bytes = cross_bytes(link);
    let d_max = d_max(link, &bottleneck);
    let mut validity = validity(link, &bottleneck, tcp.as_ref());
    let media_fit = media_fit(link, media);
    let fit = media_fit.as_ref().is_none_or(|condition| condition.holds);
    validity.extend(media_fit);
    let valid = validity.iter().all(|condition| condition.holds);
    let mut prediction = Prediction {
        load_bps: load.as_bps(),
        alpha,
        d_min_s: tcp.map_or(bottleneck.tau, |cycle| bottleneck.d_min(cycle.q_min_bytes)),
        buffer_delay_s: bottleneck.d_max(),
        d_max_s: d_max,
        jitter_max_s: jitter(link, mu, tcp.as_ref(), cross_bytes),
        loss: (link.tcp.is_empty() && link.load() < link.rate && burst(link) <= link.buffer).then_some(0.0),
        media: link.multiplexer.filter(|_| fit).map(|multiplexer| MediaDelays {
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
    prediction.compliance = compliance(link, &prediction);
    prediction.compliant = answer(&prediction, valid);
    Ok(prediction)
}

fn tcp_cycle(link: &SharedLink, bottleneck: &Bottleneck, flow: TcpFlow) -> Option<TcpCycle> {
    // R ≥ μ leaves TCP nothing, and (11) nothing to divide by.
    let m_tcp_segments = m_tcp(link.rate, link.load(), link.stream.period, flow.segment, flow.ack_every)?;
    let segment = flow.segment.get() as f64;
    let least = bottleneck.q_min(segment);
    Some(TcpCycle {
        w_min_segments: bottleneck.w_min(segment),
        q_init_bytes: bottleneck.q_init(),
        c_slots: bottleneck.c(segment),
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
        ([flow], Some(cycle)) => {
            let tcp_bytes = cycle.m_tcp_segments as f64 * flow.segment.get() as f64;
            let arrivals = tcp_bytes + cross_bytes as f64 + link.stream.packet.get() as f64;
            Some(delta_max(arrivals, mu, link.stream.period.as_secs_f64()))
        }
        ([], _) if link.load() < link.rate => Some(cross_bytes as f64 / mu),
        _ => None,
    }
}

fn validity(link: &SharedLink, bottleneck: &Bottleneck, tcp: Option<&TcpCycle>) -> Vec<Condition> {
    let (load, rate, alpha) = (link.load(), link.rate, bottleneck.alpha);
    let mut conditions = vec![Condition::new(
        "load_below_rate",
        load < rate,
        format!("R = {load}/s, must be below μ = {rate}/s"),
        "the queue stays full and packets are lost",
    )];
    if link.tcp.is_empty() {
        return conditions;
    }
    let (flows, pipe) = (link.tcp.len(), bottleneck.pipe());
    conditions.push(Condition::new(
        "one_tcp_flow",
        flows == 1,
        format!("TCP flows {flows}, must be 1"),
        "of several flows only τ and τ + B/μ are known",
    ));
    conditions.push(Condition::new(
        "buffer_above_pipe",
        bottleneck.buffer > pipe,
        format!("B = {:.0} B, must be above 2μτ = {pipe:.0} B", bottleneck.buffer),
        "the queue runs empty after a loss, where (6) and (13) do not bind",
    ));
    conditions.push(Condition::new(
        "one_loss_a_cycle",
        alpha <= LOAD_FOR_ONE_LOSS,
        format!(
            "R = {alpha:.3} μ, R ≤ {LOAD_FOR_ONE_LOSS} μ (the source's sufficient condition for one loss a cycle)"
        ),
        "TCP may lose several segments a cycle",
    ));
    if let Some(cycle) = tcp {
        conditions.push(Condition::new(
            "window_recovers",
            cycle.w_min_segments >= LEAST_W_MIN,
            format!("W_min = {:.2}, must be at least {LEAST_W_MIN} segments", cycle.w_min_segments),
            "TCP may wait for its timer",
        ));
    }
    conditions.push(small_packet(link));
    let n = link.tcp.iter().map(|flow| flow.ack_every).min().unwrap_or(LEAST_ACK_EVERY);
    conditions.push(Condition::new(
        "acks_span_segments",
        n >= LEAST_ACK_EVERY,
        format!("TCP acknowledges every n-th segment, n = {n}, must be at least {LEAST_ACK_EVERY}"),
        "(11) was derived for delayed acknowledgements, and timeouts are likely",
    ));
    conditions
}

/// Audio and video fit into the stream's packets: their rate ≤ s_m/T_h. The delays of their frames assume it.
fn media_fit(link: &SharedLink, media: MediaRates) -> Option<Condition> {
    let fragment = link.multiplexer?.fragment;
    let (rate, period) = (media.audio + media.video, link.stream.period);
    // In bits times 10⁹, exact.
    let needed = u128::from(rate.as_bps()) * u128::from(period.as_nanos());
    let carried = u128::from(fragment.get()) * 8 * 1_000_000_000;
    let MediaRates { audio, video } = media;
    Some(Condition::new(
        MEDIA_FIT,
        needed <= carried,
        format!(
            "audio {audio}/s + video {video}/s = {rate}/s, must be at most s_m/T_h = {fragment}/{period} = {}/s",
            fragment / period
        ),
        "frames of audio and video wait longer and longer",
    ))
}

fn small_packet(link: &SharedLink) -> Condition {
    let packet = link.stream.packet;
    let segment = link.tcp.iter().map(|flow| flow.segment).min().unwrap_or(packet);
    let ratio = packet.get() as f64 / segment.get() as f64;
    Condition::new(
        "packet_small_against_tcp",
        ratio <= SMALL_PACKET,
        format!(
            "stream packet {packet} / TCP segment {segment} = {ratio:.2}, must be at most {SMALL_PACKET}"
        ),
        "a full queue drops the stream's packets with TCP's",
    )
}

/// R < μ, (14), δ_max and the frame delays against the limits of each medium.
fn compliance(link: &SharedLink, prediction: &Prediction) -> Vec<Condition> {
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
    let of = |medium| Limits::for_medium(medium).expect("haptic, audio and video have limits");
    below("haptic_delay", Some(prediction.d_max_s), of(Medium::Haptic).delay);
    below(HAPTIC_JITTER, prediction.jitter_max_s, of(Medium::Haptic).jitter);
    if let Some(media) = prediction.media {
        below("audio_delay", media.audio_s, of(Medium::Audio).delay);
        below("video_delay", media.video_s, of(Medium::Video).delay);
    }
    conditions
}

/// A need that is missed is missed within the model's range and, but for jitter, outside of it too: TCP fills the queue
/// there as well. Media that do not fit their fragments never arrive in time. That all needs are met says something only
/// within; without TCP, only where the queue is known to lose nothing.
fn answer(prediction: &Prediction, valid: bool) -> Option<bool> {
    let missed = prediction
        .compliance
        .iter()
        .any(|condition| !condition.holds && (valid || condition.name != HAPTIC_JITTER))
        || prediction.validity.iter().any(|condition| !condition.holds && condition.name == MEDIA_FIT);
    match (missed, valid) {
        (true, _) => Some(false),
        (false, true) => (prediction.tcp.is_some() || prediction.loss.is_some()).then_some(true),
        (false, false) => None,
    }
}

impl Condition {
    fn new(name: &'static str, holds: bool, numbers: String, otherwise: &str) -> Self {
        let explanation = if holds { numbers } else { format!("{numbers}: {otherwise}") };
        Self { name, holds, explanation }
    }
}

impl Prediction {
    /// This is touched, and has to be calm.
    pub fn require_calm(&mut self, thing: Thing) {
        let felt = self.touch.iter().find(|felt| felt.thing == thing);
        let Some(felt) = felt else { return };
        self.compliance.push(Condition {
            name: "calm_touch",
            holds: felt.calm,
            explanation: felt.to_string(),
        });
        if !felt.calm {
            self.compliant = Some(false);
        }
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
        match self.loss {
            Some(loss) => writeln!(f, "loss      {:>10.3} %", loss * 1e2)?,
            None => writeln!(f, "loss      {:>13}", "not predicted")?,
        }
        for (heading, conditions) in [("within the model", &self.validity), ("needs", &self.compliance)] {
            writeln!(f, "{heading}")?;
            for condition in conditions {
                let mark = if condition.holds { "yes" } else { "NO" };
                writeln!(f, "  {mark:<4}{:<26}{}", condition.name, condition.explanation)?;
            }
        }
        writeln!(f, "touch, where force comes back")?;
        self.touch.iter().try_for_each(|felt| writeln!(f, "  {felt}"))?;
        match self.compliant {
            Some(true) => write!(f, "compliant"),
            Some(false) => write!(f, "not compliant"),
            None => write!(f, "outside the model's range: no answer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use taut_core::Bitrate;

    use super::super::{Cbr, FixedFragment, Stream};
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
        assert_eq!(fits(64_000, 400_000), (true, true, Some(true)));
        assert_eq!(fits(64_000, 400_001), (false, false, Some(false)));
    }

    #[test]
    fn beside_tcp_loss_is_not_predicted() {
        let p = predict(&link()).unwrap();
        assert_eq!((p.loss, p.compliant), (None, Some(true)));
        assert!(p.to_string().contains("not predicted"), "{p}");
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
