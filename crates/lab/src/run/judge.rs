//! Against the limits, and beside the model.

use taut_core::{Address, Bytes, Duration, FlowId, Medium, Probability};
use taut_qos::limits::{Check, Limits, check};
use taut_qos::model::{Cbr, FixedFragment, SharedLink, Stream, TcpFlow, predict};

use super::cross::FlowInfo;
use crate::metrics::CycleWatch;
use crate::result::{CycleResult, LimitResult, MediumResult, ModelCondition, ModelResult, ModelRow};
use crate::scenario::{self, ElementSpec, MultiplexerSpec, Scenario, Traffic, VideoSource};

/// Every limit of every medium.
pub(super) fn limits(media: &[MediumResult]) -> Vec<LimitResult> {
    media.iter().flat_map(limits_of).collect()
}

fn limits_of(result: &MediumResult) -> Vec<LimitResult> {
    let medium = Medium::ALL.into_iter().find(|medium| medium.name() == result.medium);
    let Some(limits) = medium.and_then(Limits::for_medium) else { return Vec::new() };
    let ms = |value: f64| Duration::from_secs_f64(value / 1e3);
    let loss = Probability::from_fraction((result.loss_percent / 100.0).clamp(0.0, 1.0)).unwrap_or_default();
    let verdict = check(limits, ms(result.delay_ms.max), ms(result.jitter_max_ms), loss);
    let one = |quantity: &str, unit: &str, check: Check, scale: f64| LimitResult {
        stream: result.stream.clone(),
        quantity: quantity.to_owned(),
        unit: unit.to_owned(),
        value: check.value * scale,
        limit: check.limit * scale,
        met: check.met && result.delivered > 0,
    };
    vec![
        one("delay", "ms", verdict.delay_s, 1e3),
        one("jitter", "ms", verdict.jitter_s, 1e3),
        one("loss", "%", verdict.loss, 100.0),
    ]
}

/// The closed-form model's prediction for the stream that the scenario names, beside what was measured.
///
/// The model's d_min is that of a cycle of TCP's window, so it stands beside the mean over the cycles of the smallest
/// delay in each; the smallest delay of all stands below.
pub(super) fn model(
    scenario: &Scenario,
    media: &[MediumResult],
    (floor_ms, cycles): (Option<f64>, Vec<CycleResult>),
) -> Option<ModelResult> {
    let link = shared_link(scenario)?;
    let direction = scenario.model.as_ref()?.direction.name();
    let measured = |medium: &str| media.iter().find(|m| m.stream == format!("{direction} {medium}"));
    let haptic = measured("haptic")?;
    let prediction = predict(&link).ok()?;
    let row = |quantity: &str, equation: &str, predicted_s: f64, measured_ms: f64| ModelRow {
        quantity: quantity.to_owned(),
        equation: equation.to_owned(),
        predicted_ms: predicted_s * 1e3,
        measured_ms,
    };
    let mut rows = vec![
        row("d_min", "(8)", prediction.d_min_s, floor_ms.unwrap_or(haptic.delay_ms.min)),
        row("smallest delay of all", "(8)", prediction.d_min_s, haptic.delay_ms.min),
        row("d_max", "(9)", prediction.d_max_s, haptic.delay_ms.max),
    ];
    rows.extend(prediction.jitter_max_s.map(|jitter| row("jitter", "(13)", jitter, haptic.jitter_max_ms)));
    let media_delays = prediction.media;
    for (medium, predicted) in [
        ("audio", media_delays.as_ref().and_then(|m| m.audio_s)),
        ("video", media_delays.as_ref().and_then(|m| m.video_s)),
    ] {
        if let (Some(predicted), Some(result)) = (predicted, measured(medium)) {
            rows.push(row(&format!("{medium} delay bound"), "", predicted, result.delay_ms.max));
        }
    }
    let condition = |c: &taut_qos::model::Condition| ModelCondition {
        name: c.name.to_owned(),
        holds: c.holds,
        explanation: c.explanation.clone(),
    };
    Some(ModelResult {
        stream: format!("{direction} haptic"),
        rows,
        conditions: prediction.validity.iter().map(condition).chain(beyond_the_model(scenario)).collect(),
        cycles,
    })
}

