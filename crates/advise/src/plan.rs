//! What the closed-form model says of a plan, and by which control law to touch over it.

use serde::Serialize;
use taut_core::{Duration, Probability};
use taut_lab::laws::{LawAdvice, Touching};
use taut_qos::model::{Plan, Prediction, SharedLinkError};

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Planned {
    /// Of the model.
    #[serde(flatten)]
    pub prediction: Prediction,
    /// By which control law, and how stiff a thing stays calm; absent where nothing is touched, and where the model does not say how much
    /// jitters or is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub laws: Option<LawAdvice>,
}

/// Where something is touched, a control law has to keep it calm over the longest round trip with the jitter and loss of the model.
///
/// # Errors
/// Where the model would divide by zero.
pub fn plan(plan: &Plan) -> Result<Planned, SharedLinkError> {
    let mut prediction = plan.predict()?;
    let Some(thing) = plan.touch else { return Ok(Planned { prediction, laws: None }) };
    let loss = prediction.loss.and_then(|lost| Probability::from_fraction(lost).ok());
    let (Some(jitter), Some(loss)) = (prediction.jitter_max_s, loss) else {
        let unknown = if prediction.jitter_max_s.is_none() { "the jitter" } else { "how much is lost" };
        let explanation =
            format!("the model does not say {unknown}, and no law is chosen without: simulate it");
        prediction.require_calm(None, explanation);
        return Ok(Planned { prediction, laws: None });
    };
    let touching = Touching {
        round_trips: prediction.round_trips(plan.delay),
        period: plan.period,
        jitter: Duration::from_secs_f64(jitter),
        loss,
        thing: Some(thing),
    };
    let laws = touching.advise();
    let by = laws.taken.as_ref().map_or_else(String::new, |law| format!("by {law}: "));
    prediction.require_calm(Some(laws.is_met()), format!("{by}{}", laws.why));
    Ok(Planned { prediction, laws: Some(laws) })
}
