"""Pictures of a flow of commands over several paths, from the events of one run: which paths it used, how long its packets took on each, and how
many copies a command had, second by second.

    taut run scenarios/two-measured-5g-links.toml --seeds 1 --only 'links=d congestion 1,protocol=deadline' --events --out out/d
    python3 stats/paths.py out/d/events.jsonl > paths.svg

Packets of fewer than 100 bytes are answers and probes, and are left out.
"""

import json
import sys

WIDTH, PANEL, LEFT, GAP = 760, 150, 60, 46
COLOURS = ["#1f77b4", "#d95f02", "#2ca02c", "#9467bd"]
LEAST_BYTES = 100
DEADLINE_MS = 15.0


def read(lines):
    """Of each packet of the sender with a command: link, when it left in s, how long it took in ms or None; names of links; commands a second."""
    names, packets, made = [], {}, {}
    for line in lines:
        event = json.loads(line)
        kind, at = event["event"], event.get("at_ns", 0)
        if kind == "links":
            names = event["names"]
        elif kind == "sent" and event["node"] == 0 and event["bytes"] >= LEAST_BYTES:
            packets[event["id"]] = [None, at / 1e9, None]
        elif kind == "entered" and event["id"] in packets:
            packets[event["id"]][0] = event["link"]
        elif kind == "left" and event["id"] in packets:
            packets[event["id"]][2] = at / 1e6 - packets[event["id"]][1] * 1e3
        elif kind == "chosen" and event["reason"] not in ("silence", "overdue"):
            made[at // 10**9] = made.get(at // 10**9, 0) + 1
    return names, [packet for packet in packets.values() if packet[0] is not None], made


class Panel:
    """A rectangle with axes, in which things are drawn at seconds and values."""

    def __init__(self, at, title, seconds, top):
        self.y, self.seconds, self.top = 30 + at * (PANEL + GAP), seconds, top
        self.parts = [f'<text x="{LEFT}" y="{self.y - 8}">{title}</text>']
        self.parts.append(f'<rect x="{LEFT}" y="{self.y}" width="{WIDTH}" height="{PANEL}" fill="none" stroke="#999"/>')
        for value in (0, top / 2, top):
            self.parts.append(f'<text x="{LEFT - 6}" y="{self.place(0, value)[1] + 4:.1f}" text-anchor="end">{value:g}</text>')

    def place(self, second, value):
        return LEFT + WIDTH * second / self.seconds, self.y + PANEL * (1 - min(value, self.top) / self.top)

    def line(self, values, colour):
        points = " ".join("{:.1f},{:.1f}".format(*self.place(second + 0.5, value)) for second, value in sorted(values.items()))
        self.parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')

    def dots(self, points, colour):
        at = (self.place(*point) for point in points)
        self.parts.extend(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.2" fill="{colour}"/>' for x, y in at)


def draw(names, packets, made):
    seconds = max(made) + 1
    use = Panel(0, "packets with commands a second, by path", seconds, 50)
    took = Panel(1, "how long they took, ms (at the bottom: lost; dashed: the deadline)", seconds, 35)
    copies = Panel(2, "copies of a command", seconds, 3)
    links, total = sorted({packet[0] for packet in packets}), {}
    for link, colour in zip(links, COLOURS):
        own = [packet for packet in packets if packet[0] == link]
        count = dict.fromkeys(made, 0)
        for _, second, _ in own:
            if int(second) in count:
                count[int(second)] += 1
        total = {second: total.get(second, 0) + count[second] for second in made}
        use.line(count, colour)
        took.dots([(second, ms or 0) for _, second, ms in own if second < seconds], colour)
    copies.line({second: total[second] / made[second] for second in made}, "#333")
    (left, y), (right, _) = took.place(0, DEADLINE_MS), took.place(seconds, 0)
    took.parts.append(f'<line x1="{left}" x2="{right}" y1="{y}" y2="{y}" stroke="#333" stroke-dasharray="4 3"/>')
    legend = [f'<text x="{LEFT + 330 + 215 * at}" y="22" fill="{colour}">{names[link]}</text>' for at, (link, colour) in enumerate(zip(links, COLOURS))]
    height = 30 + 3 * (PANEL + GAP)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}" font-family="sans-serif" font-size="12">'
    body = "\n".join(part for panel in (use, took, copies) for part in panel.parts)
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *legend, body, "</svg>"])


def main():
    with open(sys.argv[1], encoding="utf-8") as lines:
        print(draw(*read(lines)))


if __name__ == "__main__":
    main()
