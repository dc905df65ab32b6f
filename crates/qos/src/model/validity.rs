//! The range of the model.

use super::equations::Bottleneck;
use super::prediction::{Condition, TcpCycle};
use super::{MediaRates, SharedLink};

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
/// The condition of which delays of frames need that it holds.
pub(super) const MEDIA_FIT: &str = "media_fit_fragments";

pub(super) fn validity(link: &SharedLink, bottleneck: &Bottleneck, tcp: Option<&TcpCycle>) -> Vec<Condition> {
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
    let numbers = match flows {
        1 => "TCP flows 1".to_owned(),
        _ => format!("TCP flows {flows}, taken to lose and halve together; segment and n must be the same"),
    };
    let alike = link.tcp.windows(2).all(|pair| pair[0] == pair[1]);
    let otherwise = "of flows that differ only τ and τ + B/μ are known";
    conditions.push(Condition::new("tcp_flows_alike", alike, numbers, otherwise));
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
            cycle.w_min_segments >= LEAST_W_MIN * flows as f64,
            format!(
                "W_min = {:.2}, must be at least {LEAST_W_MIN} segments for each TCP flow",
                cycle.w_min_segments
            ),
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
pub(super) fn media_fit(link: &SharedLink, media: MediaRates) -> Option<Condition> {
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
