"""The MuJoCo arm pressed against a wall and foam, in the simulator and over real sockets: pressed.py --taut PROGRAM [--real 3] [--seeds 5] [--law LAW,… [--reserve J]] [--json]

The same two objects stand at the ends of both: `taut.robots.mujoco.Arm`, and a hand that goes 17 cm forward in two seconds, 2 cm into what is there,
and stays. The network is LTE, Wi-Fi or two 5G links, of scenarios/; in the simulator by a seed, on sockets by `taut emulate --relay`, of two links
with a network namespace for each relay, which needs root. Tracking error: how far the arm is behind the hand before it touches, rms. Force error: what
the hand feels beside what it feels at that time over a direct link, rms. The simulator's seeds have a spread; does what was measured lie within?
Hosts and relays take time of their own, which no link of a scenario has: it is measured over relays that delay everything by a millisecond, of each transport, and half of it
is put into each direction of the simulated links.
By a control law the same `taut.Control` is at both ends of both, over the arm's own controller; the direct link has that law as well.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import taut
from taut._progress import Progress
from taut.robots.mujoco import DAMPING, HOME, LIMITS, STIFFNESS, Arm

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
#: The hand sets out a second after the network began, in both worlds: rates change with the time.
WAIT, SECONDS, REACH, APPROACH = 1.0, 7, 0.17, 2.0
ALONE = multiprocessing.get_context("spawn")
PUSH = 20.0  # N that the hand is pushed with at most.
SINGLE, DOUBLE = ("udp", "etp", "quic", "sctp"), ("mtip", "mpquic")
NETWORKS = {"LTE": ("lte.toml", SINGLE), "Wi-Fi": ("wifi.toml", SINGLE), "two 5G links": ("two-5g-links.toml", DOUBLE)}
DIRECT = '[links.direct]\nbetween = ["operator", "robot"]\nchain = [{ delay = "1us" }]\n'
TELEOP = """
[teleop]
operator = "{operator}"
paths = {paths}
robot = "robot"
watchdog = "5s"
max_age = "1s"
environment = "free"
"""


class Press:
    """Notes when it was where, and what it felt then."""

    def __init__(self, begin=0.0):
        self.begin, self.x, self.apart, self.forces = begin, 0.0, [], []

    def sample(self):
        share = (taut.monotonic() - self.begin - WAIT) / APPROACH
        self.x = REACH * min(1.0, max(0.0, share))
        speed = REACH / APPROACH if 0.0 < share < 1.0 else 0.0
        return taut.State((self.x, HOME[1], HOME[2]), velocity=(speed, 0.0, 0.0))

    def feel(self, state):
        if 0.01 < self.x < 0.1:  # Under way, and before it touches.
            self.apart.append(self.x - state.position[0])
        self.forces.append((taut.monotonic() - self.begin, -state.force[0]))

    def lost(self):
        pass

    def tracking_mm(self):
        return 1e3 * rms(self.apart) if self.apart else None

    def felt(self):
        """The force at each hundredth of a second, as it was felt last."""
        at, last, forces = 0, 0.0, []
        for tick in range(100 * SECONDS):
            while at < len(self.forces) and self.forces[at][0] <= tick / 100:
                last = self.forces[at][1]
                at += 1
            forces.append(last)
        return forces


def rms(numbers):
    return (sum(number * number for number in numbers) / len(numbers)) ** 0.5


def links_of(text, hosts=0.0):
    """The tables of links of a scenario, as they stand there, each with half of what the hosts take, s."""
    delay = f'delay = "{round(1e9 * hosts / 2)}ns"'
    taken, chains, keeps = [], {}, False
    for line in text.splitlines():
        if line.startswith("["):
            keeps = line.startswith(("[links.", "[[links."))
            if keeps and line.startswith("[[") and hosts:
                chains[line] = delay
        if keeps:
            taken.append(line.replace("chain = [", f"chain = [{{ {delay} }}, ") if hosts else line)
    return "\n".join([*taken, *(line for chain in chains.items() for line in chain)])


def even_links(double):
    """Links without luck, which delay everything alike."""
    names, operator = ("ab", "controller") if double else ("a", "operator")
    return "".join(f'[links.{name}]\nbetween = ["{operator}", "robot"]\nchain = [{{ delay = "1ms" }}]\n' for name in names)


def scenario(folder, name, links, operator="operator", paths=1):
    path = Path(folder) / f"{name.replace(' ', '-')}.toml"
    path.write_text(f'title = "pressed: {name}"\nduration = "{SECONDS}s"\n{links}\n{TELEOP.format(operator=operator, paths=paths)}')
    return path


def control_of(law, reserve):
    return taut.Control(law, servo=(STIFFNESS, DAMPING), reserve=reserve) if law else None


def simulated(path, touches, control, seed, transport="udp"):
    hand, settings = Press(), {"teleop.device_force": PUSH, "teleop.transport": transport, "teleop.reliable": False}
    ends = dict(robot=Arm(touches), operator=hand, limits=taut.Limits(**LIMITS), control=control)
    taut.simulate(path, seed=seed, settings=settings, **ends)
    return hand


class Relays:
    """`taut emulate --relay` before a robot; of several links one in a namespace each, joined to this one by a veth pair."""

    def __init__(self, program, path, robot, links, seed):
        self.processes, self.devices = [], []
        if len(links) == 1:
            self.address, self.paths = self._start(program, path, f"127.0.0.1:0={robot}", [], seed, []), ()
            return
        self.address, self.paths = "10.9.0.9:7000", tuple(f"net{number}" for number in range(len(links)))
        port = robot.rpartition(":")[2]
        for number, link in enumerate(links):
            wait = ["unshare", "-n", "sh", "-c", 'read go; exec "$@"', "sh"]
            self._start(program, path, f"{self.address}=10.{number + 1}.0.1:{port}", ["--link", link], seed, wait, number)

    def _start(self, program, path, relay, more, seed, wait, number=None):
        command = [*wait, program, "emulate", str(path), "--relay", relay, "--seed", str(seed), "--json", *more]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        if number is not None:
            self._join(process.pid, number)
            print(file=process.stdin, flush=True)
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"{program} emulate ended; see above")
        return json.loads(line)["address"]

    def _join(self, pid, number):
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{pid}/ns/net") == own:
            time.sleep(0.005)
        here = lambda *words: subprocess.run(["ip", *words], check=True)
        there = lambda *words: subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", *words], check=True)
        device = f"net{number}"
        here("link", "add", device, "type", "veth", "peer", "name", "relay", "netns", str(pid))
        self.devices.append(device)
        here("addr", "add", f"10.{number + 1}.0.1/24", "dev", device)
        here("link", "set", device, "up")
        there("addr", "add", f"10.{number + 1}.0.2/24", "dev", "relay")
        there("addr", "add", "10.9.0.9/32", "dev", "relay")
        there("link", "set", "relay", "up")
        here("route", "add", "10.9.0.9", "via", f"10.{number + 1}.0.2", "dev", device, "metric", str(number + 1))

    def end(self):
        for process in self.processes:
            process.terminate()
            process.wait(30)
        for device in self.devices:
            subprocess.run(["ip", "link", "del", device], stderr=subprocess.DEVNULL)  # It may have gone with the other end.


def robot_of(pipe, listen, touches, settings):
    """The robot, in a process of its own as on a machine of its own: two programs at 1 kHz in one would wait for one interpreter lock."""
    with taut.Robot(listen, limits=taut.Limits(**LIMITS), device=Arm(touches), keeps_stops_in=None, watchdog=5.0, **settings) as robot:
        pipe.send(robot.address)
        pipe.recv()


def real(program, path, touches, control, seed, transport, links):
    with tempfile.TemporaryDirectory() as folder:
        keys = [f"{folder}/{end}.key" for end in ("robot", "operator")]
        prints = [taut.fingerprint(key) for key in keys]
        listen = "127.0.0.1:0" if len(links) == 1 else "0.0.0.0:0"
        settings = dict(identity=keys[0], trust=prints[1], transport=transport, control=control)
        here, there = ALONE.Pipe()
        robot = ALONE.Process(target=robot_of, args=(there, listen, touches, settings), daemon=True)
        robot.start()
        if not here.poll(30):
            robot.kill()
            raise SystemExit("the robot does not begin within 30 s; see above")
        relays = Relays(program, path, here.recv(), links, seed)
        hand = Press(taut.monotonic())
        try:
            settings = dict(force_limit=PUSH, deadline=1.0, transport=transport, paths=relays.paths, control=control)
            with taut.connect(relays.address, identity=keys[1], trust=prints[0], **settings) as operator:
                # As in the simulator the hand is asked from the first moment on, and not from when the robot may move.
                resumed = threading.Thread(target=operator.resume, args=(10,))
                resumed.start()
                operator.drive(hand, hand.begin + SECONDS - taut.monotonic())
                resumed.join()
        finally:
            relays.end()
            here.send("end")
            robot.join(10)
            robot.kill()
    return hand


def cases(asked):
    for network, (file, transports) in NETWORKS.items():
        for touches in ("wall", "foam"):
            for law in asked.law.split(","):
                for transport in transports:
                    case = (network, touches, law, transport)
                    if not asked.only or all(word in case for word in asked.only.split(",")):
                        yield *case, file


def ends_of(transport):
    """Is it of two links? Their names, and the operator's."""
    return (True, ["a", "b"], "controller") if transport in DOUBLE else (False, [""], "operator")


