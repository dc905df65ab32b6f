//! `--set` and its abbreviations, and arguments that are not right.

use crate::world::{SCENARIO, World, assert_lines};

/// Two flows of one kind, so that abbreviations can be ambiguous.
fn two_flows() -> String {
    SCENARIO.to_owned()
        + r#"
[cross.hum]
from = "b"
to = "a"
traffic = { cbr = { rate = "2Mbit", packet = "150B" } }
"#
}

fn printed(world: &World, settings: &[&str]) -> toml::Table {
    let mut command = world.command("run s.toml --print");
    for setting in settings {
        command.args(["--set", setting]);
    }
    let ended = crate::world::ended(command.output().unwrap());
    assert_eq!((ended.status, ended.err.as_str()), (0, ""), "{settings:?}");
    ended.out.parse().unwrap()
}

#[test]
fn an_abbreviation_means_the_only_key_that_fits() {
    let world = World::new("set");
    world.write("s.toml", two_flows());
    let table = printed(&world, &["hum.rate=3.9Mbit", "links.rate=5Mbit", "delay=15ms", "duration=2s"]);
    assert_eq!(table["cross"]["hum"]["traffic"]["cbr"]["rate"].as_str(), Some("3.9Mbit"));
    assert_eq!(table["cross"]["noise"]["traffic"]["cbr"]["rate"].as_str(), Some("1Mbit"));
    assert_eq!(table["links"]["wire"]["chain"][0]["server"]["rate"].as_str(), Some("5Mbit"));
    assert_eq!(table["links"]["wire"]["chain"][1]["delay"].as_str(), Some("15ms"));
    assert_eq!(table["duration"].as_str(), Some("2s"));
}

#[test]
fn kinds_are_chosen_by_name_or_with_their_settings() {
    let world = World::new("set-kinds");
    world.write("s.toml", two_flows());
    let table = printed(&world, &["transport=tcp", "transport.tcp.sack=true"]);
    assert_eq!(table["session"]["transport"]["tcp"]["sack"].as_bool(), Some(true));
    let table = printed(&world, &["session.transport=tcp", "session.transport=etp", "etp.gap=2ms"]);
    assert_eq!(table["session"]["transport"]["etp"]["gap"].as_str(), Some("2ms"));
    let table = printed(&world, &["noise.traffic={ poisson = { rate = '1Mbit', packet = '99B' } }"]);
    assert_eq!(table["cross"]["noise"]["traffic"]["poisson"]["packet"].as_str(), Some("99B"));
    let table =
        printed(&world, &["links.wire.chain.2={ loss = { bernoulli = \"1%\" } }", "wire.loss.bernoulli=5%"]);
    assert_eq!(table["links"]["wire"]["chain"][2]["loss"]["bernoulli"].as_str(), Some("5%"));
    let table = printed(&world, &["links.wire.chain.1={ loss = { bernoulli = \"1%\" } }", "title=7"]);
    assert_eq!(table["links"]["wire"]["chain"][1]["loss"]["bernoulli"].as_str(), Some("1%"));
    assert_eq!(table["title"].as_str(), Some("7"));
}

#[test]
fn later_settings_win() {
    let world = World::new("set-order");
    world.write("s.toml", two_flows());
    let table = printed(&world, &["duration=2s", "duration=3s"]);
    assert_eq!(table["duration"].as_str(), Some("3s"));
}

