//! An independent decoder reads what sessions put on the wire, over every transport: between two namespaces, recorded by
//! a packet socket.

use std::io::Read;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration as StdDuration;

use socket2::{Domain, Protocol, Socket, Type};
use taut_agent::{OperatorSettings, Playback, ResumePolicy, RobotCommand};
use taut_core::{Duration, Message, Seed, Time};
use taut_io::session::{Credentials, Endpoint, OperateConfig, Security, TransportKind, operate, serve};
use taut_io::{Clock, DccpPort, Driver, DriverConfig, Plain};
use taut_netlab::Namespace;
use taut_session::{OperatorConfig, RobotConfig, State};
use taut_transport::dccp::{Dccp, DccpConfig};
use taut_transport::identity::{Identity, Trust};

use crate::machines::{Rock, namespaces};

/// States that the operator sends.
const STATES: u64 = 300;
const ROBOT: &str = "10.96.0.2";

/// The operator's and the robot's host. What leaves one arrives as it left: cut into packets by the kernel, not by a
/// device that is not there. The ports that the kernel chooses belong to nobody.
fn hosts() -> Option<[Namespace; 2]> {
    let hosts = namespaces::<2>()?;
    Namespace::join((&hosts[0], "v0", "10.96.0.1/24"), (&hosts[1], "v0", "10.96.0.2/24")).unwrap();
    for host in &hosts {
        host.ip("link set v0 gso_max_segs 1").unwrap();
        let range = || std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "61100 61900");
        host.run(range).unwrap().unwrap();
    }
    Some(hosts)
}

/// All IP packets at a host while `work` lasts, as pcap (LINKTYPE_RAW).
fn record(host: &Namespace, work: impl FnOnce()) -> Vec<u8> {
    const EVERY_PROTOCOL: u16 = 3;
    let open = || {
        let protocol = Protocol::from(i32::from(EVERY_PROTOCOL.to_be()));
        Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol))
    };
    let socket = host.run(open).unwrap().unwrap();
    socket.set_read_timeout(Some(StdDuration::from_millis(100))).unwrap();
    socket.set_recv_buffer_size(8_000_000).unwrap();
    let (done, clock) = (AtomicBool::new(false), Clock::start());
    let read = || {
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
            file.extend(word.to_le_bytes());
        }
        let mut buffer = vec![0; 65_536];
        loop {
            let Ok(len) = (&socket).read(&mut buffer) else {
                if done.load(Ordering::Relaxed) {
                    return file;
                }
                continue;
            };
            let packet = &buffer[..len];
            if packet.first().is_none_or(|first| first >> 4 != 4) {
                continue; // ARP, and IPv6's own chatter.
            }
            let micros = clock.now().as_nanos() / 1_000;
            for word in [micros / 1_000_000, micros % 1_000_000, len as u64, len as u64] {
                file.extend((word as u32).to_le_bytes());
            }
            file.extend(packet);
        }
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(read);
        work();
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    })
}

fn session(hosts: &[Namespace; 2], kind: TransportKind, port: u16) {
    let address: SocketAddr = format!("{ROBOT}:{port}").parse().unwrap();
    let identity = |name: &str| Identity::from_seed(Seed::new(6), name);
    let credentials = |me: &str, other: &str| {
        let trust = Trust::only(identity(other).fingerprint());
        // In the clear, where that can be had.
        match kind {
            TransportKind::Quic => Credentials { identity: identity(me), trust }.into(),
            _ => Security::PlaintextAnywhere,
        }
    };
    let (tell, told) = sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let robot = || {
                let driver = Driver::new(DriverConfig::new()).unwrap();
                let credentials = credentials("robot", "operator");
                let endpoint = Endpoint::listen(kind, address, credentials, &driver.clock()).unwrap();
                let started = |remote| tell.send(remote).unwrap();
                serve(driver, &endpoint, RobotConfig::new().into(), Rock::default(), started, &mut |_, _| ())
                    .unwrap();
            };
            hosts[1].run(robot).unwrap();
        });
        let remote = told.recv().unwrap();
        let operator = || {
            let driver = Driver::new(DriverConfig::new()).unwrap();
            let credentials = credentials("operator", "robot");
            let endpoint = Endpoint::connect(kind, address, credentials, &driver.clock()).unwrap();
            let agent =
                OperatorSettings::new(Duration::from_millis(1)).limit(STATES).resumes(ResumePolicy::Start);
            let config = OperateConfig::new(OperatorConfig::new(), agent);
            let device = Playback::new(std::iter::repeat(State::at(Time::ZERO)));
            operate(driver, &endpoint, config, device, |_| (), &mut |_, _| ()).unwrap();
        };
        hosts[0].run(operator).unwrap();
        assert!(remote.send(RobotCommand::Close));
    });
}