/// The TCP flow whose cycles the model speaks of, when it is the only one.
pub(super) fn cycle_watch(scenario: &Scenario, nodes: &[String], flows: &[FlowInfo]) -> Option<CycleWatch> {
    let model = scenario.model.as_ref()?;
    let mut tcp = model.cross.iter().filter(|name| {
        scenario
            .cross
            .get(*name)
            .is_some_and(|cross| matches!(cross.traffic, Traffic::Tcp(_)) && cross.count == 1)
    });
    let (name, None) = (tcp.next()?, tcp.next()) else { return None };
    let sender = nodes.iter().position(|node| *node == format!("{name} sender"))?;
    let flow = flows.iter().position(|flow| flow.name == *name)?;
    Some(CycleWatch {
        sender: Address(sender as u16),
        flow: FlowId(flow as u32),
        direction: model.direction.name(),
    })
}

/// What the model does not know of and this scenario has: said in the result, never silently left out.
fn beyond_the_model(scenario: &Scenario) -> Vec<ModelCondition> {
    let (Some(model), Some(session)) = (&scenario.model, &scenario.session) else { return Vec::new() };
    let condition = |name: &str, holds: bool, explanation: &str| ModelCondition {
        name: name.to_owned(),
        holds,
        explanation: explanation.to_owned(),
    };
    let known = |element: &ElementSpec| matches!(element, ElementSpec::Server(_) | ElementSpec::Delay(_));
    let chain = scenario.links.get(&model.link).map_or(&[][..], |link| &link.chain);
    let steady = |traffic: &Traffic| matches!(traffic, Traffic::Cbr(_) | Traffic::Tcp(_));
    let named = |name: &String| model.cross.contains(name);
    vec![
        condition(
            "stream_over_udp",
            session.transport == scenario::TransportSpec::Udp,
            "the model's stream keeps its pace; a transport that holds packets back does not",
        ),
        condition(
            "only_rate_queue_and_delay",
            chain.iter().all(known),
            "the model's link has a rate, a queue and a delay; loss, jitter and the rest are not in it",
        ),
        condition(
            "cross_is_constant_or_tcp",
            scenario.cross.values().all(|cross| steady(&cross.traffic)),
            "the model's cross traffic is CBR and bulk TCP",
        ),
        condition(
            "all_cross_named",
            scenario.cross.keys().all(named),
            "cross traffic that `model.cross` does not name is not predicted",
        ),
    ]
}

/// What the model calls this scenario.
pub(crate) fn shared_link(scenario: &Scenario) -> Option<SharedLink> {
    let model = scenario.model.as_ref()?;
    let chain = &scenario.links.get(&model.link)?.chain;
    let server = chain.iter().find_map(|element| match element {
        ElementSpec::Server(server) => Some(server),
        _ => None,
    })?;
    let delays = chain.iter().filter_map(|element| match element {
        ElementSpec::Delay(delay) => Some(*delay),
        _ => None,
    });
    let session = scenario.session.as_ref()?;
    let stream = match model.direction {
        scenario::Direction::Forward => session.forward.as_ref()?,
        scenario::Direction::Backward => session.backward.as_ref()?,
    };
    let haptic = stream.haptic.as_ref()?;
    let mut link = SharedLink {
        rate: server.rate?,
        delay: delays.fold(Duration::ZERO, |sum, delay| sum + delay),
        buffer: server.queue.bytes?,
        stream: Stream { packet: stream.packet.unwrap_or(Bytes::new(1)), period: haptic.period + haptic.gap },
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
        for _ in 0..cross.count {
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
