"""Conversations between taut and the kernel over a protocol that both speak: runs them and says what came of it."""

import pathlib
import shutil
import statistics
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import lab

EXCHANGE = lab.TAUT.parent / "examples/exchange"
LINK = {"RATE": "10mbit", "QUEUE": 50000, "DELAY": "20ms"}
BEGIN, CLOSE = 3, 9
"""Seconds since boot: the first message, and goodbye, of conversations."""
WARMUP, SECONDS = 5, 40
"""Of transfers."""
SIZE = 1000


def prepare():
    """Builds taut's program."""
    if not shutil.which("tshark"):
        print("skipped: tshark is missing, which judges the packets")
        sys.exit(0)
    manifest = lab.REPOSITORY / "Cargo.toml"
    target = lab.TAUT.parent.parent
    # Of the profile that taut is of.
    profile = ["--release"] if lab.TAUT.parent.name == "release" else []
    subprocess.run(["cargo", "build", *profile, "--locked", "--quiet", "--manifest-path", manifest, "--target-dir", target,
                    "-p", "taut-io", "--example", "exchange"], check=True)


def facts(path):
    """The line that an end answers."""
    words = path.read_text().split()
    if not words:
        return None
    pairs = (word.split("=", 1) for word in words)
    return {name: value for name, value in pairs}


def arrivals(path):
    """(number, made, arrived) of what arrived, times in ns."""
    return list(struct.iter_unpack("<qqq", path.read_bytes())) if path.exists() else []


def faults(capture):
    """Packets in which tshark finds a fault: malformed, or a checksum that is wrong."""
    wrong = "_ws.malformed || dccp.checksum.status == 0 || sctp.checksum.status == 0"
    command = ["tshark", "-r", capture, "-o", "sctp.checksum:TRUE", "-Y", wrong]
    found = subprocess.run(command, text=True, capture_output=True)
    if found.returncode != 0:
        raise SystemExit(f"tshark: {found.stderr}")
    packets = subprocess.run(["tshark", "-r", capture, "-Y", "dccp || sctp"], text=True, capture_output=True)
    return found.stdout.splitlines(), len(packets.stdout.splitlines())


def run(variables, read, core):
    return lab.guest("exchange/guest.sh", {"NATIVE": 0, "EXCHANGE": EXCHANGE} | variables, core, read)


def says(**words):
    return ",".join(f"{name}={value}" for name, value in words.items())


def conversation(protocol, client, server, loss, closer, core):
    """Both say 500 messages, one every 10 ms, and `closer` says goodbye."""
    common = {"send": 500, "period_ns": 10_000_000, "begin_ns": BEGIN * lab.SECOND, "reliable": int(protocol == "sctp")}
    goodbye = {"close_ns": CLOSE * lab.SECOND}
    variables = LINK | {
        "PROTOCOL": protocol, "CLIENT": client, "SERVER": server, "LOSS": loss, "LOSS_BACK": loss, "CAPTURE": 1,
        "END_NS": (CLOSE + 3) * lab.SECOND,
        "CLIENT_SAYS": says(**common, **(goodbye if closer == "client" else {})),
        "SERVER_SAYS": says(**common, **(goodbye if closer == "server" else {})),
    }
    return run(variables, lambda out: {
        "client": facts(out / "client"), "server": facts(out / "server"), "faults": faults(out / "pcap"),
    }, core)


