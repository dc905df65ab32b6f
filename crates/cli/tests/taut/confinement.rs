//! What the commands keep to themselves: plaintext, secrets, privileges; and what they leave behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use taut_netlab::Namespace;

use crate::sessions::{Running, signal};
use crate::world::{World, ended};

#[test]
fn plaintext_is_refused_beyond_loopback_unless_it_is_asked_for_there_too() {
    let world = World::new("plaintext-far");
    for arguments in [
        "robot --listen 0.0.0.0:0 --plaintext --transport udp",
        "robot --listen [::]:0 --plaintext --transport tcp",
        "robot --listen 127.0.0.1:0 --plaintext --transport mtip --path eth0",
        "operator --connect 192.0.2.1:9 --plaintext --transport udp",
        "operator --connect 127.0.0.1:9 --plaintext --transport mtip --path 192.0.2.1",
        "proxy --listen 0.0.0.0:0 --to udp:127.0.0.1:9 --plaintext",
        "proxy --listen udp:0 --to 192.0.2.1:9 --plaintext",
    ] {
        let ended = world.taut(arguments);
        assert_eq!(ended.status, 2, "taut {arguments}: {ended:?}");
        let last = ended.err.lines().last().unwrap();
        assert!(last.contains("--plaintext-anywhere"), "taut {arguments}: {last}");
    }
    let anywhere = "robot --listen 0.0.0.0:0 --plaintext-anywhere --transport udp --json";
    let mut robot = Running::start(world.command(anywhere));
    robot.wait_for("listening");
    assert_eq!(robot.end("-TERM").0, 0);
    let id = world.taut("identity --path id").out.trim().to_owned();
    let both = world.taut(&format!("robot --listen 127.0.0.1:0 --plaintext-anywhere --trust {id}"));
    assert!(both.status == 2 && both.err.contains("cannot be used with"), "{both:?}");
}

#[test]
fn an_identity_whose_making_is_interrupted_is_not_there_and_made_the_next_time() {
    let world = World::new("identity-interrupted");
    let identity = world.command("identity --path keys/me");
    // The first byte that it writes into a file ends it (SIGXFSZ, setrlimit(2)).
    let mut interrupted = Command::new("sh");
    interrupted.args(["-c", "ulimit -f 0; exec \"$0\" \"$@\""]).arg(identity.get_program());
    interrupted.args(identity.get_args()).current_dir(identity.get_current_dir().unwrap());
    let status = interrupted.output().unwrap().status;
    assert!(!status.success(), "{status}");
    assert_eq!(fs::read_dir(world.path("keys")).unwrap().count(), 0, "something is left");
    assert!(world.taut("identity --path keys/me").out.starts_with("taut:"));
}

