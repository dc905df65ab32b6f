"""taut's SCTP with the kernel's, over UDP (RFC 6951): do they understand each other, and how much of a haptic flow does each carry?"""

import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "exchange"))
import exchange
import lab

CONVERSATIONS = [
    ("taut", "linux", "client"), ("taut", "linux", "server"), ("linux", "taut", "client"), ("linux", "taut", "server"),
]
# Rates are those of haptic flows, below.
TRANSFERS = {}

# Relative; random losses over a minute.
REPEATS = 0.15
AGREES = {"sctp": 0.25}

CONDITIONS = {"moderate": ("50mbit", "35ms", "1%"), "high": ("10mbit", "150ms", "5%"), "extreme": ("2mbit", "400ms", "10%")}
"""Rate, delay and loss, both ways: those of scenarios/transports.toml."""
MESSAGES, SIZE, PERIOD_NS = 20_000, 113, 1_000_000
BEGIN, DRAIN = 20, 100
"""Seconds since boot, and after the last message was made."""
SESSION = {"min_window": 48_000, "copies": 2}
"""What a session has by default."""
RFC = {"min_window": 4_800, "copies": 1}
# Over UDP, Linux 6.1 sends nothing when an acknowledgement makes room, but waits for its retransmission timer: its flows go over IP.
# As many messages as taut's buffer holds, 1480; Linux counts a page of its own structures with each.
BUFFERED = {"refuse": 1, "sndbuf": 1480 * 1000, "rcvbuf": 4_000_000}
SENDERS = {
    "taut": ("taut", SESSION), "taut, window of RFC 9260": ("taut", RFC), "Linux": ("linux", BUFFERED),
}
RUNS = 2
FLOWS_REPEAT = 0.35
"""Relative; a run of taut's at `extreme` spreads by 15 % (standard deviation), a mean of two differs from another by as much."""
MEASURES = ["arrived", "rate", "p50", "p99"]


def flow(sender, condition, core):
    """MESSAGES of a session's states, reliable, over two streams in turn."""
    who, words = SENDERS[sender]
    rate, delay, loss = CONDITIONS[condition]
    end = BEGIN + MESSAGES * PERIOD_NS // lab.SECOND + DRAIN
    server = {"rcvbuf": BUFFERED["rcvbuf"]} if who == "linux" else words
    variables = {
        "PROTOCOL": "sctp", "CLIENT": who, "SERVER": who, "RATE": rate, "QUEUE": 10_000_000, "DELAY": delay, "LOSS": loss,
        "LOSS_BACK": loss, "NATIVE": int(who == "linux"), "CAPTURE": 0, "END_NS": (end + 10) * lab.SECOND,
        "CLIENT_SAYS": exchange.says(send=MESSAGES, size=SIZE, period_ns=PERIOD_NS, begin_ns=BEGIN * lab.SECOND, streams=2,
                                     reliable=1, close_ns=end * lab.SECOND, **words),
        "SERVER_SAYS": exchange.says(record="/run/out/record", **server),
    }

    def measured(out):
        found = exchange.arrivals(out / "record")
        if not found:
            raise SystemExit(f"{sender}, {condition}: nothing arrived; {exchange.facts(out / 'client')}")
        delays = sorted(arrived - made for _, made, arrived in found)
        seconds = (max(arrived for _, _, arrived in found) - BEGIN * lab.SECOND) / lab.SECOND
        return {
            "arrived": 100 * len(found) / MESSAGES,
            "rate": len(found) * SIZE * 8e-3 / seconds,
            "p50": delays[len(delays) // 2] / 1e6,
            "p99": delays[len(delays) * 99 // 100] / 1e6,
        }

    return exchange.run(variables, measured, core)


def flows():
    """Runs them, prints a table; what is wrong, in words."""
    calls = [(flow, sender, condition) for condition in CONDITIONS for sender in SENDERS for _ in range(RUNS)]
    runs, rows = {}, {}
    for (_, sender, condition), found in zip(calls, lab.in_parallel(calls)):
        runs.setdefault((condition, sender), []).append(found)
    print("\n| condition | sender | arrived, % | kbit/s | p50, ms | p99, ms |")
    print("| --- " * 6 + "|")
    for (condition, sender), found in runs.items():
        mean = rows[f"{condition}, {sender}"] = {key: statistics.mean(run[key] for run in found) for key in MEASURES}
        spread = {key: statistics.stdev(run[key] for run in found) for key in MEASURES}
        cells = [f"{mean[key]:.1f} (sd {spread[key]:.1f})" for key in MEASURES]
        print(f"| {condition} | {sender} | " + " | ".join(cells) + " |")
    path = HERE / "flows.csv"
    if "--update" in sys.argv:
        lab.write_expected(path, "flow", MEASURES, rows, 2)
    expected = {name: row["rate"] for name, row in lab.read_expected(path).items()}
    return [f"{name}: {row['rate']:.1f} kbit/s, expected {expected[name]:.1f}" for name, row in rows.items()
            if abs(row["rate"] / expected[name] - 1) > FLOWS_REPEAT]


def main():
    status = exchange.compare(HERE, ["sctp"], CONVERSATIONS, TRANSFERS, REPEATS, AGREES)
    return lab.verdict(flows()) or status


if __name__ == "__main__":
    sys.exit(main())
