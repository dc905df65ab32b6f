"""What zenoh alone has: hashes of types, computed or learned."""
import collections
import ipaddress
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from messages import Time, TimeReference, Twist, TwistStamped, Vector3, stamped
from test_topics import BASE, comes_to_rest, moving, stops_of, until

ROUTE = '[[route]]\ntopic = "/t{at}"\ntype = "{kind}"\ndirection = "{direction}"\n'
KNOWN = """
builtin_interfaces/msg/Time builtin_interfaces/msg/Duration std_msgs/msg/Header std_msgs/msg/String
geometry_msgs/msg/Vector3 geometry_msgs/msg/Pose geometry_msgs/msg/Twist geometry_msgs/msg/TwistStamped
geometry_msgs/msg/PoseStamped geometry_msgs/msg/WrenchStamped std_msgs/msg/Float64MultiArray sensor_msgs/msg/JointState
sensor_msgs/msg/Joy sensor_msgs/msg/CompressedImage trajectory_msgs/msg/JointTrajectory
""".split()


pytestmark = pytest.mark.parametrize("ros", ["zenoh"], indirect=True)


def test_hashes_of_types_are_those_that_others_compute(ros, bridges):
    from rosbags.typesys import Stores, get_typestore

    bridges("".join(ROUTE.format(at=at, kind=kind, direction="to_operator") for at, kind in enumerate(KNOWN)))
    store = get_typestore(Stores.ROS2_JAZZY)
    until("subscribers are there", lambda: len(ros.tokens(1)) == len(KNOWN))
    for part in ros.tokens(1):
        kind = KNOWN[int(part[9][2:])]
        assert part[11] == store.hash_rihs01(kind), kind


def test_the_hash_of_another_type_is_learned(ros, bridges):
    bridges(ROUTE.format(at=0, kind="sensor_msgs/msg/TimeReference", direction="to_operator"))
    told, robot = ros.reader(2, "/t0", TimeReference), ros.writer(1, "/t0", TimeReference)
    got = []

    def passes():
        robot.write(TimeReference(stamped(), Time(7, 8), "clock"))
        got.extend(told.take(1))
        return got

    until("it passes", passes)
    assert (got[0].time_ref.sec, got[0].source) == (7, "clock")
    hashes = {part[11] for domain in (1, 2) for part in ros.tokens(domain)}
    assert hashes == {robot.publisher.type_hash}


def test_what_is_of_another_definition_than_the_learned_one_does_not_pass(ros, bridges):
    robot, operator = bridges(ROUTE.format(at=0, kind="sensor_msgs/msg/TimeReference", direction="to_operator"))
    told, hand = ros.reader(2, "/t0", TimeReference), ros.writer(1, "/t0", TimeReference)

    def passes():
        hand.write(TimeReference(stamped(), Time(7, 8), "clock"))
        return told.take(1)

    until("the hash is learned", passes)
    ros.router.put("1/t0/sensor_msgs::msg::dds_::TimeReference_/RIHS01_other", b"\0\1\0\0" + bytes(24))

    def is_unreadable():
        robot.tell("status")
        return robot.until("route")["messages"].get("unreadable")

    until("it is counted", is_unreadable)


def listens_at_the_router(ros, hash_, heard):
    """A subscriber that is the router's own program: nobody meets it but by the router."""
    topic, kind = "%cmd_vel", "geometry_msgs::msg::dds_::TwistStamped_"
    subscriber = ros.router.declare_subscriber(f"1/cmd_vel/{kind}/{hash_}", heard.append)
    token = f"@ros2_lv/1/{ros.router.zid()}/0/9/MS/%/%/echo/{topic}/{kind}/{hash_}/::,10:,:,:,,"
    return ros.router.liveliness().declare_token(token), subscriber


def test_a_subscriber_of_a_distribution_without_hashes_takes_the_topic_from_nobody(ros, bridges):
    robot, _, told, drive = moving(ros, bridges)
    heard = []
    token, subscriber = listens_at_the_router(ros, "TypeHashNotSupported", heard)

    def both_hear():
        drive()
        return heard and told.take(64)

    until("the one that came later hears", lambda: (drive(), heard)[1])
    heard.clear(), told.take(1024)
    until("both hear", both_hear)
    token.undeclare(), subscriber.undeclare()
    comes_to_rest(told)


SPEED = {"topic": "/cmd_vel", "kind": "geometry_msgs::msg::dds_::TwistStamped_"}
ROUTER = 7448  # Beside the one that the SDK's session has.
AT_ROUTER = f'router = "tcp/127.0.0.1:{ROUTER}"\n'
DIRECT = 'peers = "direct"\n'
WATCHDOG = 0.5
MARGIN = 5  # Of a busy machine.


