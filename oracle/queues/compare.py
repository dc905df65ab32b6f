"""The same packets through taut's queues and through Linux's qdiscs of the same names: who is dropped, and how long the others wait."""

import csv
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import lab

LOADS = ["cbr", "bursts", "flows", "on-off"]
QDISCS = {
    "pfifo": "pfifo limit 100",
    "codel": "codel limit 1000",
    "codel-ecn": "codel limit 1000 ecn",
    "fq_codel": "fq_codel",
    "fq_codel-small": "fq_codel limit 300 noecn",
    "pie": "pie limit 1000 tupdate 20ms",
    "pie-ecn": "pie limit 1000 tupdate 20ms ecn",
    "red": "red limit 200000 min 30000 max 90000 avpkt 1000 burst 55 probability 0.02 bandwidth 10mbit",
    "red-ecn": "red limit 200000 min 30000 max 90000 avpkt 1000 burst 55 probability 0.02 bandwidth 10mbit ecn",
    # EF has the priority of RFC 1349's interactive bulk, 4: into the first band.
    "prio": "prio bands 3 priomap 1 2 2 2 0 2 0 0 1 1 1 1 1 1 1 1",
    "prio-codel": "prio bands 3 priomap 1 2 2 2 0 2 0 0 1 1 1 1 1 1 1 1",
    "tbf": "tbf rate 10mbit burst 15000 latency 50ms",
    "tbf-peak": "tbf rate 10mbit burst 30000 latency 50ms peakrate 16mbit minburst 1514",
    "cake": "cake bandwidth 10mbit besteffort",
    "cake-diffserv3": "cake bandwidth 10mbit",
    "cake-diffserv4": "cake bandwidth 10mbit diffserv4",
    "cake-diffserv8": "cake bandwidth 10mbit diffserv8",
    "cake-docsis": "cake bandwidth 10mbit besteffort rtt 30ms overhead 18 mpu 64 memlimit 200000",
}
BANDS = {"prio-codel": "codel limit 1000"}
SHAPES = ("tbf", "cake")
"""Those have no server behind them."""
START_NS = 4 << 30
"""As in crates/link/tests/kernel/loads.rs."""
END_NS = START_NS + 25 * lab.SECOND
FIRST = 50
COLUMNS = ["queue", "load", "sent", "dropped", "marked", "mean_us", "longest_us", "first_drops"]

# As in crates/link/tests/kernel/main.rs: drops in % of the packets; mean wait in ms, or as a part of it where it is long. Linux's own
# runs differ by as much: a timer that is a microsecond late drops the next packet instead, and a long overload never forgets that.
DROPS, DELAY_MS, DELAY = 1.0, 1.0, 0.03


def guest(queue, load, folder, core):
    variables = {
        "LOAD": folder / load, "START_NS": START_NS, "END_NS": END_NS, "QDISC": QDISCS[queue].replace(" ", ","),
        # With an overhead of its own, cake takes off the Ethernet header by itself.
        "STAB": "" if " overhead " in QDISCS[queue] else "stab,overhead,-14",
        "SERVED": int(not queue.startswith(SHAPES)), "BAND": BANDS.get(queue, "").replace(" ", ","),
    }
    [arrived] = lab.boot(variables, {}, core, script="queues/guest.sh", recorded=("arrived",))
    rows = [line.split() for line in (folder / load).read_text().splitlines()]
    got = [packet for packet in arrived if not packet.outgoing and packet.protocol == lab.UDP]
    if not got:
        raise SystemExit(f"{queue} under {load}: nothing arrived")
    waits = [(packet.time - packet.sent) / 1e3 for packet in got]
    left = {packet.sequence for packet in got}
    return {
        "sent": len(rows), "dropped": len(rows) - len(left),
        "marked": sum(packet.acknowledged & 3 == 3 for packet in got),
        "mean_us": sum(waits) / len(waits), "longest_us": max(waits),
        "drops": [position for position in range(len(rows)) if position not in left],
    }


