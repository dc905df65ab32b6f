"""What a Ray cluster of two workers costs a campaign: ray_overhead.py here|ray [--runs 400] [--duration 60s]

`here` makes the campaign on all cores of this machine, `ray` on a cluster of two workers that it starts first, which is not counted. Each prints how long it took,
what of the machine's processors was used meanwhile, by whomever, and the SHA-256 of `campaign.json`: with the same arguments it is the same.
"""

import argparse
import hashlib
import json
import os
import time
from pathlib import Path

import taut

SCENARIO = Path(__file__).resolve().parents[2] / "scenarios" / "wifi.toml"


def busy():
    """Seconds that processors did anything, of the whole machine (proc_stat(5))."""
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def main(asked):
    campaign = taut.campaign(str(SCENARIO), seeds=range(1, asked.runs + 1), settings={"duration": asked.duration})
    if asked.where == "ray":
        import ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        ready = ray.remote(lambda: None)
        ray.get([ready.remote() for _ in range(2)])
    began, used = time.monotonic(), busy()
    result = campaign.run(on="ray" if asked.where == "ray" else None)
    took, used = time.monotonic() - began, busy() - used
    digest = hashlib.sha256(result.json if isinstance(result.json, bytes) else result.json.encode()).hexdigest()
    print(json.dumps({"where": asked.where, "runs": asked.runs, "duration": asked.duration, "wall_s": round(took, 2), "cpu_s": round(used, 2), "sha256": digest}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("where", choices=["here", "ray"])
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--duration", default="60s")
    main(parser.parse_args())