#[test]
fn an_identity_that_others_can_replace_is_refused() {
    let world = World::new("identity-others");
    let id = world.taut("identity --path keys/me").out;
    fs::set_permissions(world.path("keys"), PermissionsExt::from_mode(0o777)).unwrap();
    let robot = "robot --listen 127.0.0.1:0 --identity keys/me --trust";
    for arguments in ["identity --path keys/me", "identity --path keys/new", &format!("{robot} {id}")] {
        let refused = world.taut(arguments);
        assert_eq!((refused.status, refused.err.lines().count()), (2, 1), "{refused:?}");
        assert!(refused.err.contains("others can write in keys"), "{}", refused.err);
    }
    assert!(!world.path("keys/new").exists());
    fs::set_permissions(world.path("keys"), PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!(world.good("identity --path keys/me"), id);
    if let Err(error) = std::os::unix::fs::chown(world.path("keys/me"), Some(65_534), None) {
        println!("skipped: {error}");
        return;
    }
    let refused = world.taut("identity --path keys/me");
    assert!(refused.status == 2 && refused.err.contains("belongs to user 65534"), "{refused:?}");
}

#[test]
fn what_a_file_says_does_not_steer_the_terminal() {
    let world = World::new("steering");
    world.write("a.csv", "time_s,x\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}end\n0,1\n0.001,2\n0.002,3\n");
    world.write("title.toml", crate::world::SCENARIO.replace("\"t\"", "\"t\u{202e}\u{200b}\""));
    world.write("key.toml", "\"\u{1b}[2J\u{9b}31m\" = 1\n");
    let name = "no\u{1b}]0;such\u{7}file.csv";
    for (arguments, told) in [
        (&["trace", "info", "a.csv"][..], r"x\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}end"),
        (&["trace", "info", "a.csv", "--json"], r"x\u001b]0;owned\u0007\u009b31m\u202eend"),
        (&["trace", "info", name], r"no\u{1b}]0;such\u{7}file.csv"),
        (&["run", "key.toml"], r"\u{1b}[2J\u{9b}31m"),
        (&["run", "title.toml"], r"t\u{202e}\u{200b} (seed 1"),
        (&["run", "title.toml", "--set", name], "invalid value"),
        (&["operator", "--connect", name, "--plaintext"], r"no\u{1b}]0;such\u{7}file.csv"),
    ] {
        let ended = ended(world.command("").args(arguments).output().unwrap());
        let said = format!("{}{}", ended.out, ended.err);
        assert!(said.contains(told), "taut {arguments:?}: {said}");
        let harmless = |character| character == '\n' || taut_core::is_harmless(character);
        assert!(said.chars().all(harmless), "taut {arguments:?}: {said:?}");
    }
}

/// A robot with the identity `me`, and what that file says.
fn robot_with_a_secret(world: &World) -> (Command, String) {
    let id = world.taut("identity --path me").out.trim().to_owned();
    let secret = fs::read_to_string(world.path("me")).unwrap().trim().to_owned();
    let robot = "robot --listen 127.0.0.1:0 --transport udp --json --identity";
    (world.command(&format!("{robot} me --trust {id}")), secret)
}

#[test]
fn the_text_of_a_secret_does_not_stay_in_memory() {
    let world = World::new("identity-memory");
    let (robot, secret) = robot_with_a_secret(&world);
    let mut robot = Running::start(robot);
    robot.wait_for("listening");
    let process = format!("/proc/{}", robot.pid());
    let memory = match fs::File::open(format!("{process}/mem")) {
        Ok(memory) => memory,
        Err(error) => {
            println!("skipped: {error}");
            return;
        }
    };
    // Its end: whatever took its place in memory may have overwritten where it began.
    let secret = &secret[secret.len() - 24..];
    let (mut looked_at, mut found) = (0, 0);
    for line in fs::read_to_string(format!("{process}/maps")).unwrap().lines() {
        let Some((range, rest)) = line.split_once(' ') else { continue };
        let (from, to) = range.split_once('-').unwrap();
        let [from, to] = [from, to].map(|text| u64::from_str_radix(text, 16).unwrap());
        let mut bytes = vec![0; usize::try_from(to - from).unwrap().min(64 << 20)];
        if rest.starts_with("rw") && memory.read_exact_at(&mut bytes, from).is_ok() {
            looked_at += bytes.len();
            found += bytes.windows(secret.len()).filter(|window| *window == secret.as_bytes()).count();
        }
    }
    assert!(looked_at > 100_000, "{looked_at} bytes of memory");
    assert_eq!(found, 0, "the secret is in {looked_at} bytes of memory");
}

#[test]
fn who_holds_a_secret_leaves_no_core_and_shows_its_memory_to_nobody() {
    let world = World::new("identity-core");
    let (mut robot, _) = robot_with_a_secret(&world);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        // What belongs to root tells nothing: a user that is nobody, with an identity of his own.
        let nobody = Some(65_534);
        for path in ["", "me"] {
            std::os::unix::fs::chown(world.path(path), nobody, nobody).unwrap();
        }
        robot.uid(65_534).gid(65_534);
        if robot.arg("--help").output().map_or(true, |output| !output.status.success()) {
            println!("skipped: another user cannot start the program where it is");
            return;
        }
        let id = world.taut("identity --path other/me").out.trim().to_owned();
        robot = world.command(&format!(
            "robot --listen 127.0.0.1:0 --transport udp --json --identity me --trust {id}"
        ));
        robot.uid(65_534).gid(65_534);
    }
    let mut robot = Running::start(robot);
    robot.wait_for("listening");
    let process = format!("/proc/{}", robot.pid());
    let limits = fs::read_to_string(format!("{process}/limits")).unwrap();
    let core: Vec<&str> = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max core file size"))
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(core, ["0", "0", "bytes"]);
    // Of a process that is not to be dumped, /proc belongs to root (proc(5)).
    assert_eq!(fs::metadata(format!("{process}/status")).unwrap().uid(), 0);
}

