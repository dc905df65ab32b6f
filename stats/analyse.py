#!/usr/bin/env python3
"""The statistics of a campaign: what `taut run SCENARIO --seeds … --out FOLDER` left in FOLDER.

    stats/analyse.py FOLDER [--measure NAME]… [--out FOLDER] [--json]

Writes statistics.html and statistics.md to --out, or prints JSON. A variant's name is `GROUP, CONDITION`, as the first
axis of a scenario and the rest of its axes make it: groups are compared within each condition.
"""

import argparse
import json
import math
import re
import sys
from pathlib import Path

import numpy as np

import compare
import describe
import page as pages

MEASURES = [
    "session one way p50", "session one way p99", "session jitter", "session arrived",
    "session payload of bytes sent", "session handshake",
]


class BadInput(Exception):
    """One line that says what is wrong and what to do."""


def read(folder):
    file = folder / "campaign.json"
    try:
        campaign = json.loads(file.read_text())
    except FileNotFoundError:
        raise BadInput(f"there is no {file}; `taut run SCENARIO --seeds 1..5 --out {folder}` makes it") from None
    except ValueError as error:
        raise BadInput(f"{file} is not the result of a campaign: {error}") from None
    if not campaign.get("variants") or any("values" not in m for v in campaign["variants"] for m in v["measures"]):
        raise BadInput(f"{file} has no values by seed: it was made by an older taut; run the campaign again")
    return campaign


def split(variant):
    group, _, condition = variant["name"].partition(", ")
    keys = variant.get("overridden")
    return group, f"{condition} (but for {', '.join(keys)})" if keys else condition


def by_condition(campaign):
    found = {}
    for variant in campaign["variants"]:
        group, condition = split(variant)
        found.setdefault(condition, {})[group] = variant
    return found


def values(variant, measure):
    """{seed: value}; a run in which it could not be measured is left out."""
    for m in variant["measures"]:
        if m["name"] == measure:
            return {seed: v for seed, v in zip(variant["seeds"], m["values"]) if v is not None}
    return {}


def comparisons(campaign, measures):
    found = []
    for condition, variants in by_condition(campaign).items():
        for measure in measures:
            samples = {group: values(variant, measure) for group, variant in variants.items()}
            absent = [group for group, v in samples.items() if len(v) < len(variants[group]["seeds"])]
            result = compare.compare({group: list(v.values()) for group, v in samples.items()}, {group: list(v) for group, v in samples.items()})
            found.append({"condition": condition, "measure": measure, "absent": absent, **result})
    compare.holm(found)
    return found


def trends(campaign):
    found = []
    for variant in campaign["variants"]:
        group, condition = split(variant)
        streams = sorted({t["stream"] for t in variant.get("trends", [])})
        for stream in streams:
            of = [t for t in variant["trends"] if t["stream"] == stream]
            found.append({"condition": condition, "group": group, "stream": stream, **describe.trend(of)})
    have = [t for t in found if t.get("p") is not None and math.isfinite(t["p"])]
    if have:
        for t, p in zip(have, compare.multipletests([t["p"] for t in have], method="holm")[1]):
            t["p_holm"] = float(p)
    return found


def correlations(campaign, measures):
    found = {}
    for condition, variants in by_condition(campaign).items():
        rows = []
        for group, variant in variants.items():
            of = {m["name"]: m["values"] for m in variant["measures"] if m["name"] in measures}
            for i in range(len(variant["seeds"])):
                rows.append((group, {name: v[i] for name, v in of.items()}))
        # A carrier of which nothing arrived has no delay: it is left out, not the measure.
        rows = [row for row in rows if all(row[1].get(m) is not None for m in measures)]
        found[condition] = describe.correlations(rows)
    return found


def curves(folder, variant, stream="forward haptic"):
    """The CDF of each run of a variant, from its run's file."""
    found = []
    words = filter(None, re.split(r"[^A-Za-z0-9.]+", variant["name"]))
    runs = folder / "runs" / "-".join([f"{variant['index']:02}", *words]).lower()
    # Runs of an earlier campaign may lie beside its own.
    for file in filter(Path.exists, (runs / f"seed-{seed}.json" for seed in variant["seeds"])):
        run = json.loads(file.read_text())
        medium = next((m for m in run["media"] if m["stream"] == stream and m["delay_ms"]), None)
        if medium:
            found.append(medium["delay_ms"]["cdf"])
    return found


ASSUMPTIONS = (
    "A run is one observation: n is the number of seeds. Welch's ANOVA and Games-Howell do not need equal variances; Fisher's and "
    "Tukey's stand beside them. Levene (medians) and Shapiro-Wilk (residuals in units of their group's spread) test what they "
    "assume; with few seeds neither notices much. Kruskal-Wallis with Dunn assumes no distribution. Every group has the same "
    "seeds, hence partly the same chance: Friedman uses that, the others ignore it. p is corrected by Holm over all conditions and "
    "measures of a test; among pairs by the test itself. What is identical in all seeds is not tested."
)


