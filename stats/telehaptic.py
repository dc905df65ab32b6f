"""The table of `scenarios/telehaptic-qos/load.toml`, a load a row: from a campaign's JSON to Markdown.

    taut run scenarios/telehaptic-qos/load.toml --seeds 1..20 --json -q > load.json
    python3 stats/telehaptic.py load.json

Means over the seeds, and in brackets the least and the largest of a seed where they differ. The model's columns and those of others are not of a run.
"""

import json
import sys

from markdown import table

COLUMNS = [
    ("d_min", "backward haptic d_min, mean over TCP's cycles", 2),
    ("least", "backward haptic d_min, whole run", 2),
    ("d_max", "backward haptic d_max, mean over TCP's cycles", 2),
    ("largest", "backward haptic d_max, whole run", 2),
    ("jitter", "backward haptic jitter", 3),
    ("haptic loss %", "backward haptic loss", 3),
    ("video frames lost %", "backward video loss", 1),
]


def cell(measure, digits):
    values = [value for value in measure["values"] if value is not None]
    mean, least, most = (f"{value:.{digits}f}" for value in (sum(values) / len(values), min(values), max(values)))
    return mean if least == most else f"{mean} ({least}–{most})"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        variants = json.load(file)["variants"]
    rows = []
    for variant in variants:
        measures = {measure["name"]: measure for measure in variant["measures"]}
        rows.append([variant["name"], *(cell(measures[name], digits) for _, name, digits in COLUMNS)])
    print(table(["", *(head for head, _, _ in COLUMNS)], rows))


if __name__ == "__main__":
    main()
