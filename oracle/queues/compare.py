"""The same packets through taut's queues and through Linux's qdiscs of the same names: who is dropped, and how long the others wait.

QUEUES="pfifo codel" compares some of them. SEED="0 1 2" compares under loads that are drawn from each of these seeds
(crates/link/tests/kernel/drawn.rs); --update then writes what Linux gave to seeds.csv. --table shows what was committed beside what
this taut does, and needs no kernel.
"""

import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import lab

# All places of drops stand in one cell.
csv.field_size_limit(1 << 30)

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
FIXED = "-"
"""Instead of a seed: the loads of expected.csv."""

DRAWN = ("pie", "red", "cake-docsis")
"""Those draw who is dropped: here and there they run with several seeds."""
CHAOTIC = {(queue, "on-off") for queue in ("cake", "cake-diffserv3", "cake-diffserv4", "cake-diffserv8")}
"""They fill CAKE's memory, and from then on its BLUE draws who is dropped: Linux differs from itself, by one drop in thirty."""
RUNS = 5
# Of loads that are drawn most fill it.
DRAWN_THERE, RUNS_THERE = ("pie", "red", "cake"), 3
RUNS_WHERE_APART = 20
"""Of a hundred means over few runs some are more than two standard errors off: those are made again, with so many runs."""

# As in crates/link/tests/kernel/main.rs: drops and marks as a part of Linux's, at least so many; mean wait in ms.
DROPS, FEWEST, DELAY_MS = 0.01, 3, 1.0
# As there: how many of the first fifty drops are not in Linux's place.
# What division leaves over of a flow's turn is drawn in CAKE: two runs of Linux differ from each other.
MISPLACED = {(queue, "flows"): 11 for queue in ("cake", "cake-diffserv3", "cake-diffserv4", "cake-diffserv8")}
# Counters that hang on what was dropped last, where a tick of CoDel's clock more or less dropped another packet.
UNEQUAL = {("codel", "flows"), ("prio-codel", "flows")}
UNEQUAL_THERE = UNEQUAL | {("codel-ecn", "flows")}
"""Under loads that are drawn."""


def repeated(case, seed):
    """Does it run several times, and are means compared?"""
    return case[0].startswith(DRAWN) or case in CHAOTIC if seed == FIXED else case[0].startswith(DRAWN_THERE)


def counters(shown):
    """What `tc -s -j` shows of the discipline and of what is in its bands, by taut's names."""
    found = {}
    for qdisc in shown:
        if qdisc["handle"] == "2:":
            prefix = ""
        elif qdisc.get("parent", "").startswith("2:"):
            prefix = f"band{int(qdisc['parent'][2:], 16) - 1}."
        else:
            continue
        found |= {prefix + name: value for name, value in qdisc.items() if isinstance(value, (bool, int, float))}
        for tin, of_tin in enumerate(qdisc.get("tins", [])):
            found |= {f"{prefix}tin{tin}.{name}": value for name, value in of_tin.items()}
    scaled = {"prob": ("prob_ppm", 1e6)}
    values = {}
    for name, value in found.items():
        name, factor = scaled.get(name, (name, 8 if name.endswith("threshold_rate") else 1))
        values[name] = round(value * factor)
    return values


def guest(queue, load, folder, core):
    variables = {
        "LOAD": folder / load, "START_NS": START_NS, "END_NS": END_NS, "QDISC": QDISCS[queue].replace(" ", ","),
        # With an overhead of its own, cake takes off the Ethernet header by itself.
        "STAB": "" if " overhead " in QDISCS[queue] else "stab,overhead,-14",
        "SERVED": int(not queue.startswith(SHAPES)), "BUCKETS": int(queue.startswith("fq_codel")),
        "BAND": BANDS.get(queue, "").replace(" ", ","),
    }
    variables |= {"TRAFFIC": lab.CACHE / "traffic", "SYSCTLS": ""}
    read = lambda out: (lab.records(out / "arrived"), json.loads((out / "tc").read_text()))
    arrived, shown = lab.guest("queues/guest.sh", variables, core, read)
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
        "counters": counters(shown),
    }


