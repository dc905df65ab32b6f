//! From the scenario's words to links.

use taut_core::{Bitrate, Bytes, Duration, Probability, Rng, Seed, Time};
use taut_link::frame_gate::FrameGate;
use taut_link::{
    Bottleneck, Chain, Corrupt, Cut, Delay, Distribution as Shape, Duplicate, Element, GilbertElliott,
    Jitter, JitterConfig, Loss, Luck, MahimahiTrace, PathRecording, Rate, Recorded, RecordedConfig, Schedule,
};
use taut_sim::{Network, VertexId};
use taut_trace::{Data, Impairment};

use super::inputs::{Inputs, RunError};
use super::queues::queue;
use crate::scenario::{
    Distribution, ElementSpec, JitterSpec, JitterTableSpec, LinkSpec, LossSpec, RecordedSpec, RecordedWay,
    Scenario, ServerSpec, TableSpec,
};

/// What a link can tell about itself, by the number of the link.
#[derive(Clone, Debug)]
pub(super) struct LinkInfo {
    pub(super) name: String,
    /// Of its only server, when it is constant.
    pub(super) rate: Option<Bitrate>,
    /// Of its first server.
    pub(super) queue_limit: Option<Bytes>,
}

/// Adds all vertices and links; returns the links in the order of their numbers.
pub(super) fn add(
    network: &mut Network,
    scenario: &Scenario,
    seed: Seed,
    inputs: &mut Inputs,
) -> Result<Vec<LinkInfo>, RunError> {
    for vertex in scenario.vertices() {
        network.vertex(vertex);
    }
    let slot = super::commands::slot(scenario);
    let mut infos = Vec::new();
    let mut one = |network: &mut Network, way: Direction<'_>, key: &str, chain: &[ElementSpec]| {
        let find = |end: &str| network.find(end).expect("every end is a vertex");
        let (from, to): (VertexId, VertexId) = (find(way.from), find(way.to));
        let link = build_chain(chain, &way, key, seed, slot, inputs)?;
        infos.push(LinkInfo {
            rate: constant_rate(chain),
            queue_limit: servers(chain).find_map(|server| server.queue.bytes),
            name: way.label.clone(),
        });
        network.link(way.label, from, to, link);
        Ok::<(), RunError>(())
    };
    for (name, link) in &scenario.links {
        for way in directions(name, link) {
            one(network, way, &format!("links.{name}"), &link.chain)?;
        }
    }
    for (name, lan) in &scenario.lans {
        for host in 1..=lan.hosts {
            let vertex = format!("{name}/{host}");
            let key = format!("lans.{name}");
            one(network, Direction::new("", &vertex, name), &key, &lan.chain)?;
            one(network, Direction { back: true, ..Direction::new("", name, &vertex) }, &key, &lan.chain)?;
        }
    }
    Ok(infos)
}

/// One of the ways of a link in a scenario.
#[derive(Clone, Debug)]
pub(super) struct Direction<'a> {
    /// What it is called in results.
    pub(super) label: String,
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    /// The second one of two.
    back: bool,
}

impl<'a> Direction<'a> {
    fn new(prefix: &str, from: &'a str, to: &'a str) -> Self {
        Self { label: format!("{prefix}{from} → {to}"), from, to, back: false }
    }

    pub(super) fn leads(&self, from: &str, to: &str) -> bool {
        (self.from, self.to) == (from, to)
    }
}

/// The one or two links that a link in a scenario stands for.
pub(super) fn directions<'a>(name: &str, link: &'a LinkSpec) -> Vec<Direction<'a>> {
    let prefix = format!("{name}: ");
    match (&link.between, &link.from, &link.to) {
        (Some([a, b]), ..) => {
            vec![Direction::new(&prefix, a, b), Direction { back: true, ..Direction::new(&prefix, b, a) }]
        }
        (None, Some(from), Some(to)) => vec![Direction::new(&prefix, from, to)],
        _ => Vec::new(),
    }
}

