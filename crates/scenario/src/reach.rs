//! Whether those who speak to each other are connected.

use super::schema::*;
use super::validate::{Checked, fault};
use super::ways::{Ways, host};

/// Every sender needs links to its receiver. A session, TCP and video that adapts need them both ways.
pub(super) fn check(scenario: &Scenario) -> Checked {
    let ways = Ways::of(scenario);
    if let Some(session) = &scenario.session {
        both_ways(&ways, "session", &session.operator, &session.robot)?;
    }
    if let Some(teleop) = &scenario.teleop {
        both_ways(&ways, "teleop", &teleop.operator, &teleop.robot)?;
    }
    if let Some(commands) = &scenario.commands {
        both_ways(&ways, "commands", &commands.from, &commands.to)?;
    }
    for (name, cross) in &scenario.cross {
        let key = format!("cross.{name}");
        match &cross.traffic {
            Traffic::Tcp(_) | Traffic::Rtp(RtpTraffic { sender: RtpSender::Gcc, .. }) => {
                both_ways(&ways, &key, &cross.from, &cross.to)?;
            }
            _ => one_way(&ways, &key, &cross.from, &cross.to)?,
        }
    }
    Ok(())
}

fn both_ways(ways: &Ways<'_>, key: &str, a: &str, b: &str) -> Checked {
    one_way(ways, key, a, b)?;
    one_way(ways, key, b, a)
}

fn one_way(ways: &Ways<'_>, key: &str, from: &str, to: &str) -> Checked {
    if ways.lead(from, to, |_, _| true) {
        return Ok(());
    }
    fault(key, format!("no links lead from `{}` to `{}`", host(from), host(to)))
}
