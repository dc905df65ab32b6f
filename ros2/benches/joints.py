"""What the bridge adds to joint states at 1 kHz, and what a camera beside them costs: joints.py [--backend dds,zenoh] [--peers direct] [--seconds 10] [--rounds 3]

Two processes, neither of them of taut, write joint states to each other a thousand times a second, each with the time at which it was written. In turn they do
so in one domain, and in two with a bridge beside each and a session between the bridges; then both once more while two more processes pass a
camera's frames of 1 MB the same way, ten a second. A message took from before it was written until it was handed to the other process's callback. Figures
are medians of the rounds, counts are sums. Peers are Eclipse Cyclone DDS, and zenoh-ros2-sdk with a router in this process.

Two more tell what is not the bridge's. Joints in one domain while the camera alone passes the bridges: as many programs want the same processors, and no
joint state passes what the camera does. And, by zenoh, joints in one domain by the router, of which they are clients, instead of directly. How zenoh's peers
meet the bridges is said by `--peers`.

Everything runs in a network namespace of its own, which needs root.
"""

import argparse
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
NAMES = [f"joint{number}" for number in range(7)]
FRAME, FRAMES = 1_000_000, 10
JOINTS, IMAGE = "sensor_msgs/msg/JointState", "sensor_msgs/msg/CompressedImage"
ROUTE = '[[route]]\ntopic = "{topic}"\ntype = "{kind}"\ndirection = "{direction}"\nkeep = "{keep}"\n'
DIRECT, ROUTED = 3, 4  # Domains that have no bridge.


class Dds:
    """Blocks nobody: what comes is handed to a callback on the library's own thread."""

    def __init__(self):
        import messages
        import peers

        self.peer, self.kinds = peers.Dds(), {JOINTS: messages.JointState, IMAGE: messages.CompressedImage}
        self.quality = peers._qos
        self.image = lambda stamp: messages.CompressedImage(stamp, "jpeg", "x" * (FRAME - 1))

    def writer(self, domain, topic, kind):
        from cyclonedds.pub import DataWriter

        writer = DataWriter(*self.peer._topic(domain, topic, self.kinds[kind]), qos=self.quality(True))
        return writer.write, lambda: bool(writer.get_matched_subscriptions())

    def reader(self, domain, topic, kind, callback):
        from cyclonedds.core import Listener
        from cyclonedds.sub import DataReader

        class Came(Listener):
            def on_data_available(self, reader):
                for message in reader.take(64):
                    callback(message)

        reader = DataReader(*self.peer._topic(domain, topic, self.kinds[kind]), qos=self.quality(True), listener=Came())
        return lambda: reader and bool(reader.get_matched_publications())


class Zenoh:
    def __init__(self):
        import zenoh_ros2_sdk as sdk
        from zenoh_ros2_sdk.message_registry import get_registry

        get_registry(os.environ["TAUT_MESSAGES"])
        self.sdk = sdk

    def writer(self, domain, topic, kind):
        from peers import _ZenohWriter

        writer = _ZenohWriter(self.sdk, domain_id=domain, topic=topic, msg_type=kind)
        return writer.write, writer.has_peer

    def reader(self, domain, topic, kind, callback):
        self.subscriber = self.sdk.ROS2Subscriber(callback=callback, domain_id=domain, topic=topic, msg_type=kind)
        return lambda: True

    def image(self, stamp):
        import types

        import numpy

        return types.SimpleNamespace(header=stamp, format="jpeg", data=numpy.zeros(FRAME, dtype=numpy.uint8))