def speed(domain, **more):
    """The topic that moves the base, and a message of it."""
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_JAZZY)
    make = lambda name, *fields: store.types[name](*fields)  # noqa: E731
    vector = lambda x: make("geometry_msgs/msg/Vector3", x, 0.0, 0.0)  # noqa: E731
    header = make("std_msgs/msg/Header", make("builtin_interfaces/msg/Time", 0, 0), "base")
    twist = make("geometry_msgs/msg/Twist", vector(1.0), vector(0.0))
    name = "geometry_msgs/msg/TwistStamped"
    payload = bytes(store.serialize_cdr(make(name, header, twist), name)).hex()
    return SPEED | {"domain": domain, "hash": store.hash_rihs01(name), "payload": payload} | more


class Node:
    """See zenoh_node.py."""

    def __init__(self, config, hears=(), says=(), inside_of=None):
        spec = json.dumps({"config": config, "hears": list(hears), "says": list(says)})
        enter = ["nsenter", "-t", str(inside_of), "-n"] if inside_of else []
        file = str(Path(__file__).with_name("zenoh_node.py"))
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([*enter, sys.executable, file, spec], stdin=pipe, stdout=pipe, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.heard = collections.Counter()
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self):
        for line in self.process.stdout:
            self.heard[line.strip()] += 1

    def signal(self, name):
        self.process.send_signal(getattr(signal, name))

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def nodes():
    started = []

    def start(*arguments, **more):
        started.append(Node(*arguments, **more))
        return started[-1]

    yield start
    for node in started:
        node.end()


def router_at(listens="tcp/127.0.0.1", **more):
    return {"mode": "router", "listen/endpoints": [f"{listens}:{ROUTER}"], **more}


# As `rmw_zenoh` has its nodes: they listen on loopback, are told of by the router, and of two the one with the greater name connects.
PEER = {
    "mode": "peer",
    "listen/endpoints": ["tcp/127.0.0.1:0"],
    "scouting/gossip/target": {"peer": ["router"]},
    "scouting/gossip/autoconnect_strategy": {"peer": {"to_router": "always", "to_peer": "greater-zid"}},
}
CLIENT = {"mode": "client"}


def node_of(kind, port=ROUTER, host="127.0.0.1", **more):
    return {"connect/endpoints": [f"tcp/{host}:{port}"], **kind, **more}


def sockets(process):
    """Of TCP that a process has, as (state, own address, other address)."""
    own = set()
    for file in Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            own.add(os.readlink(file))
        except FileNotFoundError:
            continue
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process.pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if f"socket:[{words[9]}]" in own:
                found.append((int(words[3], 16), address(words[1]), address(words[2])))
    return found


def address(text):
    """Of /proc/net/tcp: four bytes at a time, the last one first."""
    words = bytes.fromhex(text.split(":")[0])
    found = ipaddress.ip_address(b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4)))
    return getattr(found, "ipv4_mapped", None) or found


ESTABLISHED, LISTENS = 1, 10


def are_met_directly(bridge):
    """How many have connected to the bridge, which has the one connection to its router besides."""
    return sum(state == ESTABLISHED for state, _, _ in sockets(bridge.process)) - 1


def moves(operator, reader):
    operator.tell("resume")
    time.sleep(0.05)
    return reader.heard["/cmd_vel"] >= 20


# Whoever is killed is missed at once, for its sockets are closed; whoever stands still is missed when the lease that it gave ends.
@pytest.mark.parametrize("how, lease, bound", [("SIGKILL", 20, WATCHDOG), ("SIGSTOP", 2, 2)])
@pytest.mark.parametrize(
    "who, kind, keys",
    [("router", CLIENT, ""), ("reader", CLIENT, ""), ("reader", PEER, DIRECT)],
    ids=["router", "reader_by_router", "reader_met_directly"],
)
def test_a_base_stops_whose_reader_or_router_dies(ros, bridges, nodes, who, kind, keys, how, lease, bound):
    lease = {"transport/link/tx/lease": lease * 1_000}
    router = nodes(router_at(**lease))
    reader = nodes(node_of(kind, **lease), hears=[speed(1)])
    # The operator's side has another router, and goes on.
    nodes(node_of(CLIENT, 7447), says=[speed(2)])
    robot, operator = bridges(BASE, robot_keys=AT_ROUTER + keys)
    until("the base moves", lambda: moves(operator, reader))
    assert are_met_directly(robot) == (1 if keys else 0)
    stops_of(robot)
    (router if who == "router" else reader).signal(how)
    causes = []

    def stops():
        causes.extend(new := stops_of(robot))
        # A busy machine may stop it for itself just before.
        if new and "device" not in causes:
            operator.tell("resume")
        return "device" in causes

    until("the robot's bridge stops, for nobody hears it", stops, bound + MARGIN)


