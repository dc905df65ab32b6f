//! The network that a run was made over, in the few numbers by which a user describes his.

use serde::{Deserialize, Serialize};

use taut_lab::scenario::{Distribution, ElementSpec, LossSpec, Scenario, TcpSpec, TransportSpec};

/// A network between operator and robot, the worse of its two directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "[f64; 6]", from = "[f64; 6]")]
pub struct Condition {
    /// Packets lost, per cent.
    pub loss_percent: f64,
    /// How many are lost one after the other, in the mean; 1: each by itself.
    pub burst: f64,
    /// Propagation one way, the mean of the jitter included, in milliseconds.
    pub one_way_ms: f64,
    /// Standard deviation of the delay, in milliseconds.
    pub jitter_ms: f64,
    /// Rate of the narrowest link, in Mbit/s.
    pub rate_mbit: f64,
    /// Video is sent beside the session, from the robot.
    pub video: bool,
}

impl From<Condition> for [f64; 6] {
    fn from(c: Condition) -> Self {
        let video = f64::from(u8::from(c.video));
        [c.loss_percent, c.burst, c.one_way_ms, c.jitter_ms, c.rate_mbit, video]
    }
}

impl From<[f64; 6]> for Condition {
    fn from([loss_percent, burst, one_way_ms, jitter_ms, rate_mbit, video]: [f64; 6]) -> Self {
        Self { loss_percent, burst, one_way_ms, jitter_ms, rate_mbit, video: video > 0.5 }
    }
}

impl Condition {
    /// Of a scenario with one `[teleop]` session over direct links.
    ///
    /// # Errors
    /// What of the scenario these numbers cannot say.
    pub fn of(scenario: &Scenario) -> Result<Self, String> {
        let teleop = scenario.teleop.as_ref().ok_or("there is no [teleop] session")?;
        let ends = (teleop.operator.as_str(), teleop.robot.as_str());
        let there = one_way(scenario, ends.0, ends.1)?;
        let back = one_way(scenario, ends.1, ends.0)?;
        let video = !scenario.cross.is_empty();
        Ok(Self {
            loss_percent: there.loss_percent.max(back.loss_percent),
            burst: there.burst.max(back.burst),
            one_way_ms: there.one_way_ms.max(back.one_way_ms),
            jitter_ms: there.jitter_ms.max(back.jitter_ms),
            rate_mbit: there.rate_mbit.min(back.rate_mbit),
            video,
        })
    }
}

fn one_way(scenario: &Scenario, from: &str, to: &str) -> Result<Condition, String> {
    let leads = |link: &&taut_lab::scenario::LinkSpec| {
        let directed = link.from.as_deref() == Some(from) && link.to.as_deref() == Some(to);
        directed || link.between.as_ref().is_some_and(|ends| ends.iter().all(|end| end == from || end == to))
    };
    let link = scenario.links.values().find(leads);
    let link = link.ok_or_else(|| format!("no link leads from {from} to {to} directly"))?;
    let mut found = Condition {
        loss_percent: 0.0,
        burst: 1.0,
        one_way_ms: 0.0,
        jitter_ms: 0.0,
        rate_mbit: f64::INFINITY,
        video: false,
    };
    for element in &link.chain {
        add(&mut found, element)?;
    }
    if found.rate_mbit.is_infinite() {
        return Err(format!("the link from {from} to {to} has no server with a constant rate"));
    }
    Ok(found)
}

