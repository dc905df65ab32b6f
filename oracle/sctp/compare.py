"""taut's SCTP with the kernel's, over UDP (RFC 6951): do they understand each other?"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "exchange"))
import exchange

CONVERSATIONS = [
    ("taut", "linux", "client"), ("taut", "linux", "server"), ("linux", "taut", "client"), ("linux", "taut", "server"),
]
# Linux with itself does not get through 1000-byte messages over UDP here: what is said is compared, not rates.
TRANSFERS = {}

# Relative; random losses over a minute.
REPEATS = 0.15
AGREES = {"sctp": 0.25}

if __name__ == "__main__":
    sys.exit(exchange.compare(HERE, ["sctp"], CONVERSATIONS, TRANSFERS, REPEATS, AGREES))