def test_a_base_whose_router_comes_back_is_told_the_stop_that_it_missed(ros, bridges, nodes):
    router = nodes(router_at())
    reader = nodes(node_of(CLIENT), hears=[speed(1)])
    nodes(node_of(CLIENT, 7447), says=[speed(2)])
    robot, operator = bridges(BASE, robot_keys=AT_ROUTER)
    until("the base moves", lambda: moves(operator, reader))
    router.end()
    until("the robot's bridge stops", lambda: stops_of(robot), WATCHDOG + MARGIN)
    time.sleep(0.5)
    before = reader.heard["/cmd_vel at rest"]
    nodes(router_at())
    until("the base is told to rest", lambda: reader.heard["/cmd_vel at rest"] >= before + 5)


def test_a_slow_subscriber_of_what_is_kept_whole_holds_no_stop_up(ros, bridges, nodes):
    nodes(router_at())
    big = {"topic": "/big", "kind": "std_msgs::msg::dds_::ByteMultiArray_", "hash": "RIHS01_big"}
    says = big | {"domain": 2, "payload": (b"\0\1\0\0" + bytes(60_000)).hex()}
    reader = nodes(node_of(CLIENT), hears=[speed(1)])
    # Its lease is so long that it is missed by nobody.
    slow = nodes(node_of(CLIENT, **{"transport/link/tx/lease": 60_000}), hears=[big | {"domain": 1}])
    nodes(node_of(CLIENT, 7447), says=[speed(2), says])
    route = ROUTE.format(at=0, kind="std_msgs/msg/ByteMultiArray", direction="to_robot").replace("/t0", "/big")
    robot, operator = bridges(BASE.replace("[limits", route + 'keep = "reliable"\n[limits'), robot_keys=AT_ROUTER)
    until("the base moves", lambda: moves(operator, reader))
    until("what is long passes", lambda: slow.heard["/big at rest"] > 10)
    slow.signal("SIGSTOP")
    before, last, longest = 0, time.monotonic(), 0.0
    end = last + 10 + MARGIN  # By then all that lies between them is full.
    while (now := time.monotonic()) < end:
        moves(operator, reader)
        if reader.heard["/cmd_vel"] > before:
            before, last = reader.heard["/cmd_vel"], now
        longest = max(longest, now - last)
    assert longest < MARGIN, "the base moves on"
    before = reader.heard["/cmd_vel at rest"]
    operator.tell("stop")
    until("the base is told to rest", lambda: reader.heard["/cmd_vel at rest"] > before, MARGIN)


def test_another_bridge_that_publishes_what_moves_the_robot_is_told_and_stops(ros, bridges):
    """As the robot's does, where both are in one domain and would hear what they say."""
    _, operator, *_ = moving(ros, bridges)
    end = speed(2)
    key = f"0/9/MP/%/%/taut/%cmd_vel/{end['kind']}/{end['hash']}/::,10:,:,:,,"
    token = ros.router.liveliness().declare_token(f"@ros2_lv/2/{ros.router.zid()}/{key}")
    wrong = operator.until("wrong topic")
    assert wrong["stops"] and "another bridge" in wrong["why"]
    token.undeclare()


def test_a_router_that_dies_stops_nobody_who_was_met_directly(ros, bridges, nodes):
    router = nodes(router_at())
    reader, hand = nodes(node_of(PEER), hears=[speed(1)]), nodes(node_of(PEER), says=[speed(2)])
    keys = AT_ROUTER + DIRECT
    robot, operator = bridges(BASE, robot_keys=keys, operator_keys=keys, watchdog="5s")
    until("the base moves", lambda: moves(operator, reader))
    assert are_met_directly(robot) == are_met_directly(operator) == 2, "the reader and the hand"
    # Nothing is resumed from here on: any stop, for whatever cause, ends it.
    assert not stops_of(robot)
    router.signal("SIGKILL")
    router.process.wait()
    end, before = time.monotonic() + 3, reader.heard["/cmd_vel"]
    until("the base is driven on", lambda: time.monotonic() > end and reader.heard["/cmd_vel"] > before + 100)
    assert not stops_of(robot), robot.said
    assert hand.process.poll() is None


