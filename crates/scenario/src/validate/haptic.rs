//! Haptic samples: where they come from, and which are worth sending.

use taut_core::{Duration, Probability};

use super::{Checked, fault, within};
use crate::schema::*;

/// Whether source and sampler fit each other, within their ranges.
pub(super) fn check(key: &str, source: &HapticSource, sampler: &SamplerSpec) -> Checked {
    check_sampler(&format!("{key}.sampler"), sampler)?;
    if let HapticSource::Contacts(contacts) = source {
        check_contacts(&format!("{key}.source.contacts"), contacts)?;
    }
    if matches!(source, HapticSource::Constant) && *sampler != SamplerSpec::Every {
        return fault(
            format!("{key}.sampler"),
            "needs a signal: set `source` to `simulated`, `recording` or `contacts`",
        );
    }
    Ok(())
}

fn check_contacts(key: &str, contacts: &ContactsSpec) -> Checked {
    let (shortest, longest) = (Duration::from_millis(10), Duration::from_secs(60));
    within(format!("{key}.length"), contacts.length, shortest, longest)?;
    let percent = |percent: f64| Probability::from_fraction(percent / 100.0).expect("a percentage up to 100");
    within(format!("{key}.share"), contacts.share, percent(1.0), percent(99.0))
}

fn check_sampler(key: &str, sampler: &SamplerSpec) -> Checked {
    let (kind, k, slope, floor) = match sampler {
        SamplerSpec::Every => return Ok(()),
        SamplerSpec::Deadband(d) => ("deadband", d.k, 0.0, d.floor),
        SamplerSpec::VelocityDeadband(d) => ("velocity_deadband", d.k, d.slope, d.floor),
    };
    let key = format!("{key}.{kind}");
    within(format!("{key}.k"), k, 0.0, 1.0)?;
    within(format!("{key}.slope"), slope, 0.0, 1e6)?;
    within(format!("{key}.floor"), floor, 0.0, 1e9)
}