def transfer(protocol, client, server, loss, core):
    """The client sends as much as its congestion control lets it."""
    end = BEGIN + WARMUP + SECONDS
    variables = LINK | {
        "PROTOCOL": protocol, "CLIENT": client, "SERVER": server, "LOSS": loss, "LOSS_BACK": "0%", "CAPTURE": 0,
        "END_NS": (end + 2) * lab.SECOND,
        "CLIENT_SAYS": says(send=10_000_000, size=SIZE, begin_ns=BEGIN * lab.SECOND, close_ns=end * lab.SECOND,
                            reliable=int(protocol == "sctp")),
        "SERVER_SAYS": says(record="/run/out/record"),
    }

    def measured(out):
        begin = (BEGIN + WARMUP) * lab.SECOND
        found = [entry for entry in arrivals(out / "record") if begin <= entry[2] < end * lab.SECOND]
        delays = sorted(arrived - made for _, made, arrived in found)
        if not delays:
            raise SystemExit(f"{protocol} {client} → {server}: nothing arrived; {facts(out / 'client')}")
        return {
            "rate": len(found) * SIZE * 8e-6 / SECONDS,
            "p50": delays[len(delays) // 2] / 1e6,
            "p99": delays[len(delays) * 99 // 100] / 1e6,
        }

    return run(variables, measured, core)


MEASURES = ["rate", "p50", "p99"]
PAIRS = [("taut", "taut"), ("taut", "linux"), ("linux", "taut"), ("linux", "linux")]


def judge_conversation(name, found, protocol, loss, round_trip):
    """What is wrong with a conversation, in words."""
    wrong = []
    ends = {role: found[role] for role in ("client", "server")}
    for role, facts_of in ends.items():
        if facts_of is None:
            wrong.append(f"{name}: the {role} never answered")
            continue
        received = int(facts_of["received"])
        least = 500 if protocol == "sctp" or loss == "0%" else 500 * (1 - 4 * float(loss[:-1]) / 100)
        if received < least:
            wrong.append(f"{name}: the {role} received {received} of 500")
        if protocol.startswith("dccp"):
            ccids = (facts_of["tx_ccid"], facts_of["rx_ccid"])
            if ccids != (protocol[4:],) * 2:
                wrong.append(f"{name}: the {role} sends by CCID {ccids[0]} and receives by {ccids[1]}")
        if float(facts_of["closed_ms"]) < 0:
            wrong.append(f"{name}: the {role} did not see the end")
        if facts_of.get("ended", "closed") not in ("closed", "ENOTCONN"):
            wrong.append(f"{name}: the {role} ended with {facts_of['ended']}")
    if loss == "0%" and ends["client"] and abs(float(ends["client"]["connected_ms"]) - round_trip) > 2:
        wrong.append(f"{name}: connected after {ends['client']['connected_ms']} ms, not {round_trip}")
    broken, packets = found["faults"]
    wrong += [f"{name}: tshark: {line}" for line in broken]
    if packets < 1000:
        wrong.append(f"{name}: tshark knows {packets} packets of it")
    return wrong


def compare(folder, protocols, conversations, transfers, repeats, agrees):
    """Runs everything, prints the tables; the exit status. `conversations`: what to run as (client, server, closer); `transfers`:
    losses, each with its number of runs. `repeats` and `agrees` are tolerances: of Linux with what it gave before, and of taut
    with Linux, by loss."""
    prepare()
    spoken = [(conversation, protocol, *pair[:2], loss, pair[2])
              for protocol in protocols for pair in conversations for loss in ("0%", "1%")]
    sent = [(transfer, protocol, *pair, loss)
            for protocol in protocols for loss, runs in transfers.items() for pair in PAIRS for _ in range(runs)]
    results = lab.in_parallel(spoken + sent)
    wrong = []
    print("| protocol | client | server | loss | says goodbye | connected (ms) | client got | server got | closed after (ms) | packets |")
    print("| --- " * 10 + "|")
    for (_, protocol, client, server, loss, closer), found in zip(spoken, results):
        name = f"{protocol} {client} → {server}, {loss}"
        # Two handshakes of SCTP's: four packets.
        wrong += judge_conversation(name, found, protocol, loss, 80.5 if protocol == "sctp" else 40.3)
        one, other = found["client"] or {}, found["server"] or {}
        print(f"| {protocol} | {client} | {server} | {loss} | {closer} | {one.get('connected_ms')} | {one.get('received')} "
              f"| {other.get('received')} | {one.get('closed_ms')} | {found['faults'][1]} |")
    measured = {}
    for call, found in zip(sent, results[len(spoken):]):
        _, protocol, client, server, loss = call
        measured.setdefault((protocol, loss), {}).setdefault(f"{client} → {server}", []).append(found)
    rows = {}
    print()
    names = [f"{one} → {other}" for one, other in PAIRS]
    print("| protocol | loss | " + " | ".join(f"{name}: Mbit/s, p50, p99 (ms)" for name in names) + " |")
    print("| --- " * (2 + len(names)) + "|")
    for (protocol, loss), by_pair in measured.items():
        cells = []
        for name in names:
            mean = {key: statistics.mean(run[key] for run in by_pair[name]) for key in MEASURES}
            rows[f"{protocol}, {loss}, {name}"] = mean
            cells.append(f"{mean['rate']:.2f}, {mean['p50']:.1f}, {mean['p99']:.1f}")
        print(f"| {protocol} | {loss} | " + " | ".join(cells) + " |")
    path = folder / "expected.csv"
    if "--update" in sys.argv:
        lab.write_expected(path, "transfer", MEASURES, rows, 3)
    expected = {name: row["rate"] for name, row in lab.read_expected(path).items()}
    for name, row in rows.items():
        if abs(row["rate"] / expected[name] - 1) > repeats:
            wrong.append(f"{name}: {row['rate']:.3f} Mbit/s, expected {expected[name]:.3f}")
    for protocol, loss in measured:
        ours, theirs = (rows[f"{protocol}, {loss}, {who} → {who}"]["rate"] for who in ("taut", "linux"))
        if abs(ours / theirs - 1) > agrees[protocol]:
            wrong.append(f"{protocol}, {loss}: taut {ours:.3f} Mbit/s, Linux {theirs:.3f}")
    return lab.verdict(wrong)
