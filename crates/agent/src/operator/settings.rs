//! How an operator's agent behaves.

use taut_core::Duration;

/// When an operator lets the robot move by itself. Whatever the policy: after an emergency stop, at either end and in this
/// session or an earlier one, only a person does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResumePolicy {
    /// Never: a person does, by [`OperatorCommand::Resume`](crate::OperatorCommand::Resume).
    #[default]
    Never,
    /// Once, when it has connected.
    Start,
    /// After every other stop: for measurements over links that fail. Not beside people.
    Always,
}

/// From when on the device is asked for samples. Whatever happens then, it goes on: a hand does not hold still because the robot
/// does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleFrom {
    /// The first time that the robot moves. What is made before is of no use to it, and a recording would be spent.
    #[default]
    Resumed,
    /// The first session, for measurements: also where the robot refuses to move.
    Connected,
}

/// How an operator's agent behaves.
///
/// | setting | default |
/// | --- | --- |
/// | [`limit`](Self::limit) | until the device ends |
/// | [`samples_from`](Self::samples_from) | the first resume |
/// | [`resumes`](Self::resumes) | never by itself |
/// | [`resumes_after`](Self::resumes_after) | at once |
/// | [`holds_to_run`](Self::holds_to_run) | the device's states say it |
/// | [`drains`](Self::drains) | 2 s |
/// | [`stays`](Self::stays) | says goodbye when it is done |
/// | [`reports_by_number`](Self::reports_by_number), [`reports_by_time`](Self::reports_by_time) | no reports |
#[derive(Clone, Copy, Debug)]
pub struct OperatorSettings {
    pub(super) period: Duration,
    pub(super) limit: Option<u64>,
    pub(super) from: SampleFrom,
    pub(super) policy: ResumePolicy,
    pub(super) resume_delay: Duration,
    pub(super) hold: Option<Duration>,
    pub(super) drain: Duration,
    pub(super) stays: bool,
    pub(super) report_messages: Option<u64>,
    pub(super) report_period: Option<Duration>,
}

impl OperatorSettings {
    /// Long enough to hear of what can still be of use.
    pub const DRAIN: Duration = Duration::from_secs(2);

    /// An operator whose device is asked every `period`, at least 1 µs, for its next sample.
    pub fn new(period: Duration) -> Self {
        Self {
            period: period.max(Duration::from_micros(1)),
            limit: None,
            from: SampleFrom::default(),
            policy: ResumePolicy::default(),
            resume_delay: Duration::ZERO,
            hold: None,
            drain: Self::DRAIN,
            stays: false,
            report_messages: None,
            report_period: None,
        }
    }

    /// How often the device is asked.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// It ends after so many samples that could be sent. Default: when the device has no more.
    pub fn limit(mut self, samples: u64) -> Self {
        self.limit = Some(samples);
        self
    }

    /// From when on the device is asked. Default: from the first resume on.
    pub fn samples_from(mut self, from: SampleFrom) -> Self {
        self.from = from;
        self
    }

    /// When it resumes by itself. Default: never.
    pub fn resumes(mut self, policy: ResumePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Where it resumes after every stop, so long after it is told of the stop. Default: at once.
    pub fn resumes_after(mut self, delay: Duration) -> Self {
        self.resume_delay = delay;
        self
    }

    /// The enabling input comes by [`OperatorCommand::Hold`](crate::OperatorCommand::Hold), each for so long. Default: with the
    /// device's states.
    pub fn holds_to_run(mut self, hold: Duration) -> Self {
        self.hold = Some(hold);
        self
    }

    /// Waits so long to know what became of every sample, when all were sent. Default [`Self::DRAIN`].
    pub fn drains(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// It says no goodbye when it is done: whoever runs it does. Default: it does.
    pub fn stays(mut self) -> Self {
        self.stays = true;
        self
    }

    /// Reports every so many samples sent; at least 1. Default: not.
    pub fn reports_by_number(mut self, samples: u64) -> Self {
        self.report_messages = Some(samples.max(1));
        self
    }

    /// Reports every so often; at least 1 ms. Default: not.
    pub fn reports_by_time(mut self, period: Duration) -> Self {
        self.report_period = Some(period.max(Duration::from_millis(1)));
        self
    }
}