#[test]
fn wrong_arguments_are_one_line_and_exit_status_2() {
    let world = World::new("arguments");
    world.write("s.toml", two_flows());
    world.write("package.json", "{}");
    world.good("run s.toml --set duration=100ms --out one");
    world.good("run s.toml --set duration=100ms --seeds 1..2 --out out");
    let before = world.hashes("");
    let wrong = [
        "run s.toml --set cross.rate=1Mbit",
        "run s.toml --set crosss.hum.rate=1Mbit",
        "run s.toml --set nothing=1",
        "run s.toml --set session.speed=1",
        "run s.toml --set nothing.like.this=1",
        "run s.toml --set links.rate=-6Mbit",
        "run s.toml --set links.rate=6",
        "run s.toml --set links.rate=nan",
        "run s.toml --set links.rate=0Mbit",
        "run s.toml --set links.wire.chain.7=1",
        "run s.toml --set wire.loss=5%",
        "run s.toml --set links.wire.chain.2={loss={bernoulli=5%}}",
        "run s.toml --set transport=carrier_pigeon",
        "run s.toml --set transport.tcp.congestion=bbr",
        "run s.toml --set transport.udp.gap=1ms",
        "run s.toml --set transport=3",
        "run s.toml --set links.wire.chain.1={loss={bernoulli=0.01}}",
        "run s.toml --set duration=0s",
        "run s.toml --set warmup=1s",
        "run s.toml --set count=-1",
        "run s.toml --set hum.count=0.5",
        "run s.toml --set operator=mars",
        "run s.toml --set rate",
        "run s.toml --set =1",
        "run s.toml --set a..b=1",
        "run s.toml --seeds 5..1",
        "run s.toml --seeds x",
        "run s.toml --seeds 1..99999",
        "run s.toml --seed -1",
        "run s.toml --seed 1 --seeds 1..2",
        "run s.toml --capture",
        "run s.toml --seeds 1..2 --samples",
        "run s.toml --seeds 1..2 --events --out out",
        "run s.toml --variant fast",
        "run s.toml --faster",
        "run none.toml",
        "run .",
        "run",
        "fly s.toml",
        "runn s.toml",
        "emulate s.toml --between a,b --every 0s",
        "emulate s.toml --between a,b --every 999us",
        "robot --every 0s",
        "operator --connect 127.0.0.1:4433 --every 0s",
        "operator --connect 127.0.0.1:4433 --every 1us",
        "plan --rate 6 --delay 8ms --buffer 14kB",
        "plan --rate 6Mbit --delay 8ms",
        "plan --rate 6Mbit --delay 8ms --buffer 14kB --cross udp",
        "plan --rate 6Mbit --delay 8ms --buffer 14kB --fps 0",
        "trace info none.csv",
        "trace convert s.toml out.csv",
        "replay none.json",
        "replay s.toml",
        "replay out/campaign.json",
        "replay out",
        "replay one",
        "run one/run.json",
        "run out/campaign.json",
        "run package.json",
    ];
    let told = wrong.map(|arguments| {
        let ended = world.taut(arguments);
        assert_eq!((ended.status, ended.out.as_str()), (2, ""), "taut {arguments}");
        assert_eq!(ended.err.lines().count(), 1, "taut {arguments}: {}", ended.err);
        format!("$ taut {arguments}\n{}", ended.err)
    });
    assert_lines(&told.concat(), EXPECTED);
    assert_eq!(world.hashes(""), before);
}