fn servers(chain: &[ElementSpec]) -> impl Iterator<Item = &ServerSpec> {
    chain.iter().filter_map(|element| match element {
        ElementSpec::Server(server) => Some(&**server),
        _ => None,
    })
}

fn constant_rate(chain: &[ElementSpec]) -> Option<Bitrate> {
    let mut servers = servers(chain);
    let only = servers.next()?.rate;
    if servers.next().is_none() { only } else { None }
}

/// With a `slot`, what is random and independent from packet to packet is that of the slot in which a packet was sent.
pub(super) fn build_chain(
    chain: &[ElementSpec],
    way: &Direction<'_>,
    key: &str,
    seed: Seed,
    slot: Option<Duration>,
    inputs: &mut Inputs,
) -> Result<Chain, RunError> {
    let elements = chain.iter().enumerate().map(|(i, spec)| {
        let rng = seed.stream(&format!("link/{}/{i}", way.label));
        element(spec, way.back, rng, slot, inputs).map_err(|fault| {
            let ElementFault { kind, message } = fault;
            RunError::key(format!("{key}.chain.{i}.{kind}"), message)
        })
    });
    Ok(Chain::new(elements.collect::<Result<Vec<Element>, RunError>>()?))
}

/// Which key of an element is at fault, and why.
struct ElementFault {
    kind: &'static str,
    message: String,
}

fn element(
    spec: &ElementSpec,
    back: bool,
    mut rng: Rng,
    slot: Option<Duration>,
    inputs: &mut Inputs,
) -> Result<Element, ElementFault> {
    let at = |kind| move |message| ElementFault { kind, message };
    let luck = |rng: Rng| slot.map_or_else(|| rng.clone().into(), |slot| Luck::of_slots(rng.clone(), slot));
    Ok(match spec {
        ElementSpec::Server(server) => {
            Bottleneck::new(rate(server, inputs)?, queue(&server.queue, &mut rng)).into()
        }
        ElementSpec::Delay(delay) => Delay::new(*delay).into(),
        ElementSpec::DelayTable(table) => {
            Delay::new(delays(table, inputs).map_err(at("delay_table.file"))?).into()
        }
        ElementSpec::Jitter(jitter) => Element::from(self::jitter(jitter, luck(rng)).map_err(at("jitter"))?),
        ElementSpec::JitterTable(table) => {
            jitter_table(table, luck(rng), inputs).map_err(at("jitter_table.file"))?.into()
        }
        ElementSpec::Loss(LossSpec::Bernoulli(p)) => Loss::bernoulli(*p, luck(rng)).into(),
        ElementSpec::Loss(LossSpec::GilbertElliott(ge)) => {
            let parameters = GilbertElliott { p: ge.p, r: ge.r, loss_in_bad: ge.bad, loss_in_good: ge.good };
            Loss::gilbert_elliott(parameters, rng).into()
        }
        ElementSpec::LossTable(table) => {
            Loss::bernoulli(losses(table, inputs).map_err(at("loss_table.file"))?, luck(rng)).into()
        }
        ElementSpec::Recorded(spec) => {
            recorded(spec, back, luck(rng), inputs).map_err(at("recorded.file"))?.into()
        }
        ElementSpec::Duplicate(p) => Duplicate::new(*p, rng).into(),
        ElementSpec::Corrupt(p) => Corrupt::new(*p, luck(rng)).into(),
        ElementSpec::Cut(cut) => {
            let gate = Cut::at(Time::ZERO + cut.at);
            match cut.until {
                Some(until) => gate.lasting(until.saturating_sub(cut.at)).into(),
                None => gate.into(),
            }
        }
        ElementSpec::Gate(gate) => FrameGate::new(vec![gate.filter()], *gate).into(),
    })
}

