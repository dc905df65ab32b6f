//! For a build of trials.
use std::collections::HashMap;
pub(crate) fn knob(name: &'static str, default: f64) -> f64 {
    use std::cell::RefCell;
    thread_local!(static KNOBS: RefCell<HashMap<&'static str, f64>> = RefCell::new(HashMap::new()));
    KNOBS.with_borrow_mut(|knobs| *knobs.entry(name).or_insert_with(|| std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(default)))
}
