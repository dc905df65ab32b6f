//! Against the limits, and beside the model.

use std::collections::BTreeMap;

use taut_core::{Bytes, Duration, FlowId, Medium, Probability};
use taut_qos::limits::{Beside, Check, Profile, check};
use taut_qos::model::{self, Cbr, FixedFragment, MediaRates, SharedLink, TcpFlow, predict_with_media};

use super::cross::pairs;
use super::flows::FlowInfo;
use super::teleop::MOST_RIPPLE_PERCENT;
use crate::metrics::{CycleSummary, CycleWatch};
use crate::scenario::{
    self, Cross, Direction, ElementSpec, Model, MultiplexerSpec, SamplerSpec, Scenario, Session, Traffic,
    Video, VideoSource, Ways,
};
use taut_report::result::{
    EmergencyResult, FlowOwner, FlowPart, LimitResult, MediumResult, ModelCondition, ModelMeasure,
    ModelResult, ModelRow, TeleopResult, VideoResult,
};

/// Every limit of every medium, of this profile.
pub(super) fn limits(profile: Profile, media: &[MediumResult]) -> Vec<LimitResult> {
    media.iter().flat_map(|medium| limits_of(profile, medium)).collect()
}

/// What is held against the limits of video that is seen with force: Yuan, *Real-Time Synchronization of Multimedia Streams for
/// Teleoperation*, TU Dresden, 2024. Of latency and offset 99 in 100 frames.
pub(super) fn videos(videos: &[VideoResult]) -> Vec<LimitResult> {
    videos.iter().flat_map(beside_force).collect()
}

fn beside_force(video: &VideoResult) -> Vec<LimitResult> {
    let Some(haptic) = &video.haptic else { return Vec::new() };
    let one = |stream: &str, quantity: &str, value: Option<f64>, limit: Duration| LimitResult {
        stream: stream.to_owned(),
        quantity: quantity.to_owned(),
        unit: "ms".to_owned(),
        value,
        limit: limit.as_millis_f64(),
        met: value.is_some_and(|value| value < limit.as_millis_f64()),
        reason: value.is_none().then(|| "nothing arrived".to_owned()),
    };
    let beside = Beside::LIMITS;
    let offset = video.offset_ms.as_ref();
    // Of the offsets, which ascend, the hundredth part that is the lowest.
    let earliest = offset.map(|offset| {
        let found = offset.cdf.iter().find(|(_, share)| *share >= 0.01);
        -found.map_or(offset.min, |(value, _)| *value)
    });
    vec![
        one(haptic, "jitter", video.haptic_jitter_max_ms, beside.haptic_jitter),
        one(&video.name, "frame latency, p99", video.frame_delay_ms.as_ref().map(|d| d.p99), beside.latency),
        one(&video.name, &format!("behind {haptic}, p99"), offset.map(|d| d.p99), beside.behind),
        one(&video.name, &format!("ahead of {haptic}, p99"), earliest, beside.ahead),
    ]
}

/// Every emergency stop was acknowledged, and so soon.
pub(super) fn stops(teleop: &TeleopResult, within: Duration) -> LimitResult {
    let presses = &teleop.emergencies;
    let unanswered = presses.iter().filter(|press| press.acknowledged_ms.is_none()).count();
    let most = presses.iter().filter_map(EmergencyResult::added_ms).fold(f64::NEG_INFINITY, f64::max);
    let limit = within.as_millis_f64();
    let reason = match (presses.len(), unanswered) {
        (0, _) => Some("no emergency stop was pressed".to_owned()),
        // Of presses that one acknowledgement answers, the path of the first alone is known, and that waited longest.
        (_, 0) if most.is_finite() => None,
        (_, 0) => Some("the time of the path is not known".to_owned()),
        (all, some) => Some(format!("{some} of {all} were not acknowledged")),
    };
    // Times are floats of nanoseconds: a difference may be off by a part in 10¹⁵.
    let met = reason.is_none() && most <= limit + 1e-9;
    LimitResult {
        stream: "session".to_owned(),
        quantity: "emergency stop, beyond the round trip".to_owned(),
        unit: "ms".to_owned(),
        value: most.is_finite().then_some(most),
        limit,
        met,
        reason,
    }
}

