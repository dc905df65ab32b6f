"""A table of runs beside their simulated twins, a variant a row: from `taut run … --real|--kernel --json` to Markdown.

    taut run scenarios/transports.toml --real --seeds 1..3 --json -q > real.json
    python3 stats/twins.py real.json

Sessions: milliseconds, simulated → ran; medians over the seeds. A median passes where it is within 10 % or 0.2 ms of the simulated one; a
99th percentile is `apart` where the ranges over the seeds, so widened, do not meet. Commands over several paths: their share in
time, the longest gap between two, latencies, copies. Cross traffic, where there is any, has a table of its own: what arrived, and how late.
"""

import json
import statistics
import sys

from markdown import table

QUANTILES = ["p50", "p90", "p99", "p999"]
HEAD = ["transport", "condition", "p50", "p90", "p99", "p99.9", "arrived, %", "median", "p99"]
HEAD_OF_COMMANDS = ["protocol", "condition", "in time, %", "longest gap, ms", "p50, ms", "p99", "max", "copies"]


HEAD_OF_CROSS = ["beside", "condition", "flow", "Mbit/s", "p50, ms", "p99", "dropped, %"]


def read(runs):
    """{variant: (simulated, ran)}, each a list over seeds; a variant is what stands before its last comma, and behind."""
    found = {}
    for run in runs:
        first, _, last = run["variant"].rpartition(", ")
        if keys := run.get("overridden"):
            # The last part is no value of an axis that was run.
            first, last = f"{run['variant']} (but for {', '.join(keys)})", ""
        simulated, others = found.setdefault((first, last), ([], []))
        simulated.append(run["simulated"])
        others.append(run["real"])
    return found


def latencies(runs, quantile):
    return [run["one_way_ms"][quantile] for run in runs]


def margin(value):
    """What a real one may differ by."""
    return max(0.1 * value, 0.2)


def near(simulated, ran):
    return abs(simulated - ran) <= margin(simulated)


def meet(simulated, ran):
    """Do the ranges over the seeds meet, that of the simulated ones widened by the margin?"""
    least, largest = min(simulated), max(simulated)
    return min(ran) <= largest + margin(largest) and max(ran) >= least - margin(least)


def span(values):
    return f"{number(min(values))} to {number(max(values))}"


def number(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def row(variant, simulated, ran):
    pairs = [(latencies(simulated, q), latencies(ran, q)) for q in QUANTILES]
    arrived = [statistics.median(run["delivered_percent"] for run in runs) for runs in (simulated, ran)]
    medians = [statistics.median(values) for values in pairs[0]]
    return [
        *variant, *(" → ".join(number(statistics.median(values)) for values in pair) for pair in pairs),
        " → ".join(f"{share:.1f}" for share in arrived),
        "PASS" if near(*medians) else "**differs**",
        "meet" if meet(*pairs[2]) else f"apart: {span(pairs[2][0])}, {span(pairs[2][1])}",
    ]


def row_of_commands(variant, simulated, ran):
    quantiles = [lambda run, q=q: run["one_way_ms"][q] for q in ["p50", "p99", "max"]]
    fields = [lambda run: run["in_time_percent"], lambda run: run["gap_ms"], *quantiles, lambda run: run.get("copies")]
    return [*variant, *(" → ".join(median(field, runs) for runs in (simulated, ran)) for field in fields)]


def rows_of_cross(variant, simulated, ran):
    fields = [
        lambda flow: flow["delivered_bps"] / 1e6,
        lambda flow: (flow["delay_ms"] or {}).get("p50"),
        lambda flow: (flow["delay_ms"] or {}).get("p99"),
        lambda flow: flow["loss_percent"],
    ]
    for name in [flow["name"] for flow in ran[0].get("cross", [])]:
        both = [[flow for run in runs for flow in run.get("cross", []) if flow["name"] == name] for runs in (simulated, ran)]
        yield [*variant, name, *(" → ".join(median(field, flows) for flows in both) for field in fields)]


def median(field, runs):
    values = [value for value in map(field, runs) if value is not None]
    return f"{statistics.median(values):.4g}" if values else "–"


def main():
    found = read(json.load(open(sys.argv[1], encoding="utf-8"))["runs"])
    is_commands = any("in_time_percent" in run for simulated, _ in found.values() for run in simulated)
    head, line = (HEAD_OF_COMMANDS, row_of_commands) if is_commands else (HEAD, row)
    print(table(head, [line(variant, simulated, ran) for variant, (simulated, ran) in found.items()]))
    cross = [row for variant, (simulated, ran) in found.items() for row in rows_of_cross(variant, simulated, ran)]
    if cross:
        print("\n" + table(HEAD_OF_CROSS, cross))


if __name__ == "__main__":
    main()
