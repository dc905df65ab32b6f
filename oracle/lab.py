"""What the comparisons share: booting the guest, reading what it recorded, running taut."""

import concurrent.futures
import csv
import json
import os
import pathlib
import struct
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent
CACHE = pathlib.Path(os.environ.get("TAUT_ORACLE", REPOSITORY / "target/oracle")).resolve()
TAUT = pathlib.Path(os.environ.get("TAUT", REPOSITORY / "target/release/taut")).resolve()
SECOND = 1_000_000_000
TCP, UDP = 6, 17

# NewReno (RFC 6582) as nearly as Linux lets itself be asked for: without SACK, timestamps, RACK and tail loss probes, F-RTO,
# ECN, metrics of connections before, and with three duplicate acknowledgements always.
NEWRENO = {
    "tcp_sack": 0, "tcp_timestamps": 0, "tcp_recovery": 0, "tcp_early_retrans": 0, "tcp_frto": 0, "tcp_ecn": 0,
    "tcp_no_metrics_save": 1, "tcp_reordering": 3, "tcp_max_reordering": 3, "tcp_autocorking": 0,
}
# Of what Linux does by itself only the memory of connections before is taken away.
AS_IT_COMES = {"tcp_no_metrics_save": 1}


class Record:
    """One packet as `traffic record` saw it; the fields are those of its struct record."""

    __slots__ = ("time", "sent", "sequence", "acknowledged", "bytes", "payload", "id", "outgoing", "protocol")
    LAYOUT = struct.Struct("<qqIIHHHBB")

    def __init__(self, fields):
        (self.time, self.sent, self.sequence, self.acknowledged, self.bytes, self.payload, self.id, self.outgoing,
         self.protocol) = fields


def records(path):
    return [Record(fields) for fields in Record.LAYOUT.iter_unpack(path.read_bytes())]


def prepare():
    """Compiles the guest's program; the kernel is there."""
    CACHE.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", CACHE / "traffic", HERE / "traffic.c"], check=True)


def guest(script, variables, core, read):
    """Runs `script` in the guest with `variables`; returns what `read` makes of the folder that it wrote to."""
    words = [f"{name}={value}" for name, value in variables.items()]
    # On one core: the guest's kernel and its processes hand each other the turn, and none runs while another does.
    with tempfile.TemporaryDirectory(dir=CACHE) as out:
        out = pathlib.Path(out)
        command = ["taskset", "-c", str(core), HERE / "kernel/boot", "instant", HERE / script, out]
        done = subprocess.run(command + words, text=True, capture_output=True, env=os.environ | {"TAUT_ORACLE": str(CACHE)})
        if done.returncode != 0:
            log = (out / "log").read_text() if (out / "log").exists() else ""
            raise SystemExit(f"the guest failed: {done.stderr}\n{log}")
        return read(out)


def boot(variables, sysctls, core, script="guest.sh", recorded=("sent", "arrived")):
    """Runs a script in the guest with `variables`; returns what was recorded into files of these names."""
    settings = ",".join(f"net.ipv4.{name}={value}" for name, value in sysctls.items())
    variables = {"TRAFFIC": CACHE / "traffic", "SYSCTLS": settings} | variables
    return guest(script, variables, core, lambda out: [records(out / name) for name in recorded])


def taut(scenario, seeds, *arguments):
    """Runs a scenario with `seeds`; for each variant's name, its measures by theirs, as `taut run --json` gives them."""
    command = [TAUT, "run", REPOSITORY / scenario, "--seeds", seeds, "--quiet", "--json", *arguments]
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)
    return {variant["name"]: {measure["name"]: measure for measure in variant["measures"]}
            for variant in json.loads(done.stdout)["variants"]}


def in_parallel(calls):
    """Runs (function, argument …) each on a core of its own, which is the last argument; results in order."""
    free = sorted(os.sched_getaffinity(0))

    def one(call):
        core = free.pop()
        try:
            return call[0](*call[1:], core)
        finally:
            free.append(core)

    with concurrent.futures.ThreadPoolExecutor(len(free)) as pool:
        return list(pool.map(one, calls))


def lost(sent, arrived):
    """Which of `sent` did not arrive: both in order, no packet overtakes another. Sets of positions in `sent`."""
    missing, place = set(), 0
    for position, packet in enumerate(sent):
        if place < len(arrived) and arrived[place].id == packet.id and arrived[place].sequence == packet.sequence:
            place += 1
        else:
            missing.add(position)
    if place != len(arrived):
        raise SystemExit(f"{len(arrived) - place} packets arrived that nobody sent")
    return missing


def write_expected(path, key, columns, rows, digits):
    """Keeps what was measured, `rows` by name."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([key, *columns])
        writer.writerows([name, *(f"{row[column]:.{digits}f}" for column in columns)] for name, row in rows.items())


def read_expected(path):
    """What was kept: by name, by column."""
    with open(path, newline="") as file:
        reader = csv.reader(file)
        columns = next(reader)[1:]
        return {name: dict(zip(columns, map(float, cells))) for name, *cells in reader}


def verdict(wrong):
    """Tells what is broken, and gives the exit status."""
    for line in wrong:
        print("broken:", line)
    return 1 if wrong else 0