/// Where there never was a session, and therefore nothing to be judged, no limit is met.
pub(super) fn no_session(opened: bool, limits: &[LimitResult]) -> Option<LimitResult> {
    (!opened && limits.is_empty()).then(|| LimitResult {
        stream: "session".to_owned(),
        quantity: "sessions".to_owned(),
        unit: String::new(),
        value: Some(0.0),
        limit: 1.0,
        met: false,
        reason: Some("the two ends never had a session".to_owned()),
    })
}

/// The arm's touch is calm in the operator's hand, where that was judged; and hand and arm never failed.
pub(super) fn touch(teleop: &TeleopResult) -> Option<LimitResult> {
    let control = teleop.control.as_ref()?;
    let touch = control.touch.as_ref();
    let calm = if control.failure.is_some() { Some(false) } else { touch.and_then(|touch| touch.calm) };
    let ripple = touch.and_then(|touch| touch.ripple_percent);
    let grows = calm == Some(false) && ripple.is_some_and(|percent| percent < MOST_RIPPLE_PERCENT);
    let reason = grows.then(|| "it grows while the hand rests".to_owned());
    calm.map(|met| LimitResult {
        stream: control.environment.clone(),
        quantity: "force ripple at rest".to_owned(),
        unit: "%".to_owned(),
        value: ripple,
        limit: MOST_RIPPLE_PERCENT,
        met,
        reason: control.failure.clone().or(reason),
    })
}

fn limits_of(profile: Profile, result: &MediumResult) -> Vec<LimitResult> {
    let medium = Medium::ALL.into_iter().find(|medium| medium.name() == result.medium);
    let Some(limits) = medium.and_then(|medium| profile.limits(medium)) else { return Vec::new() };
    let ms = |value: Option<f64>| Duration::from_secs_f64(value.unwrap_or_default() / 1e3);
    let delay = result.delay_ms.as_ref().map(|delay| delay.max);
    let loss = Probability::from_fraction((result.loss_percent.unwrap_or_default() / 100.0).clamp(0.0, 1.0));
    let verdict = check(limits, ms(delay), ms(result.jitter_max_ms), loss.unwrap_or_default());
    let reason = match result.delivered {
        0 => Some("nothing arrived"),
        1 if result.jitter_max_ms.is_none() => Some("only one arrived"),
        _ => None,
    };
    let one = |quantity: &str, unit: &str, measured: bool, check: Check, scale: f64| LimitResult {
        stream: result.stream.clone(),
        quantity: quantity.to_owned(),
        unit: unit.to_owned(),
        value: measured.then_some(check.value * scale),
        limit: check.limit * scale,
        met: measured && check.met && result.delivered > 0,
        reason: reason.filter(|_| !measured || result.delivered == 0).map(str::to_owned),
    };
    vec![
        one("delay", "ms", delay.is_some(), verdict.delay_s, 1e3),
        one("jitter", "ms", result.jitter_max_ms.is_some(), verdict.jitter_s, 1e3),
        one("loss", "%", result.loss_percent.is_some(), verdict.loss, 100.0),
    ]
}