/// DCCP in IP packets of its own, without a session.
fn raw_dccp(hosts: &[Namespace; 2]) {
    let mut driver = Driver::new(DriverConfig::new()).unwrap();
    let [client, server]: [SocketAddr; 2] =
        ["10.96.0.1:5001", "10.96.0.2:5002"].map(|at| at.parse().unwrap());
    let rng = |name| Seed::new(6).stream(name);
    let port = hosts[1].run(|| DccpPort::new(server, 4)).unwrap().unwrap();
    let config = || DccpConfig::new().ports(5_002, 5_001);
    driver.add(Plain::new(Dccp::server(config(), rng("server"))), port).unwrap();
    let port = hosts[0].run(|| DccpPort::new(client, 4)).unwrap().unwrap().to(server);
    let config = DccpConfig::new().ports(5_001, 5_002);
    let client = driver.add(Plain::new(Dccp::client(config, rng("client"))), port).unwrap();
    for _ in 0..STATES {
        driver.command(client, Message { data: vec![7; 75], ..Message::default() });
        let until = driver.clock().now() + Duration::from_millis(1);
        while driver.clock().now() < until {
            driver.turn(until, &mut |_, _| ()).unwrap();
        }
    }
}

/// Rows of fields, one for every packet.
fn dissect(capture: &[u8], name: &str, options: &[&str]) -> Vec<String> {
    let file = std::env::temp_dir().join(format!("taut-io-{}-{name}.pcap", std::process::id()));
    std::fs::write(&file, capture).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-r"]).arg(&file).args(options).args(["-T", "fields", "-E", "occurrence=a"]);
    let fields = ["frame.protocols", "_ws.malformed", "ip.proto"];
    fields.iter().for_each(|field| _ = tshark.args(["-e", field]));
    let output = tshark.output().unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn sessions_over_every_transport_are_decoded_and_nothing_is_malformed() {
    if let Err(error) = Command::new("tshark").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status()
    {
        return println!("skipped: tshark cannot be run: {error}");
    }
    let Some(hosts) = hosts() else { return };
    use TransportKind::{Dccp, Etp, Quic, Sctp, Tcp, Udp};
    // What tshark calls it. It cannot be told that DCCP follows UDP: those bytes are data to it, as sessions over UDP are.
    let over_udp = [
        (Udp, 40_404, "raw:ip:udp:data", &[][..]),
        (Etp, 40_405, "raw:ip:udp:data", &[]),
        (Sctp, 9_899, "raw:ip:udp:sctp", &[]),
        (Dccp, 6_511, "raw:ip:udp:data", &[]),
        (Quic, 4_433, "raw:ip:udp:quic", &["-d", "udp.port==4433,quic"]),
        (Tcp, 40_406, "raw:ip:tcp", &[]),
    ];
    let check = |name: &str, protocols: &str, rows: &[String]| {
        let of = rows.iter().filter(|row| row.starts_with(protocols)).count();
        println!("{name}: {of} packets of {protocols}, {} in all", rows.len());
        assert!(of as u64 >= STATES, "{name}: {of} packets of {protocols}: {:?}", rows.first());
        for row in rows {
            let fields: Vec<&str> = row.split('\t').collect();
            assert!(fields[1].is_empty(), "{name}: malformed: {row}");
            // The kernel's own ICMP is there too, when somebody speaks who was not awaited.
            let is_icmp = fields[2].split(',').next() == Some("1");
            assert!(is_icmp || fields[0].starts_with(protocols), "{name}: {row}");
        }
    };
    for (kind, port, protocols, options) in over_udp {
        let capture = record(&hosts[0], || session(&hosts, kind, port));
        check(kind.name(), protocols, &dissect(&capture, kind.name(), options));
    }
    let capture = record(&hosts[0], || raw_dccp(&hosts));
    check("raw DCCP", "raw:ip:dccp", &dissect(&capture, "dccp-raw", &["-o", "dccp.check_checksum:TRUE"]));
}
