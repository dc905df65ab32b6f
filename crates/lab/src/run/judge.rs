//! Against the limits, and beside the model.

use taut_core::{Bytes, Duration, FlowId, Medium, Probability};
use taut_qos::limits::{Check, Limits, check};
use taut_qos::model::{Cbr, FixedFragment, SharedLink, Stream, TcpFlow, predict};

use super::flows::FlowInfo;
use crate::metrics::{CycleSummary, CycleWatch};
use crate::result::{
    FlowOwner, FlowPart, LimitResult, MediumResult, ModelCondition, ModelMeasure, ModelResult, ModelRow,
};
use crate::scenario::{self, ElementSpec, MultiplexerSpec, Scenario, Traffic, VideoSource};

/// Every limit of every medium.
pub(super) fn limits(media: &[MediumResult]) -> Vec<LimitResult> {
    media.iter().flat_map(limits_of).collect()
}

fn limits_of(result: &MediumResult) -> Vec<LimitResult> {
    let medium = Medium::ALL.into_iter().find(|medium| medium.name() == result.medium);
    let Some(limits) = medium.and_then(Limits::for_medium) else { return Vec::new() };
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
    let prediction = predict(&link).ok()?;
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
    let condition = |c: &taut_qos::model::Condition| ModelCondition {
        name: c.name.to_owned(),
        holds: c.holds,
        explanation: c.explanation.clone(),
    };
    Some(ModelResult {
        stream: haptic.stream.clone(),
        rows,
        conditions: prediction.validity.iter().map(condition).chain(beyond_the_model(scenario)).collect(),
        cycles: cycles.by_losses,
    })
}

/// The TCP flow whose cycles the model speaks of, when it is the only one.
pub(super) fn cycle_watch(scenario: &Scenario, flows: &[FlowInfo]) -> Option<CycleWatch> {
    let model = scenario.model.as_ref()?;
    let of_model = |flow: &&FlowInfo| match &flow.owner {
        FlowOwner::Cross { entry, part: FlowPart::Data, .. } => {
            model.cross.contains(entry)
                && matches!(scenario.cross.get(entry).map(|cross| &cross.traffic), Some(Traffic::Tcp(_)))
        }
        _ => false,
    };
    let mut tcp = (0..).zip(flows).filter(|(_, flow)| of_model(flow));
    let ((number, flow), None) = (tcp.next()?, tcp.next()) else { return None };
    Some(CycleWatch { sender: flow.sender, flow: FlowId(number), direction: model.direction })
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