def queues_against_linux(*words):
    """Our side: the example of crates/link."""
    command = ["cargo", "run", "--quiet", "--release", "--locked", "-p", "taut-link", "--example", "queues_against_linux", "--"]
    done = subprocess.run([*command, *map(str, words)], cwd=lab.REPOSITORY, check=True, text=True, stdout=subprocess.PIPE)
    return done.stdout


def of_taut():
    runs = {}
    for queue, load, *figures, drops in csv.reader(queues_against_linux("run").splitlines()):
        sent, dropped, marked, mean_us, longest_us = map(float, figures)
        runs[queue, load] = {
            "sent": int(sent), "dropped": int(dropped), "marked": int(marked), "mean_us": mean_us,
            "longest_us": longest_us, "drops": list(map(int, drops.split())),
        }
    return runs


def read_expected():
    with open(HERE / "expected.csv", newline="") as file:
        return {(row["queue"], row["load"]): row for row in csv.DictReader(file)}


def agreeing(ours, theirs):
    """How many of Linux's first fifty drops are drops of ours."""
    return len(set(theirs["drops"][:FIRST]) & set(ours["drops"]))


def judge(linux, taut):
    wrong = []
    expected = read_expected()
    for case, run in linux.items():
        for what, other in (("expected.csv", expected.get(case)), ("taut", taut[case])):
            if other is None:
                wrong.append(f"{case}: not in {what}")
                continue
            gap = abs(run["dropped"] - float(other["dropped"])) * 100 / run["sent"]
            late = abs(run["mean_us"] - float(other["mean_us"])) / 1e3
            # Where the memory is full, BLUE draws who is dropped.
            least = 4 * DELAY_MS if case[0] == "cake-docsis" else DELAY_MS
            if gap > DROPS or late > max(least, DELAY * run["mean_us"] / 1e3):
                wrong.append(f"{case}: Linux {run['dropped']} drops and {run['mean_us']:.0f} µs, "
                             f"{what} {other['dropped']} and {float(other['mean_us']):.0f}")
    return wrong


def main():
    lab.prepare()
    only = os.environ.get("QUEUES", "").split() or list(QDISCS)
    cases = [(queue, load) for queue in only for load in LOADS]
    with tempfile.TemporaryDirectory(dir=lab.CACHE) as folder:
        folder = pathlib.Path(folder)
        queues_against_linux("loads", folder)
        linux = dict(zip(cases, lab.in_parallel([(guest, *case, folder) for case in cases])))
    taut = of_taut()
    print("| queue | load | packets | drops taut | Linux | same first drops | marks taut | Linux | mean wait taut (ms) | Linux | longest taut | Linux |")
    print("| --- " * 12 + "|")
    for case, theirs in linux.items():
        ours = taut[case]
        print(f"| {case[0]} | {case[1]} | {ours['sent']} | {ours['dropped']} | {theirs['dropped']} "
              f"| {agreeing(ours, theirs)} of {min(FIRST, len(theirs['drops']))} | {ours['marked']} | {theirs['marked']} "
              f"| {ours['mean_us'] / 1e3:.3f} | {theirs['mean_us'] / 1e3:.3f} "
              f"| {ours['longest_us'] / 1e3:.3f} | {theirs['longest_us'] / 1e3:.3f} |")
    if "--update" in sys.argv:
        rows = read_expected() if (HERE / "expected.csv").exists() else {}
        for case, run in linux.items():
            figures = [f"{run[column]:.1f}" for column in ("mean_us", "longest_us")]
            first = " ".join(map(str, run["drops"][:FIRST]))
            values = [*case, run["sent"], run["dropped"], run["marked"], *figures, first]
            rows[case] = dict(zip(COLUMNS, values))
        with open(HERE / "expected.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[queue, load] for queue in QDISCS for load in LOADS if (queue, load) in rows)
    wrong = judge(linux, taut)
    for line in wrong:
        print("broken:", line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
