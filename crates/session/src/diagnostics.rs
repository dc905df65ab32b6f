//! What a transport tells, for whoever debugs a session.

use taut_core::Event;
use tracing::{debug, info, trace};

/// Passes on to [`tracing`] what a transport told whoever uses it. Nothing of what it received: that happens a thousand times a second.
#[inline]
pub fn on_event(event: &Event) {
    match event {
        Event::Received { .. } => {}
        Event::Connected => info!("connected"),
        Event::Closed => info!("closed"),
        Event::PathUp(path) => info!(path = path.0, "path up"),
        Event::PathDown(path) => info!(path = path.0, "path down"),
        Event::Dropped { tag, cause } => debug!(tag, cause = cause.name(), "dropped"),
        Event::Refused(cause) => debug!(cause = cause.name(), "refused"),
        Event::Gauge { name, value } => trace!(name, value, "gauge"),
    }
}
