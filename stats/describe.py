"""How measures go together, and how delay goes over time."""

import numpy as np
from scipy import stats


def correlations(table):
    """Pearson and Spearman of every two measures over runs, and Pearson within variants, where only chance is left.

    `table`: one row a run: (variant, {measure: value}). Measures that do not vary are left out.
    """
    names = [n for n in table[0][1] if all(n in row and row[n] is not None for _, row in table)] if table else []
    data = np.array([[row[n] for n in names] for _, row in table], dtype=float)
    keep = [i for i in range(len(names)) if np.ptp(data[:, i]) > 0] if len(data) else []
    names, data = [names[i] for i in keep], data[:, keep] if len(data) else data
    if len(names) < 2 or len(data) < 3:
        return {"measures": names, "n": len(data)}
    within = data.copy()
    variants = np.array([variant for variant, _ in table])
    for variant in np.unique(variants):
        within[variants == variant] -= within[variants == variant].mean(axis=0)
    spread = within.std(axis=0)
    # Without spread there is no correlation: not a number becomes absent.
    with np.errstate(invalid="ignore", divide="ignore"):
        inner = (within.T @ within / len(within)) / np.outer(spread, spread)
    ranked = np.apply_along_axis(stats.rankdata, 0, data)
    clean = lambda m: [[None if not np.isfinite(x) else round(float(x), 4) for x in row] for row in m]
    return {
        "measures": names, "n": len(data),
        "pearson": clean(np.corrcoef(data, rowvar=False)),
        "spearman": clean(np.corrcoef(ranked, rowvar=False)),
        "within": clean(inner),
    }


def slope(trend):
    """Slope of one run's delay, ms per second (least squares), and Kendall's tau of time and delay (Mann-Kendall)."""
    mean = np.array([np.nan if v is None else v for v in trend["mean_ms"]], dtype=float)
    time = trend["start_s"] + trend["bucket_s"] * (np.arange(len(mean)) + 0.5)
    there = np.isfinite(mean)
    if there.sum() < 3:
        return None
    if np.ptp(mean[there]) <= 1e-9 * max(1.0, np.abs(mean[there]).max()):
        return {"slope": 0.0, "tau": 0.0}
    tau = stats.kendalltau(time[there], mean[there]).statistic
    return {"slope": float(stats.linregress(time[there], mean[there]).slope), "tau": float(tau)}


def trend(trends):
    """The slope over seeds. A run's points depend on each other, its slope is one number: t with n = seeds.

    """
    slopes = [s for s in map(slope, trends) if s is not None]
    values = np.array([s["slope"] for s in slopes])
    if len(values) < 2:
        return {"n": len(values)}
    found = {"n": len(values), "slope": float(values.mean()), "tau": float(np.mean([s["tau"] for s in slopes]))}
    if np.ptp(values) <= 1e-12:
        return found | {"ci95": [found["slope"]] * 2, "p": None, "note": "identical in all seeds"}
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return found | {"ci95": [found["slope"] - half, found["slope"] + half], "p": float(stats.ttest_1samp(values, 0).pvalue)}


def cdf(curves, points=200):
    """The share of delays below x in each of several runs, on one grid: (x, least, mean, largest)."""
    low = min(c[0][0] for c in curves)
    high = max(c[-1][0] for c in curves)
    grid = np.geomspace(max(low, 1e-3), max(high, 1.001e-3), points)
    each = np.array([np.interp(grid, [x for x, _ in c], [p for _, p in c], left=0.0, right=1.0) for c in curves])
    return grid, each.min(axis=0), each.mean(axis=0), each.max(axis=0)
