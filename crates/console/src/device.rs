//! What the page in control does, as the session's device.

use std::sync::Arc;

use serde_json::json;
use taut_agent::{DeviceMessage, Grip, OperatorDevice, RateInput, Relative, Resume, Sample};
use taut_core::{Bitrate, Duration, Time};
use taut_io::Clock;
use taut_media::picture::Picture;
use taut_session::{ChannelId, Priority, State};

use crate::{Shared, frame};

struct Steering(Arc<Shared>);

impl RateInput for Steering {
    fn grip(&mut self) -> Grip {
        let mut state = self.0.lock();
        let grip = state.seat.grip(Clock::since_boot());
        if state.seat.is_untold()
            && let Some(page) = state.seat.holder().and_then(|holder| state.pages.get(&holder))
        {
            page.event(frame::event(&json!({ "event": "hold_lapsed" }).to_string()));
        }
        grip
    }
}

/// The operator's device: made by [`Console::device`](crate::Console::device).
pub struct ConsoleDevice {
    relative: Relative<Steering>,
    shared: Arc<Shared>,
}

impl ConsoleDevice {
    pub(crate) fn new(shared: Arc<Shared>, priority: Priority) -> Self {
        Self { relative: Relative::new(Steering(shared.clone()), priority), shared }
    }
}

impl OperatorDevice for ConsoleDevice {
    fn sample(&mut self, now: Time) -> Option<Sample> {
        self.relative.sample(now)
    }
    fn skip(&mut self, periods: u64) -> u64 {
        self.relative.skip(periods)
    }
    fn resumed(&mut self, resume: Resume) {
        if resume == Resume::Asked {
            self.shared.lock().seat.resumed();
        }
        self.relative.resumed(resume);
    }
    fn feel(&mut self, now: Time, state: &State) {
        self.relative.feel(now, state);
        let record = frame::state(now, state);
        self.shared.lock().pages.values().for_each(|page| page.state(record));
    }
    fn lost(&mut self) {
        self.relative.lost();
    }
    fn receive(&mut self, channel: ChannelId, age: Option<Duration>, payload: &[u8]) {
        if self.shared.joints == Some(channel) {
            let made = age.map(|age| Clock::since_boot() - age);
            if let Some(message) = frame::joints(made, payload) {
                self.shared.lock().pages.values().for_each(|page| page.joints(message.clone()));
            }
            return;
        }
        let Some(place) = self.shared.pictures.iter().position(|known| known.pictures == channel) else {
            return;
        };
        let now = Clock::since_boot();
        let message = frame::picture(place as u8, age.map(|age| now - age), payload);
        let decodes_alone = Picture::parse(payload).is_ok_and(|(picture, _)| picture.key || picture.recovers);
        self.shared
            .lock()
            .pages
            .values()
            .for_each(|page| page.picture(place as u8, message.clone(), decodes_alone));
    }
    fn limit_bitrate(&mut self, _: Bitrate) {}
    fn poll_message(&mut self, _: Time) -> Option<DeviceMessage> {
        let (place, payload) = self.shared.lock().asks.poll()?;
        let channel = self.shared.pictures.get(usize::from(place))?.asks?;
        Some(DeviceMessage::Payload { channel, payload })
    }
}

impl std::fmt::Debug for ConsoleDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsoleDevice").finish_non_exhaustive()
    }
}