/// The closed-form model's prediction for the stream that the scenario names, beside what was measured.
///
/// The model's d_min and d_max are those of a cycle of TCP's window, so they stand beside the means over the cycles of the
/// smallest and the largest delay in each; those of the whole run stand below.
pub(super) fn model(
    scenario: &Scenario,
    media: &[MediumResult],
    cycles: CycleSummary,
) -> Option<ModelResult> {
    let link = shared_link(scenario)?;
    let direction = scenario.model.as_ref()?.direction;
    let measured =
        |medium: Medium| media.iter().find(|m| m.direction == direction && m.medium == medium.name());
    let haptic = measured(Medium::Haptic)?;
    let prediction = predict_with_media(&link, media_rates(scenario)).ok()?;
    let mut rows = Vec::new();
    let mut row = |of: &MediumResult, measure, quantity: &str, equation: &str, predicted_s: f64, measured| {
        let (stream, quantity, equation) = (of.stream.clone(), quantity.to_owned(), equation.to_owned());
        let predicted_ms = predicted_s * 1e3;
        let row = |measured_ms| ModelRow { stream, measure, quantity, equation, predicted_ms, measured_ms };
        rows.extend(Option::map(measured, row));
    };
    let (least, most) = (prediction.d_min_s, prediction.d_max_s);
    let delay = haptic.delay_ms.as_ref();
    row(haptic, ModelMeasure::DMinOfCycles, "d_min, mean over TCP's cycles", "(8)", least, cycles.floor_ms);
    row(haptic, ModelMeasure::DMin, "d_min, whole run", "(8)", least, delay.map(|delay| delay.min));
    row(haptic, ModelMeasure::DMaxOfCycles, "d_max, mean over TCP's cycles", "(9)", most, cycles.ceiling_ms);
    row(haptic, ModelMeasure::DMax, "d_max, whole run", "(9)", most, delay.map(|delay| delay.max));
    if let Some(jitter) = prediction.jitter_max_s {
        row(haptic, ModelMeasure::Jitter, "jitter", "(13)", jitter, haptic.jitter_max_ms);
    }
    let bounds = prediction.media.as_ref();
    for (medium, predicted) in
        [(Medium::Audio, bounds.and_then(|m| m.audio_s)), (Medium::Video, bounds.and_then(|m| m.video_s))]
    {
        if let (Some(predicted), Some(result)) = (predicted, measured(medium)) {
            let quantity = format!("{} delay bound", medium.name());
            let largest = result.delay_ms.as_ref().map(|delay| delay.max);
            row(result, ModelMeasure::FrameDelay, &quantity, "", predicted, largest);
        }
    }
    let of_model = |c: &model::Condition| ModelCondition {
        name: c.name.to_owned(),
        holds: c.holds,
        explanation: c.explanation.clone(),
    };
    Some(ModelResult {
        stream: haptic.stream.clone(),
        rows,
        conditions: prediction.validity.iter().map(of_model).chain(beyond_the_model(scenario)).collect(),
        cycles: cycles.by_losses,
    })
}

/// The TCP flows whose cycles the model speaks of.
pub(super) fn cycle_watch(scenario: &Scenario, flows: &[FlowInfo]) -> Option<CycleWatch> {
    let model = scenario.model.as_ref()?;
    let of_model = |flow: &&FlowInfo| match &flow.owner {
        FlowOwner::Cross { entry, part: FlowPart::Data, .. } => {
            model.cross.contains(entry)
                && matches!(scenario.cross.get(entry).map(|cross| &cross.traffic), Some(Traffic::Tcp(_)))
        }
        _ => false,
    };
    let tcp = (0..).zip(flows).filter(|(_, flow)| of_model(flow));
    let senders: BTreeMap<_, _> = tcp.map(|(number, flow)| (FlowId(number), flow.sender)).collect();
    (!senders.is_empty()).then_some(CycleWatch { senders, direction: model.direction })
}

/// What the model does not know of and this scenario has: said in the result, never silently left out.
fn beyond_the_model(scenario: &Scenario) -> Vec<ModelCondition> {
    let (Some(model), Some(session)) = (&scenario.model, &scenario.session) else { return Vec::new() };
    let mut conditions = beyond_its_stream(session, model.direction);
    conditions.extend(beyond_its_link(scenario, model));
    conditions.extend(beyond_its_cross(scenario, model, session));
    conditions
}

/// What the model needs; and after a semicolon what breaks it, which is left out where nothing does.
fn condition(name: &str, holds: bool, explanation: &str) -> ModelCondition {
    let needs = explanation.split_once("; ").map_or(explanation, |(needs, _)| needs);
    let explanation = if holds { needs } else { explanation };
    ModelCondition { name: name.to_owned(), holds, explanation: explanation.to_owned() }
}