def peer(backend, domain, writes, reads, kind):
    """A process of its own: `writes` and `reads` are topics or -. Each line of its input is for how many seconds to write."""
    from messages import JointState, stamped

    sys.setswitchinterval(0.0005)
    ways, taken = (Dds if backend == "dds" else Zenoh)(), []

    def came(message):
        now, stamp = time.time_ns(), message.header.stamp
        taken.append((now - stamp.sec * 10**9 - stamp.nanosec) / 1e6)

    ready = [] if reads == "-" else [ways.reader(domain, reads, kind, came)]
    write = None
    if writes != "-":
        write, is_heard = ways.writer(domain, writes, kind)
        ready.append(is_heard)
    while not all(is_ready() for is_ready in ready):
        time.sleep(0.01)
    print("ready", flush=True)
    rate = 1_000 if kind == JOINTS else FRAMES
    for line in sys.stdin:
        seconds = float(line)
        taken.clear()
        count = int(seconds * rate) if write else 0
        due = time.monotonic() + 0.2
        for number in range(count):
            time.sleep(max(0.0, due - time.monotonic()))
            stamp = stamped(time.time_ns())
            write(JointState(stamp, NAMES, [0.1] * 7, [0.0] * 7, [float(number)] * 7) if kind == JOINTS else ways.image(stamp))
            due += 1 / rate
        time.sleep(max(0.0, due - time.monotonic()) + (0 if count else seconds) + 1.0)
        print(json.dumps({"sent": count, "ms": sorted(taken)}), flush=True)
    os._exit(0)


