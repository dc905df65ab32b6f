"""A table of a flow of commands, a variant a row: from a campaign's JSON (`taut run … --json`) to Markdown.

    taut run scenarios/two-5g-links.toml --seeds 1..25 --json -q > campaign.json
    python3 stats/commands.py campaign.json

Means over the seeds, ± half the width of the 95 % confidence interval where they are not all the same; the maximum is of all seeds. Protocols
whose rows are the same share one. Conditions that differ in the number of a recording alone (`d congestion 3`) are one table: means over them, and
the least share in time of any run, and a column that is the same in all rows is said above the table.
"""

import json
import re
import sys

from markdown import table

HEAD = ["", "in time %", "least", "bound %", "below it", "received %", "late", "mean", "p50", "p95", "p99", "p99.9", "max", "copies",
        "kB there", "kB back", "packets there", "packets back", "radio mJ"]


def value(measures, name, digits, interval=False):
    measure = measures.get(f"commands {name}")
    if measure is None:
        return "–"
    text = f"{measure['mean']:.{digits}f}"
    half = measure["ci95"]
    return f"{text} ± {half:.{digits}f}" if interval and half and half >= 0.5 * 10**-digits else text


def least(measures):
    return f"{measures['commands in time']['min']:.3f}"


def over_recordings(runs):
    """The measures of several recordings as those of one."""
    if len(runs) == 1:
        return runs[0]
    mean = lambda all_of: sum(one["mean"] for one in all_of) / len(all_of)
    of = {name: [run[name] for run in runs if name in run] for name in runs[0]}
    return {
        name: {"mean": mean(all_of), "ci95": None, "min": min(one["min"] for one in all_of), "max": max(one["max"] for one in all_of)}
        for name, all_of in of.items()
    }


def paths(measures, what, digits=0):
    found = []
    while f"commands path {len(found)} {what}" in measures:
        found.append(f"{measures[f'commands path {len(found)} {what}']['mean']:.{digits}f}")
    return " / ".join(found)


def row(name, measures):
    largest = measures.get("commands latency max")
    return [
        name, value(measures, "in time", 3, True), least(measures), value(measures, "bound", 3), value(measures, "below bound", 3, True),
        value(measures, "received", 3), value(measures, "late", 1),
        value(measures, "latency", 3), *(value(measures, f"latency {q}", 2) for q in ("p50", "p95", "p99", "p99.9")),
        "–" if largest is None else f"{largest['max']:.2f}", value(measures, "copies", 3, True),
        paths(measures, "there bytes"), paths(measures, "back bytes"), paths(measures, "there packets"), paths(measures, "back packets"),
        paths(measures, "radio"),
    ]


def compact(rows):
    """Rows that differ in their name only as one; and the columns that are the same in all, as a sentence."""
    joined = {}
    for name, *cells in rows:
        joined.setdefault(tuple(cells), []).append(name)
    rows = [[", ".join(names), *cells] for cells, names in joined.items()]
    same = [column for column in range(1, len(HEAD)) if len(rows) > 1 and len({row[column] for row in rows}) == 1]
    said = ", ".join(f"{HEAD[column]} {rows[0][column]}" for column in same)
    kept = [column for column in range(len(HEAD)) if column not in same]
    return said, [HEAD[column] for column in kept], [[row[column] for column in kept] for row in rows]


def main():
    campaign = json.load(open(sys.argv[1], encoding="utf-8"))
    conditions = {}
    for variant in campaign["variants"]:
        protocol, _, condition = variant["name"].rpartition(", ")
        for known in ("1 kHz", "33 Hz"):
            if protocol.endswith(known):
                protocol, condition = protocol.removesuffix(f", {known}"), f"{known}, {condition}"
        measures = {measure["name"]: measure for measure in variant["measures"]}
        condition = re.sub(r" \d+(?= later$|$)", "", condition)
        conditions.setdefault(condition, {}).setdefault(protocol, []).append(measures)
    for condition, rows in conditions.items():
        said, head, cells = compact([row(name, over_recordings(runs)) for name, runs in rows.items()])
        print(f"### {condition}\n" + (f"\nIn every row: {said}.\n" if said else ""))
        print(table(head, cells) + "\n")


if __name__ == "__main__":
    main()