const EXPECTED: &str = r#"$ taut run s.toml --set cross.rate=1Mbit
taut: s.toml: --set cross.rate=1Mbit: `cross.rate` may be any of cross.hum.traffic.cbr.rate, cross.noise.traffic.cbr.rate; write more of the key, such as hum.rate=1Mbit
$ taut run s.toml --set crosss.hum.rate=1Mbit
taut: s.toml: --set crosss.hum.rate=1Mbit: no key `crosss.hum.rate` in this scenario; there is cross.hum.traffic.cbr.rate, cross.noise.traffic.cbr.rate, links.wire.chain.0.server.rate
$ taut run s.toml --set nothing=1
taut: s.toml: --set nothing=1: unknown key; allowed here: `title`, `description`, `duration`, `warmup`, `limits`, `drain`, `lans`, `links`, `session`, `teleop`, `commands`, `cross`, `model`, `variant`, `axis`
$ taut run s.toml --set session.speed=1
taut: s.toml: --set session.speed=1: unknown key; allowed here: `operator`, `robot`, `transport`, `window`, `forward`, `backward`
$ taut run s.toml --set nothing.like.this=1
taut: s.toml: --set nothing.like.this=1: no key `nothing.like.this` in this scenario; `--print` shows all that there are
$ taut run s.toml --set links.rate=-6Mbit
taut: s.toml: --set links.rate=-6Mbit: `-6Mbit` is not a rate; write a number of bit, kbit, Mbit or Gbit (per second) that is not negative, such as 6Mbit
$ taut run s.toml --set links.rate=6
taut: s.toml: --set links.rate=6: `6` is not a rate; write a number of bit, kbit, Mbit or Gbit (per second) that is not negative, such as 6Mbit
$ taut run s.toml --set links.rate=nan
taut: s.toml: --set links.rate=nan: `nan` is not a rate; write a number of bit, kbit, Mbit or Gbit (per second) that is not negative, such as 6Mbit
$ taut run s.toml --set links.rate=0Mbit
taut: s.toml: --set links.rate=0Mbit: links.wire.chain.0.server.rate: must be more than 0; use `cut` for a link that passes nothing
$ taut run s.toml --set links.wire.chain.7=1
taut: s.toml: --set links.wire.chain.7=1: `7` is not an index of the list: 0 is its first, 2 adds one at its end
$ taut run s.toml --set wire.loss=5%
taut: s.toml: --set wire.loss=5%: unknown key; allowed here: `between`, `from`, `to`, `chain`; to add one, write 'links.wire.chain.2={ loss = { bernoulli = "1%" } }'
$ taut run s.toml --set links.wire.chain.2={loss={bernoulli=5%}}
taut: invalid value 'links.wire.chain.2={loss={bernoulli=5%}}' for '--set <KEY=VALUE>': `{loss={bernoulli=5%}}` is not TOML; text in it needs quotes, and the shell others around all: 'links.wire.chain.2={ loss = { bernoulli = "1%" } }' (see --help)
$ taut run s.toml --set transport=carrier_pigeon
taut: s.toml: --set transport=carrier_pigeon: `carrier_pigeon` is not one of `udp`, `etp`, `tcp`, `quic`, `sctp`, `dccp`, `mtip`, `mptcp`, `mpquic`, `every_path`; it is now transport=udp
$ taut run s.toml --set transport.tcp.congestion=bbr
taut: s.toml: --set transport.tcp.congestion=bbr: no key `transport.tcp.congestion` in this scenario; it is now transport=udp
$ taut run s.toml --set transport.udp.gap=1ms
taut: s.toml: --set transport.udp.gap=1ms: no key `transport.udp.gap` in this scenario; there is session.backward.haptic.gap
$ taut run s.toml --set transport=3
taut: s.toml: --set transport=3: exactly one kind is needed, of `udp`, `etp`, `tcp`, `quic`, `sctp`, `dccp`, `mtip`, `mptcp`, `mpquic`, `every_path`; it is now transport=udp
$ taut run s.toml --set links.wire.chain.1={loss={bernoulli=0.01}}
taut: s.toml: --set links.wire.chain.1={ loss = { bernoulli = 0.01 } }: text in quotes is needed in it: "6Mbit", "8ms", "1%"; it is now links.wire.chain.1.delay=8ms
$ taut run s.toml --set duration=0s
taut: s.toml: --set duration=0s: duration: 0ns is not within 1ns to 86400s
$ taut run s.toml --set warmup=1s
taut: s.toml: --set warmup=1s: warmup: 1s is not less than the duration 1s
$ taut run s.toml --set count=-1
taut: s.toml: --set count=-1: `count` may be any of cross.hum.count, cross.noise.count; write more of the key, such as hum.count=-1
$ taut run s.toml --set hum.count=0.5
taut: s.toml: --set hum.count=0.5: `0.5` is not a whole number, 0 or more; it is now hum.count=1
$ taut run s.toml --set operator=mars
taut: s.toml: --set operator=mars: session.operator: no link leads to `mars`; there are a, b
$ taut run s.toml --set rate
taut: invalid value 'rate' for '--set <KEY=VALUE>': write KEY=VALUE, such as cross.rate=3.9Mbit (see --help)
$ taut run s.toml --set =1
taut: invalid value '=1' for '--set <KEY=VALUE>': `` is not a key; write KEY=VALUE, such as cross.rate=3.9Mbit (see --help)
$ taut run s.toml --set a..b=1
taut: invalid value 'a..b=1' for '--set <KEY=VALUE>': `a..b` is not a key; write KEY=VALUE, such as cross.rate=3.9Mbit (see --help)
$ taut run s.toml --seeds 5..1
taut: invalid value '5..1' for '--seeds <SEEDS>': 5..1 is not a range of at most 10000 seeds; write 1..20 (both included) or 1,5,9 (see --help)
$ taut run s.toml --seeds x
taut: invalid value 'x' for '--seeds <SEEDS>': `x` is not a seed; write 1..20 (both included) or 1,5,9 (see --help)
$ taut run s.toml --seeds 1..99999
taut: invalid value '1..99999' for '--seeds <SEEDS>': 1..99999 is not a range of at most 10000 seeds; write 1..20 (both included) or 1,5,9 (see --help)
$ taut run s.toml --seed -1
taut: unexpected argument '-1' found (see --help)
$ taut run s.toml --seed 1 --seeds 1..2
taut: the argument '--seed <SEED>' cannot be used with '--seeds <SEEDS>' (see --help)
$ taut run s.toml --capture
taut: --capture writes packets.pcapng to a folder; name it: taut run s.toml --capture --out out
$ taut run s.toml --seeds 1..2 --samples
taut: --samples writes samples.parquet to a folder; name it: taut run s.toml --samples --out out
$ taut run s.toml --seeds 1..2 --events --out out
taut: --capture, --events and --samples are for a single run: give one --seed and one --variant
$ taut run s.toml --variant fast
taut: s.toml: --variant fast: this scenario has no variants
$ taut run s.toml --faster
taut: unexpected argument '--faster' found (see --help)
$ taut run none.toml
taut: none.toml: there is no such file
$ taut run .
taut: .: this is a folder, a file is needed
$ taut run
taut: the following required arguments were not provided: <SCENARIO> (see --help)
$ taut fly s.toml
taut: unrecognized subcommand 'fly' (see --help)
$ taut runn s.toml
taut: unrecognized subcommand 'runn' (is it `run`?; see --help)
$ taut emulate s.toml --between a,b --every 0s
taut: invalid value '0s' for '--every <DURATION>': is told at most once in a millisecond: 1ms or longer (see --help)
$ taut emulate s.toml --between a,b --every 999us
taut: invalid value '999us' for '--every <DURATION>': is told at most once in a millisecond: 1ms or longer (see --help)
$ taut robot --every 0s
taut: invalid value '0s' for '--every <DURATION>': is told at most once in a millisecond: 1ms or longer (see --help)
$ taut operator --connect 127.0.0.1:4433 --every 0s
taut: invalid value '0s' for '--every <N|DURATION>': is told at most once in a millisecond: 1ms or longer (see --help)
$ taut operator --connect 127.0.0.1:4433 --every 1us
taut: invalid value '1us' for '--every <N|DURATION>': is told at most once in a millisecond: 1ms or longer (see --help)
$ taut plan --rate 6 --delay 8ms --buffer 14kB
taut: invalid value '6' for '--rate <RATE>': `6` is not a rate; write a number of bit, kbit, Mbit or Gbit (per second) that is not negative, such as 6Mbit (see --help)
$ taut plan --rate 6Mbit --delay 8ms
taut: the following required arguments were not provided: --buffer <BUFFER> (see --help)
$ taut plan --rate 6Mbit --delay 8ms --buffer 14kB --cross udp
taut: invalid value 'udp' for '--cross <FLOW,…>': `udp` is not a flow; write tcp[:SEGMENT[:ACK_EVERY]] or cbr:RATE[:PACKET] (see --help)
$ taut plan --rate 6Mbit --delay 8ms --buffer 14kB --fps 0
taut: invalid value '0' for '--fps <FPS>': 0 is not in 1..=1000 (see --help)
$ taut trace info none.csv
taut: none.csv: No such file or directory (os error 2)
$ taut trace convert s.toml out.csv
taut: s.toml: this is not CSV, MCAP, pcap, pcapng or mahimahi
$ taut replay none.json
taut: none.json: there is no such file
$ taut replay s.toml
taut: s.toml: is a scenario, not the run.json of a run; `taut run s.toml` runs it
$ taut replay out/campaign.json
taut: out/campaign.json: is the result of a campaign; replay one of its runs: `taut replay out/runs/01/seed-1.json`
$ taut replay out
taut: out: this is a folder, a file is needed
$ taut replay one
taut: one: this is a folder; `taut replay one/run.json`
$ taut run one/run.json
taut: one/run.json: is the result of a run, not a scenario; `taut replay one/run.json` runs it again
$ taut run out/campaign.json
taut: out/campaign.json: is the result of a campaign, not the scenario that was run
$ taut run package.json
taut: package.json: is JSON; a scenario is TOML
"#;
