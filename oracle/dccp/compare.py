"""taut's DCCP with the kernel's, over IP protocol 33: do they understand each other, and what does each get through?"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "exchange"))
import exchange

CONVERSATIONS = [
    ("taut", "linux", "client"), ("taut", "linux", "server"), ("linux", "taut", "client"), ("linux", "taut", "server"),
]
TRANSFERS = {"0%": 1, "1%": 2}

# Relative; random losses over a minute.
REPEATS = 0.15
AGREES = {"dccp2": 0.25, "dccp3": 0.25}

if __name__ == "__main__":
    sys.exit(exchange.compare(HERE, ["dccp2", "dccp3"], CONVERSATIONS, TRANSFERS, REPEATS, AGREES))