@pytest.fixture
def outside():
    """A machine beside this one, at 10.9.9.2; this one is at 10.9.9.1. Its address is the number of a process in its network namespace."""
    if os.geteuid() != 0:
        pytest.skip("a network namespace needs root")
    up = subprocess.run(["ip", "-o", "link", "show", "up"], capture_output=True, text=True).stdout.splitlines()
    if len(up) != 1 or " lo:" not in up[0]:
        pytest.skip("this is not a network namespace of its own: start it by `unshare -n`")
    holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
    own, pid = os.readlink("/proc/self/ns/net"), str(holder.pid)
    there = ["nsenter", "-t", pid, "-n"]
    try:
        until("it is there", lambda: holder.poll() is not None or os.readlink(f"/proc/{pid}/ns/net") != own)
        commands = [
            ["ip", "link", "add", "site", "type", "veth", "peer", "name", "beside", "netns", pid],
            ["ip", "address", "add", "10.9.9.1/24", "dev", "site"],
            ["ip", "link", "set", "site", "up"],
            [*there, "ip", "address", "add", "10.9.9.2/24", "dev", "beside"],
            [*there, "ip", "link", "set", "beside", "up"],
            [*there, "ip", "link", "set", "lo", "up"],
        ]
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                pytest.skip(f"no second network namespace: {done.stderr.strip()}")
        yield holder.pid
    finally:
        holder.kill()
        holder.wait()
        subprocess.run(["ip", "link", "delete", "site"], capture_output=True)


def refuses(topic):
    """A router's access control: whoever comes by the interface `site` neither says nor hears it."""
    messages = ["put", "declare_subscriber", "liveliness_token"]
    rule = {"id": "none", "permission": "deny", "messages": messages, "flows": ["ingress", "egress"]}
    rule["key_exprs"] = [f"*/{topic}/**", f"@ros2_lv/*/*/*/*/*/*/*/*/%{topic}/**"]
    control = {"enabled": True, "default_permission": "allow", "rules": [rule]}
    control["subjects"] = [{"id": "beside", "interfaces": ["site"]}]
    control["policies"] = [{"rules": ["none"], "subjects": ["beside"]}]
    return {"access_control": control}


@pytest.mark.parametrize("keys", ["", DIRECT], ids=["by_router", "direct"])
@pytest.mark.parametrize("control", [{}, refuses("cmd_vel")], ids=["open", "access_control"])
def test_nobody_outside_is_met_but_by_the_router_and_its_access_control(ros, bridges, nodes, outside, keys, control):
    # As `rmw_zenohd` does, it listens everywhere, and tells each one the addresses that others claim to have.
    nodes(router_at("tcp/[::]", **control))
    robot, operator = bridges(BASE, robot_keys=AT_ROUTER + keys, operator_keys=AT_ROUTER + keys)
    witness = {"domain": 2, "topic": "/other", "kind": "k", "hash": "h", "payload": "00"}
    inside = nodes(node_of(CLIENT), hears=[witness])
    settings = node_of(PEER, host="10.9.9.1", **{"listen/endpoints": ["tcp/10.9.9.2:5000"]})
    beside = nodes(settings, hears=[speed(1)], says=[speed(2), witness], inside_of=outside)
    met = []

    def is_over():
        for bridge in (robot, operator):
            met.extend(socket for socket in sockets(bridge.process) if socket not in met)
        time.sleep(0.05)
        return inside.heard["/other"] >= 150

    until("what is allowed comes by the router", is_over)
    assert met and {state for state, _, _ in met} >= {ESTABLISHED}
    for state, own, other in met:
        assert own.is_loopback and (other.is_loopback or state == LISTENS), f"{state}: {own} and {other}"
    assert any(state == LISTENS for state, _, _ in met) == (DIRECT in keys)
    # Whoever is to be met directly is not met by the router besides, where it can be met in no such way.
    if control or DIRECT in keys:
        refused = lambda: "device" in stops_of(robot)  # noqa: E731
        until("nobody is there who could be moved", lambda: (operator.tell("resume"), time.sleep(0.1), refused())[2])
    else:
        until("the base is moved", lambda: (operator.tell("resume"), time.sleep(0.1), beside.heard["/cmd_vel"])[2])
    operator.tell("quit")
    operator.process.wait(30), operator.reader.join(30)
    came = [line["messages"] for line in map(json.loads, operator.lines.queue) if line["event"] == "route"]
    if control or DIRECT in keys:
        assert came == [] and beside.heard == {}, "nothing passes"
    else:
        assert came[-1]["sent"] > 0, "what the router lets pass comes by it"