class Peer:
    def __init__(self, *words, **env):
        command = [sys.executable, __file__, "--peer", *map(str, words)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | env)

    def ready(self):
        line = self.process.stdout.readline()
        if line != "ready\n":
            raise SystemExit(f"a peer ended; said {line!r}")

    def go(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()

    def told(self):
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait(30)


def at(sorted_, share):
    return sorted_[min(len(sorted_) - 1, int(share * len(sorted_)))] if sorted_ else float("nan")


def measured(there, back, seconds, camera=None):
    """Both write for so long: what of each one's the other had."""
    processes = [there, back, *(camera or [])]
    for one in processes:
        one.go(seconds)
    said = [one.told() for one in processes]
    found = {}
    for name, writer, reader in [("there", 0, 1), ("back", 1, 0), ("camera", 2, 3)][: 3 if camera else 2]:
        came = said[reader]["ms"]
        found[name] = {"lost": said[writer]["sent"] - len(came), "p50": at(came, 0.5), "p99": at(came, 0.99)}
    return found


def bridges(backend, folder, keep, peers):
    """Beside the robot in domain 1, beside the operator in domain 2; both processes."""
    speaks = "" if backend == "dds" else f'backend = "zenoh"\npeers = "{peers}"\n'
    routes = ROUTE.format(topic="/up", kind=JOINTS, direction="to_robot", keep=keep)
    routes += ROUTE.format(topic="/down", kind=JOINTS, direction="to_operator", keep=keep)
    routes += ROUTE.format(topic="/camera", kind=IMAGE, direction="to_operator", keep="newest") + 'largest = "2MB"\n'
    taut, program = os.environ.get("TAUT", "taut"), os.environ.get("TAUT_ROS2", "taut-ros2")
    keys, said = {}, queue.Queue()
    for end in ("robot", "operator"):
        (folder / end).mkdir(mode=0o700)
        identity = [taut, "identity", "--identity", str(folder / end / "key"), "--json"]
        keys[end] = json.loads(subprocess.run(identity, check=True, capture_output=True, text=True).stdout)["fingerprint"]

    def start(end, domain, table, event):
        file = folder / end / "bridge.toml"
        file.write_text(f'{speaks}domain = {domain}\n[{end}]\n{table}identity = "key"\n{routes}')
        process = subprocess.Popen([program, "--json", file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=lambda: [said.put((end, line)) for line in process.stdout], daemon=True).start()
        while (line := json.loads(said.get(timeout=30)[1]))["event"] != event:
            pass
        return process, line

    robot, line = start("robot", 1, f'listen = "127.0.0.1:0"\nstops = "stops"\ntrust = "{keys["operator"]}"\n', "listening")
    operator, _ = start("operator", 2, f'connect = "{line["address"]}"\ntrust = "{keys["robot"]}"\n', "connected")
    return robot, operator, said


def fates(robot, operator, said):
    for process in (robot, operator):
        process.stdin.write("status\n")
        process.stdin.flush()
    time.sleep(0.5)
    found = {}
    while not said.empty():
        end, line = said.get()
        line = json.loads(line)
        if line["event"] == "route":
            found[f"{line['name']} at the {end}"] = line["messages"]
    return found


def bench(backend, asked):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        if backend == "zenoh":
            from peers import Zenoh as Router

            (folder / "messages").mkdir()
            os.environ["TAUT_MESSAGES"] = str(folder / "messages")
            _router = Router(folder / "messages")
        robot, operator, said = bridges(backend, folder, asked.keep, asked.peers)
        groups = {
            "direct": [Peer(backend, DIRECT, "/up", "/down", JOINTS), Peer(backend, DIRECT, "/down", "/up", JOINTS)],
            "bridge": [Peer(backend, 2, "/up", "/down", JOINTS), Peer(backend, 1, "/down", "/up", JOINTS)],
            "direct camera": [Peer(backend, DIRECT, "/camera", "-", IMAGE), Peer(backend, DIRECT, "-", "/camera", IMAGE)],
            "bridge camera": [Peer(backend, 1, "/camera", "-", IMAGE), Peer(backend, 2, "-", "/camera", IMAGE)],
        }
        # What is measured, and of which groups.
        turns = {"direct": ("direct", None), "direct, camera": ("direct", "direct camera"), "bridge": ("bridge", None)}
        turns |= {"bridge, camera": ("bridge", "bridge camera"), "direct, bridge's camera": ("direct", "bridge camera")}
        if backend == "zenoh":
            client = {"ZENOH_CONFIG_OVERRIDE": 'mode="client"'}
            groups["routed"] = [Peer(backend, ROUTED, "/up", "/down", JOINTS, **client), Peer(backend, ROUTED, "/down", "/up", JOINTS, **client)]
            turns["by the router"] = ("routed", None)
        rounds = {}
        try:
            for one in sum(groups.values(), []):
                one.ready()
            for joints, camera in turns.values():
                measured(*groups[joints], 1, groups.get(camera))  # The first messages open the ways.
            for _ in range(asked.rounds):
                for name, (joints, camera) in turns.items():
                    rounds.setdefault(name, []).append(measured(*groups[joints], asked.seconds, groups.get(camera)))
            became = fates(robot, operator, said)
        finally:
            for one in sum(groups.values(), []):
                one.process.kill()
            robot.kill(), operator.kill()
    return rounds, became


def summary(rounds):
    found = {}
    for name, all_ in rounds.items():
        for stream in all_[0]:
            of = lambda key: [one[stream][key] for one in all_]  # noqa: B023, E731
            found[f"{name}: {stream}"] = {"lost": sum(of("lost")), "p50": statistics.median(of("p50")), "p99": statistics.median(of("p99"))}
    return found


def main(asked):
    if "TAUT_BENCH_NETNS" not in os.environ:
        os.environ["TAUT_BENCH_NETNS"] = "1"
        os.execvp("unshare", ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv])
    for backend in asked.backend.split(","):
        rounds, became = bench(backend, asked)
        found = summary(rounds)
        if asked.json:
            print(json.dumps({"backend": backend, "peers": asked.peers, "keep": asked.keep, "found": found, "rounds": rounds, "messages": became}), flush=True)
            continue
        print(f"{backend}{', bridges met ' + asked.peers if backend == 'zenoh' else ''}, {asked.keep}: {asked.rounds} rounds of {asked.seconds:g} s, ms")
        for name, one in found.items():
            print(f"  {name:31} lost {one['lost']:4}  p50 {one['p50']:.3f}  p99 {one['p99']:.3f}")
        for stream in ("there", "back"):
            added = found[f"bridge: {stream}"]["p50"] - found[f"direct: {stream}"]["p50"]
            moves = lambda beside, alone: found[f"{beside}: {stream}"]["p99"] - found[f"{alone}: {stream}"]["p99"]  # noqa: B023, E731
            moved = [moves("bridge, camera", "bridge"), moves("direct, bridge's camera", "direct"), moves("direct, camera", "direct")]
            told = "the bridge adds {:.3f} at p50; a camera {:+.3f} at its p99, {:+.3f} where it alone passes bridges, {:+.3f} without any"
            print(f"  {stream}: {told.format(added, *moved)}")
        print(f"  {json.dumps(became)}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        backend, domain, *rest = sys.argv[2:]
        peer(backend, int(domain), *rest)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="dds,zenoh")
    parser.add_argument("--peers", default="by_router", choices=["by_router", "direct"], help="how zenoh meets the bridges")
    parser.add_argument("--keep", default="reliable", choices=["reliable", "newest"])
    parser.add_argument("--seconds", type=float, default=10, help="of one measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    main(parser.parse_args())
