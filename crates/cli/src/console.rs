//! `taut console`: the operator's end in a browser.

use std::fs::File;
use std::io::{Write, stdin};
use std::net::SocketAddrV4;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use clap::Args;
use taut_console::{Choice, Console, ConsoleConfig, INPUT_LEASE, Listening, Model, Offer};
use taut_core::Duration;
use taut_io::device::Buttons;
use taut_io::spawn_unprivileged;

use crate::Ended;
use crate::channels::model;
use crate::operator::{self, Steered};

/// The page's port, where nothing else is said.
pub(crate) const PORT: u16 = 4480;

#[derive(Args)]
#[group(skip)]
#[command(mut_arg("input", |input| input.hide(true)), mut_arg("columns", |columns| columns.hide(true)))]
#[command(mut_arg("tui", |tui| tui.hide(true)), mut_arg("commands", |commands| commands.hide(true)))]
#[command(mut_arg("repeat", |repeat| repeat.hide(true)), mut_arg("measure_video", |measure| measure.hide(true)))]
#[command(mut_arg("codec", |codec| codec.hide(true)))]
#[command(mut_arg("video", |video| video.help("Show the pictures of the robot's --video of this name: one, by which the page judges whether anybody sees the robot")))]
pub(crate) struct Arguments {
    /// Port of this host's loopback where the page is; 0: one that is free
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    port: u16,
    /// What the page holds counts for so long after it said so last, 100ms to 150ms; never longer than the robot's --max-age
    #[arg(long, value_name = "DURATION", default_value = "120ms", value_parser = input_lease)]
    input_lease: Duration,
    /// Show this model of the robot as its joints are: a URDF of boxes, cylinders and spheres. The robot tells its joints over a channel of --channels, JSON,
    /// whose name ends with measured_js; those that move by themselves, in the file's order
    #[arg(long, value_name = "FILE.urdf", requires = "channels")]
    model: Option<PathBuf>,
    /// Where the page's browser is elsewhere, behind a tunnel to that port: it speaks with this address, UDP, by WebTransport, and nothing waits for a packet that
    /// was lost of something else. The address is this host's as that browser reaches it; port 0: one that is free
    #[arg(long, value_name = "ADDRESS:PORT")]
    webtransport: Option<SocketAddrV4>,
    /// A network that whoever started this offers the page; the first one is in use. What it chooses, and the number of that, goes to standard
    /// input, which is a socket then
    #[arg(long, hide = true, value_name = "NAME")]
    offer_network: Vec<String>,
    /// A transport, in the same way
    #[arg(long, hide = true, value_name = "NAME")]
    offer_transport: Vec<String>,
    #[command(flatten)]
    operator: operator::Arguments,
}

fn input_lease(text: &str) -> Result<Duration, String> {
    let lease = crate::quantity::duration(text)?;
    if (INPUT_LEASE[0]..=INPUT_LEASE[1]).contains(&lease) {
        Ok(lease)
    } else {
        Err("is 100ms to 150ms: shorter ones lapse while a browser draws, longer ones move the robot after it hangs".to_owned())
    }
}

/// Says what is chosen to whoever started this.
fn chooser() -> Result<SyncSender<Choice>, String> {
    let mut owner = File::from(stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?);
    // A person chooses once in a while.
    let (choose, chosen) = sync_channel::<Choice>(1);
    let mut say = move || chosen.iter().try_for_each(|Choice { of, place }| writeln!(owner, "{of} {place}"));
    // Whoever offers something and is gone has no use for an answer.
    spawn_unprivileged("taut choices", || (), move || drop(say())).map_err(|error| error.to_string())?;
    Ok(choose)
}

/// With the channel on which the robot tells its joints.
fn shown(urdf: &Path, operator: &operator::Arguments) -> Result<Model, String> {
    let wrong = |why: &str| format!("--model {why}");
    let (text, joints) = model(urdf).map_err(|why| wrong(&why))?;
    let told = operator.joints().ok_or_else(|| {
        wrong("shows joints, and --channels has no channel to the operator, in JSON, whose name ends with measured_js")
    })?;
    Ok(Model { urdf: text, joints, told })
}

#[cfg(feature = "webtransport")]
fn elsewhere(pages: Listening, address: SocketAddrV4) -> Result<Listening, String> {
    pages.with_webtransport(address).map_err(|error| format!("--webtransport {address}: {error}"))
}

#[cfg(not(feature = "webtransport"))]
fn elsewhere(_: Listening, _: SocketAddrV4) -> Result<Listening, String> {
    Err("--webtransport: this taut is built without it; with it by --features webtransport, and as a package"
        .to_owned())
}

pub(crate) fn console(arguments: &Arguments) -> Ended {
    arguments.operator.check_steered()?;
    let pictures = arguments.operator.pictures()?;
    if pictures.len() > 1 {
        return Err("a page shows the pictures of one --video: whoever drives goes by them".to_owned());
    }
    let mut token = [0; 16];
    getrandom::fill(&mut token).map_err(|error| format!("the system has no random numbers: {error}"))?;
    let offers = [("network", &arguments.offer_network), ("transport", &arguments.offer_transport)];
    let offers: Vec<_> = offers
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(of, names)| Offer { of, names: names.clone() })
        .collect();
    let config = ConsoleConfig {
        port: arguments.port,
        token: u128::from_be_bytes(token),
        input_lease: arguments.input_lease,
        // What is chosen is told beside what may be.
        title: if offers.is_empty() { arguments.operator.title() } else { "a simulated arm".to_owned() },
        pictures,
        sound: arguments.operator.has_sound(),
        model: arguments.model.as_deref().map(|urdf| shown(urdf, &arguments.operator)).transpose()?,
        choose: if offers.is_empty() { None } else { Some(chooser()?) },
        offers,
    };
    let buttons = Buttons::default();
    let (console, pages) = Console::listen(config, buttons.clone())
        .map_err(|error| format!("--port {}: {error}; --port 0 takes one that is free", arguments.port))?;
    let pages = match arguments.webtransport {
        Some(address) => elsewhere(pages, address)?,
        None => pages,
    };
    let steered = Steered {
        device: Box::new(console.device(arguments.operator.priority())),
        buttons,
        place: console.url(),
        serve: Box::new(move || pages.serve()),
        hear: Arc::new({
            let console = console.clone();
            move |age, samples| console.hear(age, samples)
        }),
        show: Box::new(move |line| console.tell(line)),
    };
    operator::run(&arguments.operator, Some(steered))
}
