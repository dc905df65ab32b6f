//! Runs of the lab.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use taut_advise::evidence::Evidence;
use taut_advise::plan::plan as planned;
use taut_advise::recommend::{Question, recommend as decide};
use taut_agent::{Coupling, OperatorDevice, RobotDevice};
use taut_core::Seed;
use taut_lab::job;
use taut_lab::run::{Devices, run_devices};
use taut_lab::scenario::{LawSpec, Scenario, Setting};
use taut_qos::model::Plan;
use taut_session::Codec;

use crate::control::PyControl;
use crate::device::check_methods;
use crate::error::{Error, SettingError};
use crate::simulated::{SimulatedOperator, SimulatedRobot, World};
use crate::state::PyLimits;

/// What to run, and who is at its ends.
#[derive(FromPyObject)]
pub(crate) struct Run<'py> {
    scenario: PathBuf,
    seed: u64,
    settings: Vec<String>,
    variant: Option<String>,
    robot: Option<Bound<'py, PyAny>>,
    operator: Option<Bound<'py, PyAny>>,
    limits: Option<PyRef<'py, PyLimits>>,
    control: Option<PyControl>,
}

/// Simulates a scenario; what `run.json` of the command `taut run` holds.
#[pyfunction]
pub(crate) fn run(py: Python<'_>, run: Run<'_>) -> PyResult<Vec<u8>> {
    let mut one = scenario(&run.scenario, &run.settings, run.variant.as_deref())?;
    if let Some(robot) = &run.robot {
        check_methods(robot, "a robot", &["apply(state, lease)", "measure()", "stop(cause)"])?;
    }
    if let Some(operator) = &run.operator {
        check_methods(operator, "an operator", &["sample()", "feel(state)", "lost()"])?;
    }
    let coupling = run.control.map(|control| coupled(&mut one, &control)).transpose()?.flatten();
    let limits = run.limits.as_ref().map(|limits| limits.of_session()).transpose()?;
    let (robot, operator) = (run.robot.map(Bound::unbind), run.operator.map(Bound::unbind));
    let (seed, path) = (Seed::new(run.seed), &run.scenario);
    py.detach(|| {
        let world = World::default();
        let devices = Devices {
            robot: robot
                .map(|robot| Box::new(SimulatedRobot::new(robot, world.clone())) as Box<dyn RobotDevice>),
            operator: operator
                .map(|it| Box::new(SimulatedOperator::new(it, world.clone())) as Box<dyn OperatorDevice>),
            limits,
            coupling,
            clock: world.clock.clone(),
        };
        let mut goes_on = |_| match world.call(|py| py.check_signals()) {
            Some(()) => ControlFlow::Continue(()),
            None => ControlFlow::Break(()),
        };
        let done = run_devices(&one, seed, devices, &mut goes_on);
        if let Some(raised) = world.raised() {
            return Err(raised);
        }
        let of_run = |error: taut_lab::run::RunError| Error::new_err(error.within(path).to_string());
        let result = done.map_err(of_run)?.expect("only what is raised breaks a run off");
        job::run_json(&result).map_err(of_run)
    })
}

/// Both ends by this law, and not by the scenario's.
fn coupled(scenario: &mut Scenario, control: &PyControl) -> PyResult<Option<Coupling>> {
    let wrong = |why: &dyn std::fmt::Display| SettingError::new_err(format!("control: {why}"));
    let teleop = scenario.teleop.as_mut().ok_or_else(|| wrong(&"the scenario has no `[teleop]` session"))?;
    (teleop.law, teleop.playout) = (LawSpec::PositionForce, None);
    let coupling = control.of_end()?.coupling(teleop.turns).map_err(|why| wrong(&why))?;
    match (&coupling, teleop.codec) {
        (Some(_), Codec::Omni71) => {
            Err(wrong(&"needs `codec = \"native\"`: omni71 has no place for a law's energy"))
        }
        _ => Ok(coupling),
    }
}

fn scenario(path: &Path, settings: &[String], variant: Option<&str>) -> PyResult<Scenario> {
    let wrong = |why: &dyn std::fmt::Display| SettingError::new_err(format!("{}: {why}", path.display()));
    let settings = parsed(settings).map_err(|why| wrong(&why))?;
    let read = Scenario::read(path).map_err(|why| SettingError::new_err(why.to_string()))?;
    let mut variants = read.expand().map_err(|why| wrong(&why))?;
    if let Some(name) = variant {
        variants.retain(|(variant, _)| variant.name == name);
    }
    let [(_, one)] = variants.as_slice() else {
        let all: Vec<String> = read.all_variants().into_iter().map(|variant| variant.name).collect();
        return Err(wrong(&format!("name one of its variants by `variant`: {}", all.join("; "))));
    };
    one.with(&settings).map_err(|why| wrong(&why))
}

pub(crate) fn parsed(settings: &[String]) -> Result<Vec<Setting>, String> {
    settings.iter().map(|text| text.parse()).collect()
}

/// What the model says of a plan: the JSON of `taut plan --json`, from what was asked as JSON.
#[pyfunction]
pub(crate) fn plan(py: Python<'_>, asked: &str) -> PyResult<Vec<u8>> {
    let asked: Plan = serde_json::from_str(asked).map_err(wrong_option)?;
    let said = py.detach(|| planned(&asked));
    said.map_err(|why| SettingError::new_err(why.to_string())).and_then(|said| json(&said))
}

/// Which transport: the JSON of `taut recommend --json`, in the same way.
#[pyfunction]
pub(crate) fn recommend(py: Python<'_>, asked: &str) -> PyResult<Vec<u8>> {
    let question: Question = serde_json::from_str(asked).map_err(wrong_option)?;
    let need = question.need(str::to_owned).map_err(SettingError::new_err)?;
    py.detach(|| {
        let evidence = Evidence::shipped().map_err(|why| Error::new_err(why.to_string()))?;
        json(&decide(&evidence, &need).with_laws())
    })
}

fn json(said: &impl serde::Serialize) -> PyResult<Vec<u8>> {
    serde_json::to_vec(said).map_err(|why| Error::new_err(why.to_string()))
}

/// Without the place in a text that nobody wrote.
fn wrong_option(why: serde_json::Error) -> PyErr {
    let text = why.to_string();
    SettingError::new_err(text.split(" at line ").next().unwrap_or_default().to_owned())
}
