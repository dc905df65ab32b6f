//! In place of a recording, where the crate has none.

use taut_agent::{OperatorNote, RobotNote, SessionObserver};
use taut_core::Time;
use taut_io::Clock;
use taut_io::lines::Line;
use taut_io::session::Told;

use crate::common::{About, Common};
use crate::error::Error;

pub(crate) struct Recorded;

impl Recorded {
    pub(crate) fn start(
        _: &Common,
        _: Clock,
        _: About,
        _: impl FnOnce(String) + Send + 'static,
    ) -> Result<Self, Error> {
        Ok(Self)
    }
    pub(crate) fn observer(&self) -> Option<Box<dyn SessionObserver + Send>> {
        None
    }
    pub(crate) fn robot(&mut self, _: Time, _: &Told<RobotNote>) {}
    pub(crate) fn operator(&mut self, _: Time, _: &Told<OperatorNote>) {}
    pub(crate) fn finish(self, _: Option<Line>) {}
}
