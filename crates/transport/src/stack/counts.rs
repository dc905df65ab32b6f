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

/// What was counted, each by the name of its field; what has another name, or is more than a field, follows.
macro_rules! counts {
    ($stats:expr; $($field:ident)+ $(; $($name:literal: $value:expr),+)?) => {
        Vec::<Count>::from([$((stringify!($field), $stats.$field),)+ $($(($name, $value),)+)?])
    };
}

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
            Self::Secured(secured) => {
                counts.extend(counts!(secured.stats(); sealed opened unauthenticated replayed));
            }
            Self::Sealed(sealed) => counts.extend(counts!(sealed.stats(); sealed opened)),
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
            Bare::EveryPath(every) => Some((every.offered(), every.copies())),
            _ => None,
        }
    }
}

fn of_tcp(stats: TcpStats) -> Vec<Count> {
    counts!(stats; segments_sent retransmitted fast_retransmits timeouts recoveries acks_sent duplicate_acks duplicate_segments)
}

fn of_udp(stats: UdpStats) -> Vec<Count> {
    counts!(stats; offered sent superseded too_late abandoned received refused)
}

fn of_etp(stats: &EtpStats) -> Vec<Count> {
    let mut counts = of_sampling(stats.sampling);
    counts.push(("gap_us", stats.gap.as_nanos() / 1_000));
    let packets =
        counts!(stats; packets_sent packets_received packets_missing feedback_sent feedback_received refused);
    counts.extend(packets);
    counts
}

/// What a gap cost, over whatever transport.
fn of_sampling(sampling: Sampling) -> Vec<Count> {
    counts!(sampling; offered sent superseded too_late refused_below)
}

fn of_mtip(stats: &MtipStats) -> Vec<Count> {
    let mut counts = counts!(stats; offered sent copies; "copies_again": stats.again);
    counts.extend(counts!(stats; superseded too_late received duplicates late refused));
    counts
}

fn of_mpquic(stats: &QuicStats) -> Vec<Count> {
    let refused = stats.refused + stats.replayed;
    counts!(stats; offered sent copies superseded too_late received duplicates; "refused": refused)
}

fn of_mptcp(stats: &MptcpStats) -> Vec<Count> {
    counts!(stats; offered too_late pieces reinjected received duplicates)
}

fn of_quic(stats: &QuicStats) -> Vec<Count> {
    let refused = stats.refused + stats.replayed;
    let mut counts = counts!(stats; offered sent sent_early superseded too_late received; "refused": refused);
    counts.extend(counts!(stats; packets_sent packets_lost));
    counts
}

fn of_sctp(stats: &SctpStats) -> Vec<Count> {
    counts!(stats; offered handed superseded too_late abandoned let_go received refused retransmitted_packets)
}

fn of_dccp(stats: &DccpStats) -> Vec<Count> {
    let mut counts =
        counts!(stats; offered sent superseded too_late abandoned received packets_sent acks_sent);
    counts.extend(counts!(stats; lost congestion_events timeouts malformed invalid duplicates));
    counts
}