def omnibus_row(r):
    get = lambda test, key="p_holm": pages.number(r.get(test, {}).get(key))
    strongest = max((p for p in r.get("pairs", []) if p["hedges_g"] is not None), key=lambda p: abs(p["hedges_g"]), default=None)
    absent = f"not measured in all seeds: {', '.join(r['absent'])}" if r["absent"] else None
    apart = sum(p["games_howell_p"] < 0.05 for p in r.get("pairs", []))
    return [
        r["measure"], get("welch", "f"), get("welch"), get("kruskal"), get("friedman"), pages.number(r.get("eta2")),
        pages.number(r.get("omega2")), pages.number(r.get("levene_p")), pages.number(r.get("shapiro_p")),
        f"{apart} of {len(r['pairs'])}" if "pairs" in r else "–",
        f"{strongest['a']} – {strongest['b']}: {pages.number(strongest['hedges_g'])}" if strongest else "–",
        "; ".join(filter(None, (r.get("note"), r.get("friedman", {}).get("note"), absent))),
    ]


def document(campaign, folder, result):
    page = pages.Page()
    page.heading("Statistics: " + campaign["title"], 1)
    page.text(ASSUMPTIONS)
    head = ["measure", "Welch F", "p", "Kruskal p", "Friedman p", "η²", "ω²", "Levene p", "Shapiro p", "pairs apart (Games-Howell)", "largest Hedges' g", ""]
    for i, variant in enumerate(campaign["variants"], 1):
        variant["index"] = i
    for condition, variants in by_condition(campaign).items():
        page.heading(condition or "All")
        of = [r for r in result["comparisons"] if r["condition"] == condition]
        page.table(head, [omnibus_row(r) for r in of])
        runs = {group: curves(folder, variant) for group, variant in variants.items()}
        if any(runs.values()):
            page.picture(pages.cdfs({g: describe.cdf(c) for g, c in runs.items() if c}, "Delay: mean over seeds, band from least to largest"))
        lines = {}
        for group, variant in variants.items():
            of = [t for t in variant.get("trends", []) if t["stream"] == "forward haptic"]
            if of:
                mean = np.array([[np.nan if v is None else v for v in t["mean_ms"]] for t in of], dtype=float)
                time = of[0]["start_s"] + of[0]["bucket_s"] * (np.arange(mean.shape[1]) + 0.5)
                # Where nothing arrived in any seed there is no mean.
                held = np.isfinite(mean).any(axis=0)
                lines[group] = (time[held], np.nanmean(mean[:, held], axis=0))
        if lines:
            page.picture(pages.over_time(lines, "Delay over time, mean over seeds"))
        rows = [t for t in result["trends"] if t["condition"] == condition and "slope" in t]
        if rows:
            page.table(
                ["carrier", "stream", "slope, ms/s", "95 % interval", "p (Holm)", "Kendall's τ"],
                [[t["group"], t["stream"], pages.number(t["slope"]), " to ".join(map(pages.number, t["ci95"])), pages.number(t.get("p_holm")), pages.number(t["tau"])] for t in rows],
            )
        matrix = result["correlations"][condition]
        for kind, title in (("spearman", "Spearman, over all runs"), ("within", "Pearson, within carriers")):
            if kind in matrix:
                page.picture(pages.heat(matrix[kind], matrix["measures"], title))
    return page.documents(campaign["title"])


def analyse(folder, measures):
    campaign = read(folder)
    known = {m["name"] for v in campaign["variants"] for m in v["measures"]}
    unknown = [m for m in measures if m not in known]
    if unknown:
        raise BadInput(f"{folder}: no run has the measure `{unknown[0]}`; there are {', '.join(sorted(known))}")
    result = {
        "title": campaign["title"], "taut": campaign["taut"],
        "comparisons": comparisons(campaign, measures), "trends": trends(campaign),
        "correlations": correlations(campaign, measures),
    }
    return campaign, result


def finite(value):
    """What is not a number is absent: JSON has none."""
    if isinstance(value, dict):
        return {key: finite(v) for key, v in value.items()}
    if isinstance(value, list):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--measure", action="append", help="by its name in campaign.json; repeatable")
    parser.add_argument("--out", type=Path, help="where the pages go; else beside campaign.json")
    parser.add_argument("--json", action="store_true", help="print everything as JSON, write no page")
    asked = parser.parse_args(arguments)
    try:
        campaign, result = analyse(asked.folder, asked.measure or MEASURES)
    except BadInput as error:
        print(f"stats: {error}", file=sys.stderr)
        return 2
    if asked.json:
        json.dump(finite(result), sys.stdout, indent=1, ensure_ascii=False, allow_nan=False)
        print()
        return 0
    out = asked.out or asked.folder
    out.mkdir(parents=True, exist_ok=True)
    page, markdown = document(campaign, asked.folder, result)
    (out / "statistics.html").write_text(page)
    (out / "statistics.md").write_text(markdown)
    print(f"wrote {out / 'statistics.html'} and statistics.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
