//! What agents notice and tell, for whoever debugs a session. Samples on their way are not among it.

use taut_session::{ChannelEvent, OperatorEvent, RobotEvent};
use tracing::{debug, info, warn};

use crate::{OperatorNote, RobotNote};

#[inline]
pub(crate) fn operator_event(event: &OperatorEvent) {
    match event {
        OperatorEvent::Acknowledged { .. }
        | OperatorEvent::Feedback { .. }
        // The transport has told of it.
        | OperatorEvent::Refused(_)
        | OperatorEvent::PathUp(_)
        | OperatorEvent::PathDown(_) => {}
        OperatorEvent::Dropped { sequence, cause } => debug!(sequence, cause = cause.name(), "state dropped"),
        OperatorEvent::Channel(event) => channel_event(event),
        OperatorEvent::Rate { hz } => debug!(hz, "rate"),
        other => info!(event = ?other, "session"),
    }
}

#[inline]
pub(crate) fn robot_event(event: &RobotEvent) {
    match event {
        RobotEvent::Apply { .. }
        | RobotEvent::Move { .. }
        | RobotEvent::Refused(_)
        | RobotEvent::PathUp(_)
        | RobotEvent::PathDown(_) => {}
        RobotEvent::Dropped { sequence, cause } => debug!(sequence, cause = cause.name(), "state dropped"),
        RobotEvent::FeedbackDropped { sequence, cause } => {
            debug!(sequence, cause = cause.name(), "feedback dropped");
        }
        RobotEvent::Channel(event) => channel_event(event),
        RobotEvent::Keep { number, .. } => debug!(number, "latch to be kept"),
        other => info!(event = ?other, "session"),
    }
}

fn channel_event(event: &ChannelEvent) {
    match event {
        ChannelEvent::Received { .. } | ChannelEvent::Arrived { .. } => {}
        ChannelEvent::Dropped { channel, sequence, cause } => {
            debug!(channel = ?channel, sequence, cause = cause.name(), "message dropped");
        }
        other => info!(event = ?other, "channel"),
    }
}

#[inline]
pub(crate) fn operator_note(note: &OperatorNote) {
    match note {
        OperatorNote::Event(_) | OperatorNote::Progress(_) => {}
        OperatorNote::NoAnswer { silence } => warn!(%silence, "no answer"),
        OperatorNote::AnswersAgain { silence } => info!(%silence, "answers again"),
        OperatorNote::NotResumed(error) | OperatorNote::NotReset(error) => info!(%error, "not done"),
        OperatorNote::Done => info!("all samples were made"),
        OperatorNote::Keep { number, .. } => debug!(number, "stop to be kept"),
        OperatorNote::Reconnect => info!("connects again"),
        OperatorNote::Ended(ending) => info!(why = ?ending.why, "ended"),
    }
}

#[inline]
pub(crate) fn robot_note(note: &RobotNote) {
    match note {
        RobotNote::Event(_) | RobotNote::Progress(_) | RobotNote::Device(_) | RobotNote::Keep { .. } => {}
        RobotNote::Bitrate(rate) => debug!(?rate, "left for what can wait"),
        RobotNote::Refused { cause, count, busy, .. } => {
            info!(cause = cause.name(), count, busy, "refused");
        }
        RobotNote::Stopped { why, silence, .. } => warn!(?why, ?silence, "stopped"),
        RobotNote::DeviceFailed(failure) => warn!(?failure, "device failed"),
        RobotNote::NotSent { channel, why } => debug!(channel = ?channel, %why, "message refused"),
        RobotNote::NotKept => warn!("the latch could not be kept"),
        RobotNote::Reconnect => info!("waits for the next operator"),
        RobotNote::Ended => info!("ended"),
    }
}
