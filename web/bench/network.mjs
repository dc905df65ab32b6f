// What is between the ends: nothing, a link behind a relay, or two of them as two paths.
import { execFileSync, spawnSync } from "node:child_process";
import { readlinkSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { Part } from "../test/session.mjs";

const ip = (...words) => execFileSync("ip", words);

/** As root: begins again in a network namespace of its own, so that nothing of it leaves this machine, and with processes that end with it. */
export function isolate() {
  if (process.env.TAUT_BENCH_NETNS || process.geteuid() !== 0 || spawnSync("unshare", ["-n", "true"]).status !== 0) return;
  const again = ["-n", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", process.execPath, ...process.argv.slice(1)];
  process.exit(spawnSync("unshare", again, { stdio: "inherit", env: { ...process.env, TAUT_BENCH_NETNS: "1" } }).status ?? 1);
}

/** `taut emulate --relay` between an operator and a robot's address. */
export class Network {
  /** Where an operator connects to, and by which of its paths. */
  static async start({ scenario, link = [] }, robot, folder) {
    const network = new Network();
    Object.assign(network, { parts: [], devices: [], address: robot, paths: [], began: performance.timeOrigin + performance.now() });
    if (!scenario) return network;
    if (link.length < 2) {
      network.address = (await network.relay(scenario, link, `127.0.0.1:0=${robot}`, folder)).address;
      return network;
    }
    network.address = "10.9.0.9:7000";
    for (const [number, name] of link.entries()) {
      const there = `10.${number + 1}.0.1:${robot.split(":").at(-1)}`;
      await network.relay(scenario, [name], `${network.address}=${there}`, folder, number);
      network.paths.push(`net${number}`);
    }
    return network;
  }

  async relay(scenario, link, relay, folder, number = null) {
    const args = ["emulate", scenario, ...link.flatMap((name) => ["--link", name]), "--relay", relay, "--json"];
    const waits = number === null ? [] : ["unshare", "-n", "sh", "-c", 'read go; exec "$@"', "sh"];
    const part = new Part(args, folder, waits);
    this.parts.push(part);
    if (number !== null) await this.join(part.process, number);
    return part.line((line) => line.event === "relaying");
  }

  /** A veth pair from here to the relay's namespace. */
  async join(process_, number) {
    const own = readlinkSync("/proc/self/ns/net");
    while (readlinkSync(`/proc/${process_.pid}/ns/net`) === own) await wait(5);
    const device = `net${number}`;
    const there = (...words) => execFileSync("nsenter", ["-t", String(process_.pid), "-n", "ip", ...words]);
    ip("link", "add", device, "type", "veth", "peer", "name", "relay", "netns", String(process_.pid));
    this.devices.push(device);
    ip("addr", "add", `10.${number + 1}.0.1/24`, "dev", device);
    ip("link", "set", device, "up");
    there("addr", "add", `10.${number + 1}.0.2/24`, "dev", "relay");
    there("addr", "add", "10.9.0.9/32", "dev", "relay");
    there("link", "set", "relay", "up");
    there("link", "set", "lo", "up");
    ip("route", "add", "10.9.0.9", "via", `10.${number + 1}.0.2`, "dev", device, "metric", String(number + 1));
    process_.stdin.write("go\n");
  }

  /** What passed to the operator so far, kbit/s in the mean, of all paths. */
  rate() {
    const last = this.parts.map((part) => part.lines.findLast((line) => line.event === "statistics"));
    return Math.round(last.reduce((sum, line) => sum + (line ? (line.down.left_bytes * 8) / line.t_s / 1000 : 0), 0));
  }

  async end() {
    await Promise.all(this.parts.map((part) => part.end()));
    for (const device of this.devices) spawnSync("ip", ["link", "del", device], { stdio: "ignore" });
  }
}