def hosts_of(asked, folder, transport, is_root, step):
    """What both hosts and the relays take there and back, s: how much later the arm is over links without luck than in the simulator."""
    double, links, operator = ends_of(transport)
    if double and not is_root:
        return 0.0
    path = scenario(folder, f"hosts {transport}", even_links(double), operator, len(links))
    ideal = simulated(path, "wall", None, 1, transport).tracking_mm()
    measured = []
    for seed in range(1, asked.real + 1):
        measured.append(real(asked.taut, path, "wall", None, seed, transport, links).tracking_mm() - ideal)
        step()
    return max(0.0, 1e-3 * statistics.median(measured) / (REACH / APPROACH)) if measured else 0.0


def case_of(asked, folder, direct, hosts, network, touches, law, transport, file, is_root, step):
    """Both errors: in the simulator, of each seed, and over sockets, of each run."""
    double, links, operator = ends_of(transport)
    control, text = control_of(law, asked.reserve), (SCENARIOS / file).read_text()
    path = scenario(folder, network, links_of(text), operator, len(links))
    with_hosts = scenario(folder, f"{network} {transport}", links_of(text, hosts), operator, len(links))
    runs = [("simulated", seed) for seed in range(1, asked.seeds + 1)]
    runs += [("real", seed) for seed in range(1, asked.real + 1) if is_root or not double]
    found = {"simulated": [], "real": []}
    for world, seed in runs:
        if world == "simulated":
            hand = simulated(with_hosts, touches, control, seed, transport)
        else:
            hand = real(asked.taut, path, touches, control, seed, transport, links)
        error = rms([felt - there for felt, there in zip(hand.felt(), direct[touches, law])])
        found[world].append({"tracking_mm": hand.tracking_mm(), "force_n": error})
        step()
    within = {}
    for what in ("tracking_mm", "force_n"):
        of_seeds = [one[what] for one in found["simulated"]]
        measured = [one[what] for one in found["real"]]
        within[what] = min(of_seeds) <= statistics.median(measured) <= max(of_seeds) if measured else None
    return {"network": network, "touches": touches, "law": law, "transport": transport, "hosts_ms": 1e3 * hosts, **found, "within": within}