/// What each thread of a process may do, as a mask (capabilities(7)); all of them have given up to become more.
pub(crate) fn capabilities(pid: u32) -> Vec<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_one = |status: String| {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        let name = status.lines().next().unwrap_or_default().to_owned();
        assert_eq!(field("NoNewPrivs:"), 1, "{name}");
        assert_eq!(field("CapEff:"), field("CapPrm:"), "{name}");
        field("CapPrm:")
    };
    tasks.map(|task| of_one(fs::read_to_string(task.unwrap().path().join("status")).unwrap())).collect()
}

/// Is there anything to give up?
pub(crate) fn has_privileges() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let permitted = status.lines().find_map(|line| line.strip_prefix("CapPrm:")).unwrap();
    let any = u64::from_str_radix(permitted.trim(), 16).unwrap() != 0;
    if !any {
        println!("skipped: these tests have no privileges");
    }
    any
}

const NET_RAW: u64 = 1 << 13;
const SYS_ADMIN: u64 = 1 << 21;

#[test]
fn a_session_keeps_no_privilege_that_it_needs_no_more() {
    if !has_privileges() {
        return;
    }
    let world = World::new("privileges");
    let id = world.taut("identity --path id").out.trim().to_owned();
    let known = format!("--identity id --trust {id}");
    let media = if taut_video::is_available() && taut_sound::is_available() {
        "--speaker voice=null --microphone cell=click --video front=test --fifo 1"
    } else {
        println!("without media: built without libvpx or libopus");
        ""
    };
    for (arguments, kept) in [
        (format!("robot --listen 127.0.0.1:0 --json {known} {media}"), 0),
        (format!("robot --listen 127.0.0.1:0 --json {known}"), 0),
        (format!("robot --listen 127.0.0.1:0 --json {known} --commands --transport mtip --path lo"), 0),
        (format!("proxy --listen 127.0.0.1:0 --to udp:127.0.0.1:9 --json {known}"), 0),
        ("robot --listen 127.0.0.1:6513 --json --plaintext --transport dccp --raw".to_owned(), NET_RAW),
    ] {
        let mut process = Running::start(world.command(&arguments));
        process.wait_for("listening");
        let has = capabilities(process.pid());
        assert!(has.len() >= 3, "main thread, session, signals: {has:?}");
        let allowed = has.iter().all(|has| has & !kept == 0);
        assert!(allowed && (kept == 0 || has.contains(&kept)), "taut {arguments}: {has:x?}");
    }
    let robot = format!("robot --listen 127.0.0.1:0 --json --commands {known}");
    let mut robot = Running::start(world.command(&robot));
    let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let operator = format!(
        "operator --connect {address} --robot-id {id} --identity id --resume start --json --every 10ms --fifo 1"
    );
    let mut operator = Running::start(world.command(&operator));
    operator.wait_for("status");
    let has = capabilities(operator.pid());
    assert!(has.iter().all(|has| *has == 0), "{has:x?}");
}