/// The model's stream: a packet of one size at every T_h.
fn beyond_its_stream(session: &Session, direction: Direction) -> Vec<ModelCondition> {
    let Some(stream) = session.stream(direction) else { return Vec::new() };
    let haptic = stream.haptic.as_ref();
    let one_packet_a_sample = match stream.multiplexer {
        MultiplexerSpec::FixedFragment(_) => true,
        MultiplexerSpec::Separate => stream.audio.is_none() && stream.video.is_none(),
        MultiplexerSpec::VisualHaptic | MultiplexerSpec::NetworkAware(_) => false,
    };
    vec![
        condition(
            "stream_over_udp",
            session.transport == scenario::TransportSpec::Udp,
            "the model's stream keeps its pace; a transport that holds packets back does not",
        ),
        condition(
            "one_sample_a_period",
            haptic.is_some_and(|haptic| haptic.burst == 1),
            "the model's stream is one packet every period; with `burst` above 1 there are several at once",
        ),
        condition(
            "every_sample_sent",
            haptic.is_some_and(|haptic| haptic.sampler == SamplerSpec::Every),
            "the model's stream never pauses; a sampler other than `every` withholds samples",
        ),
        condition(
            "fixed_fragment",
            one_packet_a_sample,
            "the model's packets have one size and one period; only the multiplexer `fixed_fragment`, or haptic samples \
             alone, keep both",
        ),
        condition(
            "packet_size_known",
            stream.packet.is_some(),
            "the model needs the length of the stream's packets; the stream has no `packet`",
        ),
    ]
}

/// The model's link: one rate, one queue limited in bytes, one delay.
fn beyond_its_link(scenario: &Scenario, model: &Model) -> Vec<ModelCondition> {
    let chain = scenario.links.get(&model.link).map_or(&[][..], |link| &link.chain);
    let known = |element: &ElementSpec| matches!(element, ElementSpec::Server(_) | ElementSpec::Delay(_));
    let servers = || {
        chain.iter().filter_map(|element| match element {
            ElementSpec::Server(server) => Some(&**server),
            _ => None,
        })
    };
    vec![
        condition(
            "only_rate_queue_and_delay",
            chain.iter().all(known),
            "the model's link has a rate, a queue and a delay; loss, jitter and the rest are not in it",
        ),
        condition(
            "one_rate_server",
            servers().count() == 1,
            "the model's link has one rate and one queue; this one has several",
        ),
        condition(
            "queue_limited_in_bytes_alone",
            servers().all(|server| server.queue.packets.is_none() && server.queue.kinds().is_empty()),
            "the model's queue is limited in bytes; a limit in packets, or active management, is not in it",
        ),
    ]
}

/// The model's cross traffic: CBR and bulk TCP, beside the stream, all the time.
fn beyond_its_cross(scenario: &Scenario, model: &Model, session: &Session) -> Vec<ModelCondition> {
    let steady = |traffic: &Traffic| matches!(traffic, Traffic::Cbr(_) | Traffic::Tcp(_));
    let stream = match model.direction {
        Direction::Forward => (&session.operator, &session.robot),
        Direction::Backward => (&session.robot, &session.operator),
    };
    let shared: Vec<(&str, &str)> = scenario.links[&model.link]
        .hops()
        .filter(|hop| needs(scenario, &model.link, *hop, stream.0, stream.1))
        .collect();
    let beside = |cross: &Cross| {
        !shared.is_empty()
            && shared.iter().all(|hop| needs(scenario, &model.link, *hop, &cross.from, &cross.to))
    };
    let throughout = |cross: &Cross| {
        cross.start.unwrap_or_default() <= scenario.warmup
            && cross.stop.is_none_or(|stop| stop >= scenario.duration)
    };
    let cross = || scenario.cross.values();
    vec![
        condition(
            "cross_is_constant_or_tcp",
            cross().all(|cross| steady(&cross.traffic)),
            "the model's cross traffic is CBR and bulk TCP",
        ),
        condition(
            "all_cross_named",
            scenario.cross.keys().all(|name| model.cross.contains(name)),
            "cross traffic that `model.cross` does not name is not predicted",
        ),
        condition(
            "cross_beside_the_stream",
            cross().all(beside),
            "the model's cross traffic passes the shared link in the stream's direction, and so must the stream itself; \
             what goes the other way or elsewhere is not in it",
        ),
        condition(
            "cross_throughout",
            cross().all(throughout),
            "the model's cross traffic runs from before the end of the warm-up to the end of the run; this begins later \
             or stops earlier",
        ),
    ]
}