fn add(found: &mut Condition, element: &ElementSpec) -> Result<(), String> {
    match element {
        ElementSpec::Server(server) => match server.rate {
            Some(rate) => found.rate_mbit = found.rate_mbit.min(rate.as_bps() as f64 / 1e6),
            None => return Err("a server has no constant rate".into()),
        },
        ElementSpec::Delay(delay) => found.one_way_ms += delay.as_millis_f64(),
        ElementSpec::Jitter(jitter) if jitter.distribution == Distribution::Normal => {
            found.one_way_ms += jitter.mean.as_millis_f64();
            found.jitter_ms += jitter.spread.as_millis_f64();
        }
        ElementSpec::Loss(LossSpec::Bernoulli(loss)) => found.loss_percent += loss.as_fraction() * 100.0,
        ElementSpec::Loss(LossSpec::GilbertElliott(loss)) => {
            let (p, r) = (loss.p.as_fraction(), loss.r.as_fraction());
            if loss.bad.as_fraction() < 1.0 || loss.good.as_fraction() > 0.0 || p + r <= 0.0 {
                return Err("bursts are those in which all is lost: bad = 100%, good = 0%".into());
            }
            // To the digits that the parameters themselves were rounded to.
            let round = |x: f64| (x * 1e3).round() / 1e3;
            found.loss_percent += round(100.0 * p / (p + r));
            found.burst = found.burst.max(round(1.0 / r));
        }
        other => return Err(format!("{other:?} is not among loss, delay, normal jitter and rate")),
    }
    Ok(())
}

/// What carried a session, as `taut robot` and `taut operator` name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Carrier {
    /// `"quic"`.
    pub transport: String,
    /// States that are lost are repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reliable: bool,
    /// DCCP's congestion control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ccid: Option<u8>,
}

impl Carrier {
    /// Of a scenario with a `[teleop]` session.
    ///
    /// # Errors
    /// When there is none, it is in plain text, or its transport has other settings than those that are shipped.
    pub fn of(scenario: &Scenario) -> Result<Self, String> {
        let teleop = scenario.teleop.as_ref().ok_or("there is no [teleop] session")?;
        if !teleop.secure {
            return Err("the session is in plain text; evidence is of what is shipped".into());
        }
        shipped(&teleop.transport)?;
        let ccid = match teleop.transport {
            TransportSpec::Dccp(dccp) => Some(dccp.ccid),
            _ => None,
        };
        let transport = teleop.transport.name().to_owned();
        Ok(Self { transport, reliable: teleop.reliable, ccid })
    }

    /// Who else speaks it: 0 where others' programs do, on every system; 1 where few do; 2 where next to nobody does. What is only
    /// ours around it, Noise and the session, all carriers have alike.
    pub fn rarity(&self) -> u8 {
        match self.transport.as_str() {
            "udp" | "tcp" | "quic" => 0,
            "sctp" => 1,
            // ETP has its authors' program; DCCP went out of Linux in 6.16.
            _ => 2,
        }
    }

    /// `"QUIC datagrams"`.
    pub fn name(&self) -> String {
        match (self.transport.as_str(), self.reliable, self.ccid) {
            ("quic", true, _) => "QUIC streams".into(),
            ("quic", false, _) => "QUIC datagrams".into(),
            ("sctp", true, _) => "SCTP reliable".into(),
            ("sctp", false, _) => "SCTP unreliable".into(),
            ("dccp", _, Some(ccid)) => format!("DCCP {ccid}"),
            (other, ..) => other.to_uppercase(),
        }
    }
}

/// Has it the settings that `taut robot` and `taut operator` give it? What else was measured speaks of a transport that nobody
/// can take.
fn shipped(transport: &TransportSpec) -> Result<(), String> {
    let name = transport.name();
    // Of several paths there is evidence from commands.
    let ships = TransportSpec::shipped(name).filter(|ships| !ships.is_multipath());
    let is = match (*transport, ships) {
        // The kernel's, whose congestion control is the system's choice.
        (TransportSpec::Tcp(tcp), Some(TransportSpec::Tcp(linux))) => {
            TcpSpec { congestion: linux.congestion, ..tcp } == linux
        }
        (TransportSpec::Dccp(_), Some(_)) => true,
        (_, ships) => Some(*transport) == ships,
    };
    let settings = match (transport, ships) {
        (TransportSpec::Tcp(_), _) => {
            "{ tcp = { counted = \"segments\", rack = true, timestamps = true, min_rto = \"200ms\" } }"
                .to_owned()
        }
        (TransportSpec::Etp(_), _) => "{ etp = { pack = true } }".to_owned(),
        (_, Some(_)) => format!("\"{name}\""),
        (_, None) => "none, but for [commands]".to_owned(),
    };
    let wrong =
        || format!("{name} has settings that do not ship; evidence is of what is shipped: {settings}");
    if is { Ok(()) } else { Err(wrong()) }
}
