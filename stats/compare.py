"""Do groups differ? A run is one observation: n is the number of seeds, never that of messages.

One-way ANOVA (Fisher) and Welch's, Tukey's HSD and Games-Howell, effect sizes, the assumptions (Levene, Shapiro-Wilk), and
the twins that assume no distribution: Kruskal-Wallis with Dunn, and Friedman, which uses that groups share their seeds.
Numbers come from scipy, statsmodels and scikit-posthocs; effect sizes are formulas (Hedges 1981; Hays 1963).
"""

import math
from itertools import combinations

import numpy as np
import scikit_posthocs
from scipy import stats
from statsmodels.stats.multitest import multipletests

# Spread below this share of the mean is rounding: the group says the same in every seed.
SAME = 1e-9


def constant(values):
    """All runs say the same."""
    values = np.asarray(values, dtype=float)
    return float(np.ptp(values)) <= SAME * max(1.0, float(np.max(np.abs(values))))


def hedges_g(a, b):
    """Cohen's d with the pooled standard deviation, and Hedges' g, corrected for few observations; None without spread."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    freedom = len(a) + len(b) - 2
    if freedom < 1 or (constant(a) and constant(b)):
        return None, None
    pooled = ((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / freedom
    d = (a.mean() - b.mean()) / math.sqrt(pooled)
    log_j = math.lgamma(freedom / 2) - math.lgamma((freedom - 1) / 2) - 0.5 * math.log(freedom / 2) if freedom > 1 else -math.inf
    return float(d), float(d * math.exp(log_j))


def effect(groups):
    """The share of the variance that the groups explain: eta squared, and omega squared, which chance does not inflate."""
    every = np.concatenate(groups)
    total = float(((every - every.mean()) ** 2).sum())
    within = float(sum(((g - g.mean()) ** 2).sum() for g in groups))
    between, k, n = total - within, len(groups), len(every)
    if total <= 0 or n <= k:
        return None, None
    mean_within = within / (n - k)
    return between / total, (between - (k - 1) * mean_within) / (total + mean_within)


def pairs(names, groups):
    """Every pair: difference of means, Tukey's and Games-Howell's adjusted p and interval, Hedges' g."""
    tukey = stats.tukey_hsd(*groups)
    howell = stats.tukey_hsd(*groups, equal_var=False)
    interval = howell.confidence_interval()
    found = []
    for i, j in combinations(range(len(names)), 2):
        d, g = hedges_g(groups[i], groups[j])
        found.append({
            "a": names[i], "b": names[j], "difference": float(groups[i].mean() - groups[j].mean()),
            "tukey_p": float(tukey.pvalue[i, j]), "games_howell_p": float(howell.pvalue[i, j]),
            "games_howell_ci95": [float(interval.low[i, j]), float(interval.high[i, j])],
            "cohen_d": d, "hedges_g": g,
        })
    return found


def blocks(samples, seeds):
    """The seeds that every group has, and of each group their values, in one order."""
    by_seed = [dict(zip(seeds[name], values)) for name, values in samples.items()]
    shared = sorted(set.intersection(*map(set, by_seed)))
    return shared, [[values[seed] for seed in shared] for values in by_seed]


def ranks(samples, seeds):
    """Kruskal-Wallis with Dunn (Holm), and Friedman over the seeds that every group has."""
    names, groups = list(samples), list(samples.values())
    if constant(np.concatenate(groups)):
        return {}
    h = stats.kruskal(*groups)
    dunn = scikit_posthocs.posthoc_dunn(groups, p_adjust="holm").to_numpy()
    found = {
        "kruskal": {"h": float(h.statistic), "p": float(h.pvalue)},
        "dunn": [{"a": names[i], "b": names[j], "p": float(dunn[i, j])} for i, j in combinations(range(len(names)), 2)],
    }
    shared, of_shared = blocks(samples, seeds)
    if len(groups) > 2 and len(shared) > 1 and not constant(np.concatenate(of_shared)):
        friedman, every = stats.friedmanchisquare(*of_shared), max(map(len, groups))
        found["friedman"] = {"chi2": float(friedman.statistic), "p": float(friedman.pvalue), "seeds": len(shared)}
        if len(shared) < every:
            found["friedman"]["note"] = f"Friedman over the {len(shared)} seeds of {every} that all have"
    return found


def compare(samples, seeds=None):
    """Holds groups of runs against each other: {name: values}, and {name: the seed of each}, without which all have the same in one
    order. What cannot be tested is said in `note`, never made up."""
    seeds = seeds or {name: range(len(values)) for name, values in samples.items()}
    samples = {name: np.asarray(values, dtype=float) for name, values in samples.items() if len(values) > 1}
    result = {
        "groups": {
            name: {"n": len(v), "mean": float(v.mean()), "sd": 0.0 if constant(v) else float(v.std(ddof=1)), "identical": constant(v)}
            for name, v in samples.items()
        }
    }
    if len(samples) < 2:
        return result | {"note": "fewer than two groups have two runs"}
    varied = {name: v for name, v in samples.items() if not constant(v)}
    still = [name for name in samples if name not in varied]
    if not varied:
        same = constant(np.concatenate(list(samples.values())))
        what = "identical in all seeds and all groups" if same else "identical in all seeds: differences are exact, there is nothing to test"
        return result | {"note": what}
    result |= ranks(samples, seeds)
    if len(varied) < 2:
        return result | {"note": f"only {next(iter(varied))} varies; the others are identical in all seeds"}
    if still:
        result["note"] = "identical in all seeds, compared by rank only: " + ", ".join(still)
    names, groups = list(varied), list(varied.values())
    f, welch = stats.f_oneway(*groups), stats.f_oneway(*groups, equal_var=False)
    eta, omega = effect(groups)
    # Residuals of groups of different spread, each in units of its own.
    residuals = np.concatenate([(g - g.mean()) / g.std(ddof=1) for g in groups])
    result |= {
        "anova": {"f": float(f.statistic), "df": [len(groups) - 1, sum(map(len, groups)) - len(groups)], "p": float(f.pvalue)},
        "welch": {"f": float(welch.statistic), "p": float(welch.pvalue)},
        "eta2": eta, "omega2": omega,
        "levene_p": float(stats.levene(*groups, center="median").pvalue),
        "shapiro_p": float(stats.shapiro(residuals).pvalue),
        "pairs": pairs(names, groups),
    }
    return result


def holm(results):
    """Corrects the p of Welch and Kruskal-Wallis for how many comparisons the campaign makes; in place."""
    for test in ("welch", "kruskal", "friedman"):
        have = [r[test] for r in results if test in r and math.isfinite(r[test]["p"])]
        if have:
            for r, p in zip(have, multipletests([r["p"] for r in have], method="holm")[1]):
                r["p_holm"] = float(p)
