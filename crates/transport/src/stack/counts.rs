//! What transports counted, by name.

use super::{Bare, Stack};
use crate::dccp::DccpStats;
use crate::etp::{EtpStats, Sampling};
use crate::mptcp::MptcpStats;
use crate::mtip::MtipStats;
use crate::quic::QuicStats;
use crate::sctp::SctpStats;
use crate::tcp::TcpStats;
use crate::udp::UdpStats;

type Count = (&'static str, u64);

impl Stack {
    /// What was counted so far: of the transport, then of what protects it. For tables of flows.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let mut counts = match self.bare() {
            Bare::Udp(udp) => of_udp(udp.stats()),
            Bare::Etp(etp) => of_etp(&etp.stats()),
            Bare::Tcp(tcp) => of_tcp(tcp.stats()),
            Bare::SpacedTcp(spaced) => {
                let mut counts = of_sampling(spaced.sampling());
                counts.extend(of_tcp(spaced.inner().stats()));
                counts
            }
            Bare::Quic(quic) => of_quic(&quic.stats()),
            Bare::Mpquic(quic) => of_mpquic(&quic.stats()),
            Bare::Sctp(sctp) => of_sctp(&sctp.stats()),
            Bare::Dccp(dccp) => of_dccp(&dccp.stats()),
            Bare::Mtip(mtip) => of_mtip(&mtip.stats()),
            Bare::Mptcp(mptcp) => of_mptcp(&mptcp.stats()),
            Bare::EveryPath(every) => vec![("offered", every.offered())],
        };
        match self {
            Self::Plain(_) => {}
            Self::Secured(secured) => counts.extend([
                ("sealed", secured.stats().sealed),
                ("opened", secured.stats().opened),
                ("unauthenticated", secured.stats().unauthenticated),
                ("replayed", secured.stats().replayed),
            ]),
            Self::Sealed(sealed) => {
                counts.extend([("sealed", sealed.stats().sealed), ("opened", sealed.stats().opened)]);
            }
        }
        counts
    }

    /// Messages sent, and copies of them on paths; `None` where that is not counted in messages.
    pub fn copies(&self) -> Option<(u64, u64)> {
        match self.bare() {
            Bare::Mtip(mtip) => Some((mtip.stats().sent, mtip.stats().copies)),
            Bare::Mptcp(mptcp) => {
                let again: u64 = mptcp.subflows().map(|subflow| subflow.stats.retransmitted).sum();
                Some((mptcp.stats().offered, mptcp.stats().pieces + again))
            }
            Bare::Mpquic(quic) => Some((quic.stats().sent, quic.stats().copies)),
            Bare::EveryPath(every) => Some((every.offered(), every.offered() * every.paths() as u64)),
            _ => None,
        }
    }
}

fn of_tcp(stats: TcpStats) -> Vec<Count> {
    vec![
        ("segments_sent", stats.segments_sent),
        ("retransmitted", stats.retransmitted),
        ("fast_retransmits", stats.fast_retransmits),
        ("timeouts", stats.timeouts),
        ("recoveries", stats.recoveries),
        ("acks_sent", stats.acks_sent),
        ("duplicate_acks", stats.duplicate_acks),
        ("duplicate_segments", stats.duplicate_segments),
    ]
}

fn of_udp(stats: UdpStats) -> Vec<Count> {
    vec![
        ("offered", stats.offered),
        ("sent", stats.sent),
        ("superseded", stats.superseded),
        ("too_late", stats.too_late),
        ("received", stats.received),
        ("refused", stats.refused),
    ]
}

fn of_etp(stats: &EtpStats) -> Vec<Count> {
    let mut counts = of_sampling(stats.sampling);
    counts.extend([
        ("gap_us", stats.gap.as_nanos() / 1_000),
        ("packets_sent", stats.packets_sent),
        ("packets_received", stats.packets_received),
        ("packets_missing", stats.packets_missing),
        ("feedback_sent", stats.feedback_sent),
        ("feedback_received", stats.feedback_received),
        ("refused", stats.refused),
    ]);
    counts
}

/// What a gap cost, over whatever transport.
fn of_sampling(sampling: Sampling) -> Vec<Count> {
    vec![
        ("offered", sampling.offered),
        ("sent", sampling.sent),
        ("superseded", sampling.superseded),
        ("too_late", sampling.too_late),
        ("refused_below", sampling.refused_below),
    ]
}

fn of_mtip(stats: &MtipStats) -> Vec<Count> {
    vec![
        ("offered", stats.offered),
        ("sent", stats.sent),
        ("copies", stats.copies),
        ("copies_again", stats.again),
        ("superseded", stats.superseded),
        ("too_late", stats.too_late),
        ("received", stats.received),
        ("duplicates", stats.duplicates),
        ("late", stats.late),
        ("refused", stats.refused),
    ]
}

fn of_mpquic(stats: &QuicStats) -> Vec<Count> {
    vec![
        ("offered", stats.offered),
        ("sent", stats.sent),
        ("copies", stats.copies),
        ("superseded", stats.superseded),
        ("too_late", stats.too_late),
        ("received", stats.received),
        ("duplicates", stats.duplicates),
        ("refused", stats.refused + stats.replayed),
    ]
}

fn of_mptcp(stats: &MptcpStats) -> Vec<Count> {
    vec![
        ("offered", stats.offered),
        ("too_late", stats.too_late),
        ("pieces", stats.pieces),
        ("reinjected", stats.reinjected),
        ("received", stats.received),
        ("duplicates", stats.duplicates),
    ]
}

fn of_quic(stats: &QuicStats) -> Vec<Count> {
    vec![
        ("offered", stats.offered),
        ("sent", stats.sent),
        ("sent_early", stats.sent_early),
        ("superseded", stats.superseded),
        ("too_late", stats.too_late),
        ("received", stats.received),
        ("refused", stats.refused),
        ("packets_sent", stats.packets_sent),
        ("packets_lost", stats.packets_lost),
    ]
}

fn of_sctp(stats: &SctpStats) -> Vec<Count> {
    vec![
        ("offered", stats.offered),
        ("handed", stats.handed),
        ("superseded", stats.superseded),
        ("too_late", stats.too_late),
        ("abandoned", stats.abandoned),
        ("received", stats.received),
        ("refused", stats.refused),
        ("retransmitted_packets", stats.retransmitted_packets),
    ]
}

fn of_dccp(stats: &DccpStats) -> Vec<Count> {
    vec![
        ("offered", stats.offered),
        ("sent", stats.sent),
        ("superseded", stats.superseded),
        ("too_late", stats.too_late),
        ("received", stats.received),
        ("packets_sent", stats.packets_sent),
        ("acks_sent", stats.acks_sent),
        ("lost", stats.lost),
        ("congestion_events", stats.congestion_events),
        ("timeouts", stats.timeouts),
    ]
}
