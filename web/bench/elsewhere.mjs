// A browser elsewhere: in a network namespace of its own, behind a link, beside a tunnel to the gateway's loopback such as `ssh -L` makes.
import { execFileSync, spawn } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Part } from "../test/session.mjs";

const [FAR, NEAR] = ["10.77.0.1", "10.77.0.2"];
const ip = (...words) => execFileSync("ip", words);

/** `taut emulate` between the namespace of the gateway, far from the browser, and the browser's. As root. */
export class Elsewhere {
  static async start({ scenario, link }, folder) {
    const elsewhere = Object.assign(new Elsewhere(), { folder, tunnels: [], address: FAR });
    elsewhere.names = ["far", "near"].map((end) => `taut-${end}-${process.pid}`);
    for (const name of elsewhere.names) {
      ip("netns", "add", name);
      ip("-n", name, "link", "set", "lo", "up");
    }
    const between = ["--between", elsewhere.names.join(","), "--addresses", `${FAR},${NEAR}`];
    elsewhere.link = new Part(["emulate", scenario, ...link.flatMap((name) => ["--link", name]), ...between, "--json"], folder);
    await elsewhere.link.line((line) => line.event === "statistics");
    return elsewhere;
  }

  /** Words before a command that runs at the gateway's end, or the browser's. */
  get gateway() {
    return ["ip", "netns", "exec", this.names[0]];
  }

  get near() {
    return ["ip", "netns", "exec", this.names[1]];
  }

  /** A program that is Chromium at the browser's end. */
  chromium() {
    const program = join(this.folder, "chromium");
    writeFileSync(program, `#!/bin/sh\nexec ${this.near.join(" ")} ${process.env.CHROMIUM ?? "/usr/bin/chromium"} "$@"\n`);
    chmodSync(program, 0o755);
    return program;
  }

  /** From the browser's loopback to the gateway's, at the same port. */
  async tunnel(port) {
    const ends = [
      [this.gateway, FAR, "127.0.0.1"],
      [this.near, "127.0.0.1", FAR],
    ];
    for (const [by, at, to] of ends) {
      const [program, ...words] = [...by, process.execPath, fileURLToPath(import.meta.url), at, to, port];
      const tunnel = spawn(program, words, { stdio: ["ignore", "pipe", "inherit"] });
      this.tunnels.push(tunnel);
      await new Promise((resolve) => tunnel.stdout.once("data", resolve));
    }
  }

  async end() {
    for (const tunnel of this.tunnels) tunnel.kill();
    await this.link.end();
    for (const name of this.names) ip("netns", "del", name);
  }
}

/** One end of a tunnel: what comes to `at` goes on to `to`, as soon as it is there. */
function forward(at, to, port) {
  const server = createServer((from) => {
    const on = createConnection({ host: to, port });
    for (const [one, other] of [[from, on], [on, from]]) {
      one.setNoDelay(true);
      one.pipe(other);
      one.on("error", () => other.destroy());
    }
  });
  server.listen(port, at, () => console.log("ready"));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) forward(...process.argv.slice(2));