def shown(of, what, unit):
    values = [one[what] for one in of]
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f}) {unit}" if values else "—"


def main(asked):
    is_root = os.geteuid() == 0 and subprocess.run(["unshare", "-n", "true"]).returncode == 0
    if is_root and "TAUT_BENCH_NETNS" not in os.environ:
        os.environ["TAUT_BENCH_NETNS"] = "1"
        os.execvp("unshare", ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv])
    chosen = list(cases(asked))
    if not chosen:
        raise SystemExit(f"--only {asked.only}: no such case; a case is NETWORK,TOUCHES,TRANSPORT of {', '.join(NETWORKS)}; wall, foam; {', '.join(SINGLE + DOUBLE)}")
    transports = sorted({case[3] for case in chosen})
    done, results = 0, []
    with tempfile.TemporaryDirectory() as folder, Progress("pressed") as progress:

        def step():
            nonlocal done
            done += 1
            progress(done / (len(chosen) * (asked.seeds + asked.real) + len(transports) * asked.real))

        ideal = scenario(folder, "direct", DIRECT)
        direct = {(touches, law): simulated(ideal, touches, control_of(law, asked.reserve), 1).felt() for touches, law in {case[1:3] for case in chosen}}
        hosts = {transport: hosts_of(asked, folder, transport, is_root, step) for transport in transports}
        for case in chosen:
            results.append(case_of(asked, folder, direct, hosts[case[3]], *case, is_root, step))
    if asked.json:
        print(json.dumps({"seeds": asked.seeds, "real": asked.real, "cases": results}))
        return
    law, line = (" law |", " --- |") if asked.law else ("", "")
    print(f"| network | touches |{law} transport | hosts | tracking, simulated | tracking, sockets | force, simulated | force, sockets | within the seeds |")
    print(f"| --- | --- |{line} --- | --- | --- | --- | --- | --- | --- |")
    words = {True: "yes", False: "no", None: "—"}
    for one in results:
        columns = [shown(one[world], what, unit) for what, unit in (("tracking_mm", "mm"), ("force_n", "N")) for world in ("simulated", "real")]
        within = f"{words[one['within']['tracking_mm']]}, {words[one['within']['force_n']]}"
        law = f" {one['law']} |" if asked.law else ""
        print(f"| {one['network']} | {one['touches']} |{law} {one['transport']} | {one['hosts_ms']:.2f} ms | {' | '.join(columns)} | {within} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--taut", default=os.environ.get("TAUT", "taut"), help="the command (TAUT, or taut on the path)")
    parser.add_argument("--seeds", type=int, default=5, help="of the simulator")
    parser.add_argument("--real", type=int, default=3, help="runs over sockets, each with the emulator's seed")
    parser.add_argument("--law", default="", help="control laws, separated by commas: wave,tdpa")
    parser.add_argument("--reserve", type=float, help="of wave and tdpa, J; by itself the law's own")
    parser.add_argument("--only", default="", help="cases with these words: LTE,wall,quic")
    parser.add_argument("--json", action="store_true")
    main(parser.parse_args())