def queues_against_linux(*words):
    """Our side: the example of crates/link."""
    command = ["cargo", "run", "--quiet", "--release", "--locked", "-p", "taut-link", "--example", "queues_against_linux", "--"]
    done = subprocess.run([*command, *map(str, words)], cwd=lab.REPOSITORY, check=True, text=True, stdout=subprocess.PIPE)
    return done.stdout


def of_taut(seed, queues=()):
    runs = {}
    for queue, load, *figures, drops in csv.reader(queues_against_linux("run", seed, *queues).splitlines()):
        sent, dropped, marked, mean_us, longest_us = map(float, figures)
        runs.setdefault((queue, load), []).append({
            "sent": int(sent), "dropped": int(dropped), "marked": int(marked), "mean_us": mean_us,
            "longest_us": longest_us, "drops": list(map(int, drops.split())),
        })
    return runs


def read_expected():
    runs = {}
    with open(HERE / "expected.csv", newline="") as file:
        for row in csv.DictReader(file):
            runs.setdefault((row["queue"], row["load"]), []).append(row)
    return runs


def write_expected(linux):
    runs = read_expected() if (HERE / "expected.csv").exists() else {}
    for case, new in linux.items():
        runs[case] = []
        for run in new:
            figures = [f"{run[column]:.1f}" for column in ("mean_us", "longest_us")]
            values = [*case, run["sent"], run["dropped"], run["marked"], *figures, " ".join(map(str, run["drops"][:FIRST]))]
            runs[case].append(dict(zip(COLUMNS, values)))
    with open(HERE / "expected.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for queue in QDISCS:
            for load in LOADS:
                writer.writerows(runs.get((queue, load), []))


def in_place(ours, theirs):
    """How many of Linux's first fifty drops are ours in the same place, and how many there are; of those drawn, nothing."""
    if len(ours) > 1:
        return None
    first = theirs[0]["drops"][:FIRST]
    return sum(a == b for a, b in zip(ours[0]["drops"], first)), len(first)


def numbers(runs, figure):
    return [float(run[figure]) for run in runs]


def chance(*sides):
    """Twice the standard error of the difference of two means. Of one run nothing is known but that it has the other side's chance."""
    spreads = [statistics.variance(side) for side in sides if len(side) > 1]
    if not spreads:
        return 0
    return 2 * sum(max(spreads) / len(side) for side in sides) ** 0.5


def judge_figures(case, runs, what, others):
    """Runs that are made now are few: their means may be off by what chance explains. The test has no such allowance."""
    limits = [("dropped", DROPS, FEWEST, 1), ("marked", DROPS, FEWEST, 1), ("mean_us", 0, DELAY_MS, 1e3)]
    for figure, part, least, unit in limits:
        ours, theirs = numbers(others, figure), numbers(runs, figure)
        linux_mean, other_mean = statistics.mean(theirs) / unit, statistics.mean(ours) / unit
        most = max(part * linux_mean, least) + chance(ours, theirs) / unit
        if abs(linux_mean - other_mean) > most:
            yield f"{case}: {figure} Linux {linux_mean:.2f}, {what} {other_mean:.2f}, more than {most:.2f} apart"


def judge_places(case, runs, ours):
    same = in_place(ours, runs)
    if same and same[0] + MISPLACED.get(case, 0) < same[1]:
        yield f"{case}: {same[0]} of the first {same[1]} drops are in place"


def allowed(load, counter, linux):
    """By how much a counter may be off, as in crates/link/tests/kernel/main.rs."""
    name = counter.split(".")[-1]
    if name == "ldelay" or name.endswith("_us"):
        return max(linux // 100, 20)
    if name in ("new_flow_count", "memory_used") or (name == "ecn_mark" and load == "flows"):
        return linux // 100
    # A timer that was a microsecond late is a look more, or fewer.
    return max(1, linux // 10_000) if name == "overlimits" else 0


def judge_counters(case, runs, ours):
    """Each counter that both have."""
    for name, value in runs[0]["counters"].items():
        if name in ours and abs(ours[name] - value) > allowed(case[1], name, value):
            yield f"{case}: {name} Linux {value}, taut {ours[name]}"


def judge(linux, taut, counted, seed):
    wrong = []
    expected = read_expected() if seed == FIXED else {}
    for case, runs in linux.items():
        others = [("taut", taut[case])]
        if seed == FIXED:
            others.append(("expected.csv", expected.get(case)))
        for what, other in others:
            wrong += judge_figures(case, runs, what, other) if other else [f"{case}: not in {what}"]
        wrong += judge_places(case, runs, taut[case])
        if not repeated(case, seed) and case not in (UNEQUAL if seed == FIXED else UNEQUAL_THERE):
            wrong += judge_counters(case, runs, counted[case])
    return wrong if seed == FIXED else [f"seed {seed}, {line}" for line in wrong]


def count_taut(seed, queues):
    found = {}
    for queue, load, name, value in csv.reader(queues_against_linux("counters", seed, *queues).splitlines()):
        found.setdefault((queue, load), {})[name] = int(value)
    return found


def write_counters(linux):
    path, rows = HERE / "counters.csv", []
    if path.exists():
        with open(path, newline="") as file:
            rows = [row for row in list(csv.reader(file))[1:] if (row[0], row[1]) not in linux]
    rows += [[*case, name, value] for case, runs in linux.items() if not repeated(case, FIXED) for name, value in runs[0]["counters"].items()]
    order = {(queue, load): at for at, (queue, load) in enumerate((queue, load) for queue in QDISCS for load in LOADS)}
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["queue", "load", "counter", "value"])
        writer.writerows(sorted(rows, key=lambda row: order[row[0], row[1]]))


SEEDS_CSV = HERE / "seeds.csv"
FIGURES = COLUMNS[2:7]


def read_seeds():
    """By seed: runs by queue and load."""
    found = {}
    with open(SEEDS_CSV, newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["seed"], {}).setdefault((row["queue"], row["load"]), []).append(row)
    return found


def write_seeds(seed, linux):
    found = read_seeds() if SEEDS_CSV.exists() else {}
    rounded = lambda run: {name: round(float(run[name]), 1) if name.endswith("_us") else run[name] for name in FIGURES}
    found.setdefault(seed, {}).update({case: [rounded(run) for run in runs] for case, runs in linux.items()})
    with open(SEEDS_CSV, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["seed", "queue", "load", *FIGURES])
        for seed in sorted(found, key=int):
            for case, runs in sorted(found[seed].items()):
                writer.writerows([seed, *case, *(run[name] for name in FIGURES)] for run in runs)


def apart(runs, ours):
    """By how much taut's means are above Linux's: drops and marks as percent, mean wait in ms."""
    pairs = [(statistics.mean(numbers(ours, figure)), statistics.mean(numbers(runs, figure))) for figure in ("dropped", "marked", "mean_us")]
    parts = [100 * (here - there) / max(there, 1) for here, there in pairs[:2]]
    return [*parts, (pairs[2][0] - pairs[2][1]) / 1e3]


def table_of_seeds():
    """How far taut is from Linux under the loads of all seeds, the least and the most."""
    found, wrong = {}, []
    for seed, linux in read_seeds().items():
        taut = of_taut(seed)
        for case, runs in linux.items():
            found.setdefault(case, []).append(apart(runs, taut[case]))
            wrong += [f"seed {seed}, {line}" for line in judge_figures(case, runs, "taut", taut[case])]
    print("| queue | load | seeds | to the packet | drops, % | marks, % | mean wait, ms |")
    print("| --- " * 7 + "|")
    for case in sorted(found, key=lambda case: (list(QDISCS).index(case[0]), LOADS.index(case[1]))):
        exact = sum(drops == marks == 0 for drops, marks, _ in found[case])
        ends = [[f"{round(end, 2) + 0.0:+.2f}" for end in (min(column), max(column))] for column in zip(*found[case])]
        cells = [" … ".join(dict.fromkeys(end)).replace("+0.00 … ", "0 … ") if end != ["+0.00"] * 2 else "0" for end in ends]
        print("|", " | ".join([*case, str(len(found[case])), str(exact), *cells]), "|")
    return wrong


def of_linux(queue, load, folder, runs, core):
    return [guest(queue, load, folder, core) for _ in range(runs)]


def runs_of_linux(seed, queues, folder, taut):
    """By case."""
    cases = [(queue, load) for queue in queues for load in LOADS if (folder / load).exists()]
    drawn = [case for case in cases if repeated(case, seed)]
    several = RUNS if seed == FIXED else RUNS_THERE
    made = lab.in_parallel([(of_linux, *case, folder, several if case in drawn else 1) for case in cases])
    linux = dict(zip(cases, made))
    missed = [case for case in drawn if list(judge_figures(case, linux[case], "taut", taut[case]))]
    for case, more in zip(missed, lab.in_parallel([(of_linux, *case, folder, RUNS_WHERE_APART) for case in missed])):
        linux[case] = more
    return linux


def shown(runs, figure, unit=1, digits=0):
    """The mean, and the standard deviation where there are several."""
    values = [value / unit for value in numbers(runs, figure)]
    text = f"{statistics.mean(values):.{digits}f}"
    spread = statistics.stdev(values) if len(values) > 1 else 0
    return f"{text} ± {spread:.{digits}f}" if spread else text


def table(linux, taut):
    """taut / Linux; one figure where both have the same."""
    print("| queue | load | packets | drops | first 50 in place | marks | mean wait, ms | longest, ms |")
    print("| --- " * 8 + "|")

    def both(figure, *form):
        pair = shown(ours, figure, *form), shown(theirs, figure, *form)
        return pair[0] if pair[0] == pair[1] else " / ".join(pair)

    for case, theirs in linux.items():
        ours = taut[case]
        same = in_place(ours, theirs)
        cells = [*case, ours[0]["sent"], both("dropped"), same[0] if same else "–"]
        cells += [both("marked"), both("mean_us", 1e3, 2), both("longest_us", 1e3, 1)]
        print("|", " | ".join(map(str, cells)), "|")


def compare(seed, queues):
    """All queues under the loads of one seed. Returns what is broken."""
    with tempfile.TemporaryDirectory(dir=lab.CACHE) as folder:
        folder = pathlib.Path(folder)
        queues_against_linux("loads", seed, folder)
        taut, counted = of_taut(seed, queues), count_taut(seed, queues)
        linux = runs_of_linux(seed, queues, folder, taut)
    table(linux, taut)
    unknown = {name.split(".")[-1] for case, runs in linux.items() for name in runs[0]["counters"] if name not in counted[case]}
    print(f"\nLinux shows, taut does not: {', '.join(sorted(unknown))}")
    if "--update" in sys.argv and seed == FIXED:
        write_expected(linux)
        write_counters(linux)
    elif "--update" in sys.argv:
        write_seeds(seed, linux)
    return judge(linux, taut, counted, seed)


def main():
    # What was committed beside what this taut does: no kernel needed.
    if "--table" in sys.argv:
        expected = read_expected()
        for run in (run for runs in expected.values() for run in runs):
            run["drops"] = list(map(int, run["first_drops"].split()))
        table(expected, of_taut(FIXED))
        print()
        return lab.verdict(table_of_seeds())
    lab.prepare()
    wrong, seeds = [], os.environ.get("SEED", "").split()
    for seed in seeds or [FIXED]:
        if seeds:
            print(f"seed {seed}", flush=True)
        wrong += compare(seed, os.environ.get("QUEUES", "").split() or list(QDISCS))
    return lab.verdict(wrong)


if __name__ == "__main__":
    sys.exit(main())