/// The real-time priority of each thread of a process, by its name (proc(5): the fields after the name are counted from 3).
fn priorities(pid: u32) -> BTreeMap<String, Vec<u32>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // One that has ended has none.
    let stat = |task: io::Result<fs::DirEntry>| fs::read_to_string(task.unwrap().path().join("stat")).ok();
    let mut priorities = BTreeMap::<String, Vec<u32>>::new();
    for stat in tasks.filter_map(stat) {
        let (name, fields) = (stat.find('(').unwrap() + 1, stat.rfind(')').unwrap());
        let priority = stat[fields + 2..].split(' ').nth(40 - 3).unwrap().parse().unwrap();
        priorities.entry(stat[name..fields].to_owned()).or_default().push(priority);
    }
    priorities
}

#[test]
fn the_button_outranks_its_session_as_it_must_where_that_never_lets_go_of_its_processor() {
    let world = World::new("outranked");
    let robot = "robot --listen 127.0.0.1:0 --plaintext --transport udp --json --commands --fifo 7";
    let mut robot = Running::start(world.command(robot));
    robot.wait_for("listening");
    let has = priorities(robot.pid());
    if has["taut session"] == [0] {
        return println!("skipped: SCHED_FIFO needs CAP_SYS_NICE");
    }
    assert_eq!((&has["taut session"], &has["taut button"]), (&vec![7], &vec![8]), "{has:?}");
}

#[test]
fn what_encodes_and_decodes_makes_way_for_its_session() {
    if !taut_video::is_available() || !taut_sound::is_available() {
        return println!("skipped: built without libvpx or libopus");
    }
    let world = World::new("media-make-way");
    let robot = "robot --listen 127.0.0.1:0 --plaintext --transport udp --json --fifo 7 --cpu 0 --video front=test --microphone cell=click \
                 --speaker voice=exec:cat";
    let mut robot = Running::start(world.command(robot));
    robot.wait_for("listening");
    let has = priorities(robot.pid());
    if has["taut session"] == [0] {
        return println!("skipped: SCHED_FIFO needs CAP_SYS_NICE");
    }
    let processors = |task: &str| {
        let status = fs::read_to_string(format!("/proc/{}/{task}/status", robot.pid())).unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        let each = list.trim().split(',').flat_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse::<u32>().unwrap()..=last.parse::<u32>().unwrap()
        });
        each.collect::<BTreeSet<_>>()
    };
    // The kernel keeps 15 bytes of a name.
    let media = ["taut video fron", "taut sound cell", "taut sound voic", "taut sound pipe"];
    let mut seen = 0;
    for task in fs::read_dir(format!("/proc/{}/task", robot.pid())).unwrap() {
        let task = format!("task/{}", task.unwrap().file_name().display());
        let name = fs::read_to_string(format!("/proc/{}/{task}/comm", robot.pid())).unwrap();
        match name.trim() {
            "taut session" => assert_eq!(processors(&task), BTreeSet::from([0])),
            name if media.contains(&name) => {
                seen += 1;
                assert_eq!(has[name], [0], "{name}");
                assert!(processors(&task).is_superset(&processors(".")), "{name}");
            }
            _ => {}
        }
    }
    assert_eq!(seen, media.len(), "{has:?}");
}

#[test]
fn memory_stays_resident_where_that_is_asked_for_and_what_allowed_it_is_given_up() {
    let world = World::new("resident");
    let robot = "robot --listen 127.0.0.1:0 --plaintext --transport udp --json";
    let locked = |more: &str| {
        let mut process = Running::start(world.command(&format!("{robot}{more}")));
        process.wait_for("listening");
        let status = fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
        let of = |name| status.lines().find_map(|line: &str| line.strip_prefix(name)).unwrap();
        assert!(capabilities(process.pid()).iter().all(|has| *has == 0), "{status}");
        let kilobytes = of("VmLck:").trim().trim_end_matches(" kB").parse::<u64>().unwrap();
        signal(process.pid(), "-TERM");
        let mut said = String::new();
        process.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (kilobytes, said.contains("goes on without locking memory"))
    };
    assert_eq!(locked(""), (0, false));
    match locked(" --lock-memory") {
        (_, true) => println!("skipped: locking memory needs CAP_SYS_RESOURCE"),
        (kilobytes, false) => assert!(kilobytes > 1_000, "{kilobytes}"),
    }
}

