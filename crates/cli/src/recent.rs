//! Rates of late, from what is counted since the start.

use std::collections::VecDeque;

use serde_json::{Value, json};
use taut_session::Status;

/// What was counted when a report was made.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Totals {
    elapsed_s: f64,
    messages: u64,
    bits: f64,
}

impl From<&Status> for Totals {
    fn from(status: &Status) -> Self {
        let Status { elapsed_s, messages, throughput_bps, .. } = *status;
        Self { elapsed_s, messages, bits: throughput_bps * elapsed_s }
    }
}

/// Rates over the last reports, where a [`Status`] gives the mean since the start.
#[derive(Debug)]
pub(crate) struct Recent {
    /// Over so many reports.
    reports: usize,
    /// The newest last.
    before: VecDeque<Totals>,
}

impl Recent {
    /// Rates over so many reports, at least 1.
    pub(crate) fn over(reports: usize) -> Self {
        Self { reports: reports.max(1), before: VecDeque::new() }
    }

    /// The same report with the rates of late. The first counts from the start.
    pub(crate) fn of(&mut self, status: &Status) -> Status {
        let now = Totals::from(status);
        let start = Totals { elapsed_s: 0.0, messages: 0, bits: 0.0 };
        let from = self.before.front().copied().unwrap_or(start);
        self.before.push_back(now);
        if self.before.len() > self.reports {
            self.before.pop_front();
        }
        let elapsed = now.elapsed_s - from.elapsed_s;
        if elapsed <= 0.0 {
            return status.clone();
        }
        Status {
            rate_hz: now.messages.saturating_sub(from.messages) as f64 / elapsed,
            // A new connection of the kernel's counts its bytes anew.
            throughput_bps: (now.bits - from.bits).max(0.0) / elapsed,
            ..status.clone()
        }
    }
}

/// The rates of a report, for JSON Lines.
pub(crate) fn as_json(recent: &Status) -> Value {
    json!({ "rate_hz": recent.rate_hz, "throughput_bps": recent.throughput_bps })
}

/// A status line in so many columns: how the robot is, and of `recent` what has room, the most important first.
pub(crate) fn status_line(standing: &str, recent: &Status, columns: usize) -> String {
    let Status { messages, rate_hz, jitter_ms, rtt, .. } = recent;
    let mut items = vec![standing.to_owned()];
    if rtt.count > 0 {
        items.push(format!("RTT {:.1}/{:.1}/{:.1} ms", rtt.min_ms, rtt.mean_ms, rtt.max_ms));
    }
    items.extend([
        format!("{:.1}% arrived", recent.success * 100.0),
        format!("{rate_hz:.0}/s"),
        format!("jitter {jitter_ms:.1} ms"),
        format!("{:.2} Mbit/s", recent.throughput_bps / 1e6),
        format!("{messages} states"),
    ]);
    let mut line = "[Status] ".to_owned();
    for (place, item) in items.iter().enumerate() {
        let bar = if place == 0 { "" } else { " | " };
        if place > 0 && line.chars().count() + bar.len() + item.chars().count() > columns {
            break;
        }
        line = line + bar + item;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_session::LatencySummary;

    fn status(elapsed_s: f64, messages: u64) -> Status {
        // Each message has 1,000 bits.
        let rate_hz = messages as f64 / elapsed_s;
        Status { elapsed_s, messages, rate_hz, throughput_bps: rate_hz * 1e3, ..Status::default() }
    }

    #[test]
    fn rates_are_of_the_last_reports_and_not_since_the_start() {
        let mut recent = Recent::over(1);
        let first = recent.of(&status(10.0, 10_000));
        assert!((first.rate_hz - 1_000.0).abs() < 1e-6);
        let second = recent.of(&status(12.0, 10_200));
        assert!((second.rate_hz - 100.0).abs() < 1e-6, "{}", second.rate_hz);
        assert!((second.throughput_bps - 100e3).abs() < 1e-3, "{}", second.throughput_bps);
        let stands = recent.of(&status(13.0, 10_200));
        assert_eq!((stands.rate_hz.to_bits(), stands.messages), (0, 10_200));
    }

    #[test]
    fn rates_over_several_reports_reach_back_as_far_and_no_farther() {
        let mut recent = Recent::over(2);
        for (second, messages) in [(1.0, 1_000), (2.0, 1_000), (3.0, 1_200)] {
            recent.of(&status(second, messages));
        }
        let rate = recent.of(&status(4.0, 1_300)).rate_hz;
        assert!((rate - 150.0).abs() < 1e-6, "{rate}");
    }

    #[test]
    fn a_status_line_fits_and_leaves_the_least_important_out_as_a_whole() {
        let rtt = LatencySummary {
            count: 9,
            min_ms: 60.1,
            mean_ms: 75.3,
            max_ms: 123.9,
            ..LatencySummary::default()
        };
        let it = Status { success: 1.0, jitter_ms: 10.1, throughput_bps: 1.16e6, rtt, ..status(1.0, 992) };
        let all = "[Status] MOVING | RTT 60.1/75.3/123.9 ms | 100.0% arrived | 992/s | jitter 10.1 ms | 1.16 Mbit/s | 992 states";
        assert_eq!(status_line("MOVING", &it, 200), all);
        let short = status_line("MOVING", &it, 80);
        assert_eq!(short, "[Status] MOVING | RTT 60.1/75.3/123.9 ms | 100.0% arrived | 992/s");
        let silent = status_line("NO ANSWER for 12.3 s", &it, 80);
        assert_eq!(silent, "[Status] NO ANSWER for 12.3 s | RTT 60.1/75.3/123.9 ms | 100.0% arrived | 992/s");
        assert!((0..120).all(|columns| status_line("MOVING", &it, columns).len() <= columns.max(15)));
    }
}
