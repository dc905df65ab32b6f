"""A program of zenoh's in a process of its own, so that it can be killed: zenoh_node.py SPEC, a JSON object.

`config`: zenoh's settings by their keys. `says` and `hears`: lists of {"domain", "topic", "kind", "hash"}, topics of ROS 2, and of what is said its
`payload` in hexadecimal, fifty times a second. It prints `ready`, then the topic of each message that it hears, and `at rest` behind it where all of a
twist at its end is zero.
"""
import json
import os
import sys
import threading
import time


def token(session, what, end):
    where = f"@ros2_lv/{end['domain']}/{session.zid()}/0/9/{what}/%/%/node"
    return f"{where}/{end['topic'].replace('/', '%')}/{end['kind']}/{end['hash']}/::,10:,:,:,,"


def key(end):
    return f"{end['domain']}{end['topic']}/{end['kind']}/{end['hash']}"


def hear(topic, sample):
    twist = bytes(sample.payload)[-48:]
    rests = len(twist) == 48 and not any(twist)
    print(topic + " at rest" * rests, flush=True)


def main():
    import zenoh

    spec, config = json.loads(sys.argv[1]), zenoh.Config()
    for name, value in ({"scouting/multicast/enabled": False} | spec["config"]).items():
        config.insert_json5(name, json.dumps(value))
    session, kept, publishers = zenoh.open(config), [], []
    for end in spec["hears"]:
        topic = end["topic"]
        kept.append(session.declare_subscriber(key(end), lambda sample, topic=topic: hear(topic, sample)))
        kept.append(session.liveliness().declare_token(token(session, "MS", end)))
    for end in spec["says"]:
        publishers.append((session.declare_publisher(key(end)), bytes.fromhex(end["payload"])))
        kept.append(session.liveliness().declare_token(token(session, "MP", end)))
    print("ready", flush=True)
    # Whoever started it may be gone.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    while True:
        for publisher, payload in publishers:
            publisher.put(payload, attachment=bytes(16) + b"\x10" + bytes(16))
        time.sleep(0.02)


main()