#[test]
fn what_reads_a_stop_from_a_page_outranks_its_session() {
    let world = World::new("console-outranks");
    let robot = "robot --listen 127.0.0.1:0 --plaintext --transport udp --json";
    let mut robot = Running::start(world.command(robot));
    let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let console = format!("console --connect {address} --plaintext --transport udp --json --port 0 --fifo 7");
    let mut console = Running::start(world.command(&console));
    let url = console.wait_for("console")["url"].as_str().unwrap().to_owned();
    if priorities(console.pid())["taut session"] == [0] {
        return println!("skipped: SCHED_FIFO needs CAP_SYS_NICE");
    }
    let host = url.trim_start_matches("http://").split('/').next().unwrap();
    let token = url.split('#').nth(1).unwrap();
    let request = format!(
        "GET /session HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nSec-WebSocket-Key: a\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: taut.console.1, {token}\r\n\r\n"
    );
    let with_a_stranger = |_| {
        let _stranger = TcpStream::connect(host).unwrap();
        let has = priorities(console.pid());
        (has["taut strangers"].len() > 1).then_some(has)
    };
    let has = (0..100_000).find_map(with_a_stranger).expect("a thread reads from the stranger");
    assert!(has["taut strangers"].iter().all(|priority| *priority == 0), "{has:?}");
    assert_eq!(has["taut console"], [8], "nobody is there who knows the token: {has:?}");
    let with_a_page = |_| {
        // Its thread waits for what it asks, for a second at most.
        let mut page = TcpStream::connect(host).unwrap();
        page.write_all(request.as_bytes()).unwrap();
        let has = priorities(console.pid());
        (has["taut console"].len() > 1).then_some(has)
    };
    let has = (0..100_000).find_map(with_a_page).expect("a thread reads from the page");
    assert_eq!(has["taut session"], [7], "{has:?}");
    assert!(has["taut console"].iter().all(|priority| *priority == 8), "{has:?}");
}

#[test]
fn an_emulator_keeps_at_most_what_removes_its_namespaces_and_a_killed_one_is_cleared_away_by_the_next() {
    let _alone = crate::sessions::alone();
    let named = (Namespace::named("taut-cli-kept-a"), Namespace::named("taut-cli-kept-b"));
    let (a, b) = match named {
        (Ok(a), Ok(b)) => (a, b),
        (Err(error), _) | (_, Err(error)) => {
            assert!(error.lacks_means(), "{error}");
            println!("skipped: {error}");
            return;
        }
    };
    let world = World::new("emulation-killed");
    let narrow = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/narrow.toml");
    let own = |pid: u32| {
        let names = fs::read_dir("/run/netns")
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(&format!("taut-emulate-{pid}-"))).count()
    };
    let mut first = Running::start(world.command(&format!("emulate {narrow} --json --every 50ms")));
    first.wait_for("statistics");
    let pid = first.pid();
    assert_eq!(own(pid), 2);
    let has = capabilities(pid);
    assert!(has.contains(&0) && has.iter().all(|has| *has & !SYS_ADMIN == 0), "{has:x?}");
    first.kill();
    assert_eq!(own(pid), 2, "nobody has removed them");

    let between = format!("{},{}", a.name().unwrap(), b.name().unwrap());
    let again = format!("emulate {narrow} --between {between} --json --every 50ms");
    let mut second = Running::start(world.command(&again));
    second.wait_for("statistics");
    assert_eq!(own(pid), 0, "the next one removes what is left");
    let has = capabilities(second.pid());
    assert!(has.iter().all(|has| *has == 0), "{has:x?}");
    second.kill();
    // The devices went with it: another one can have their names.
    let third = ended(world.command(&format!("{again} --for 100ms")).output().unwrap());
    assert_eq!(third.status, 0, "{third:?}");
}