fn rate(server: &ServerSpec, inputs: &mut Inputs) -> Result<Rate, ElementFault> {
    if let Some(name) = &server.mahimahi {
        let fault = |message| ElementFault { kind: "server.mahimahi", message };
        let bytes = inputs.read(name).map_err(|e| fault(e.to_string()))?;
        let text =
            std::str::from_utf8(&bytes).map_err(|_| fault(format!("{name}: this is not UTF-8 text")))?;
        let trace = MahimahiTrace::parse(text).map_err(|e| fault(format!("{name}: {e}")))?;
        return Ok(trace.into());
    }
    if let Some(rows) = &server.rate_table {
        let first = rows.first().map(|row| row.rate).unwrap_or_default();
        let cells = rows.iter().map(|row| (row.at, Some(row.rate)));
        let schedule = Schedule::column(first, cells);
        let fault = |message| ElementFault { kind: "server.rate_table", message };
        return Ok(schedule.map_err(|e| fault(e.to_string()))?.into());
    }
    Ok(server.rate.unwrap_or_default().into())
}

fn shape(distribution: Distribution) -> Shape {
    match distribution {
        Distribution::Uniform => Shape::Uniform,
        Distribution::Normal => Shape::Normal,
        Distribution::Pareto => Shape::Pareto,
    }
}

fn jitter_table(spec: &JitterTableSpec, luck: Luck, inputs: &mut Inputs) -> Result<Jitter, String> {
    let table = TableSpec { file: spec.file.clone(), every: spec.every };
    let spread = schedule(&table, "jitter", inputs, |row| row.jitter)?;
    let config = JitterConfig::new(spread)
        .mean(delays(&table, inputs)?)
        .distribution(shape(spec.distribution))
        .reorder(spec.reorder);
    Jitter::new(config, luck).map_err(|e| e.to_string())
}

/// `back`: its link is the second direction of two.
fn recorded(spec: &RecordedSpec, back: bool, luck: Luck, inputs: &mut Inputs) -> Result<Recorded, String> {
    let bytes = inputs.read(&spec.file).map_err(|e| e.to_string())?;
    let fault = |what: String| format!("{}: {what}", spec.file);
    let text = std::str::from_utf8(&bytes).map_err(|_| fault("this is not UTF-8 text".to_owned()))?;
    let path = PathRecording::parse(text, &spec.path).map_err(|e| fault(e.to_string()))?;
    let back = spec.way.map_or(back, |way| way == RecordedWay::Back);
    let config = RecordedConfig::new(spec.every).back(back).later(spec.later).skip(spec.skip as usize);
    Ok(Recorded::new(path, config, luck))
}

fn jitter(spec: &JitterSpec, luck: Luck) -> Result<Jitter, String> {
    let config = JitterConfig::new(spec.spread)
        .mean(spec.mean)
        .distribution(shape(spec.distribution))
        .correlation(spec.correlation)
        .reorder(spec.reorder);
    Jitter::new(config, luck).map_err(|e| e.to_string())
}

fn delays(table: &TableSpec, inputs: &mut Inputs) -> Result<Schedule<Duration>, String> {
    schedule(table, "delay", inputs, |row| row.delay)
}

fn losses(table: &TableSpec, inputs: &mut Inputs) -> Result<Schedule<Probability>, String> {
    schedule(table, "packet_loss", inputs, |row| row.loss)
}

/// A column's values, each for `every`, over and over.
fn schedule<T: Copy>(
    table: &TableSpec,
    column: &str,
    inputs: &mut Inputs,
    of: impl Fn(&Impairment) -> Option<T>,
) -> Result<Schedule<T>, String> {
    let bytes = inputs.read(&table.file).map_err(|e| e.to_string())?;
    let recording = taut_trace::read_bytes(&table.file, &bytes).map_err(|e| e.to_string())?;
    let kind = recording.data().kind();
    let Data::Impairments(impairments) = recording.into_data() else {
        return Err(format!(
            "{}: holds {kind}; a table with start_time, stop_time and {column} is needed",
            table.file
        ));
    };
    let values: Vec<T> = impairments.rows().iter().filter_map(of).collect();
    if values.is_empty() {
        return Err(format!("{}: has no column {column}", table.file));
    }
    let period = table.every.saturating_mul(values.len() as u64);
    let steps = Schedule::steps(table.every, values);
    steps.and_then(|steps| steps.looping(period)).map_err(|e| format!("{}: {column}: {e}", table.file))
}