/// Does every way between two vertices pass this hop of this link?
fn needs(scenario: &Scenario, link: &str, hop: (&str, &str), from: &str, to: &str) -> bool {
    !Ways::of(scenario).lead(from, to, |begin, way| way.link != Some(link) || (begin, way.to.as_str()) != hop)
}

/// What the model calls this scenario. What its session says beside media is no load: acknowledgements travel with them, and a few
/// packets go in ten seconds.
pub(crate) fn shared_link(scenario: &Scenario) -> Option<SharedLink> {
    let model = scenario.model.as_ref()?;
    let chain = &scenario.links.get(&model.link)?.chain;
    // With several, `one_rate_server` says so; the first of the kind that the model knows is then as good as any.
    let (rate, buffer) = chain.iter().find_map(|element| match element {
        ElementSpec::Server(server) => server.rate.zip(server.queue.bytes),
        _ => None,
    })?;
    let delays = chain.iter().filter_map(|element| match element {
        ElementSpec::Delay(delay) => Some(*delay),
        _ => None,
    });
    let session = scenario.session.as_ref()?;
    let stream = session.stream(model.direction)?;
    let haptic = stream.haptic.as_ref()?;
    let mut link = SharedLink {
        rate,
        delay: delays.fold(Duration::ZERO, |sum, delay| sum + delay),
        buffer,
        stream: model::Stream {
            // Without one, `packet_size_known` says so.
            packet: stream.packet.unwrap_or(Bytes::new(1)),
            period: haptic.period + haptic.gap,
        },
        tcp: Vec::new(),
        cbr: Vec::new(),
        multiplexer: None,
    };
    if let MultiplexerSpec::FixedFragment(fixed) = &stream.multiplexer {
        link.multiplexer = Some(FixedFragment {
            fragment: fixed.fragment,
            audio_frame: stream.audio.map(|audio| audio.rate * audio.frame),
            // The bound is for frames of one size: a key frame of a real encode waits for many packets.
            video_period: stream
                .video
                .as_ref()
                .filter(|video| video.source == VideoSource::Constant)
                .map(|video| Duration::from_nanos(1_000_000_000 / u64::from(video.fps))),
        });
    }
    for name in &model.cross {
        let cross = scenario.cross.get(name)?;
        for _ in pairs(cross, scenario) {
            match &cross.traffic {
                Traffic::Tcp(tcp) => {
                    link.tcp.push(TcpFlow { segment: tcp.segment, ack_every: tcp.ack_every })
                }
                Traffic::Cbr(flow) | Traffic::Poisson(flow) => {
                    link.cbr.push(Cbr { rate: flow.rate, packet: flow.packet });
                }
                // Said by the condition `cross_is_constant_or_tcp`.
                _ => {}
            }
        }
    }
    Some(link)
}

/// What the model's stream has to carry beside its samples.
fn media_rates(scenario: &Scenario) -> MediaRates {
    let ends = scenario.model.as_ref().zip(scenario.session.as_ref());
    let stream = ends.and_then(|(model, session)| session.stream(model.direction));
    let audio = stream.and_then(|stream| stream.audio.as_ref()).map(|audio| audio.rate);
    let video = stream.and_then(|stream| stream.video.as_ref()).map(Video::mean_rate);
    MediaRates { audio: audio.unwrap_or_default(), video: video.unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::condition;

    #[test]
    fn a_condition_that_holds_does_not_say_what_would_break_it() {
        let of = |holds| condition("size", holds, "the model needs a size; there is none").explanation;
        assert_eq!(
            [of(true), of(false)],
            ["the model needs a size", "the model needs a size; there is none"]
        );
    }
}
