// A robot and a console on this machine, and what they print.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as wait } from "node:timers/promises";

export const TAUT = process.env.TAUT ?? new URL("../../target/debug/taut", import.meta.url).pathname;
const PATIENCE = 20_000;
/** Of the robot, ms: longer than a busy machine holds up a process. */
export const WATCHDOG = 300;

/** A process of taut that prints JSON Lines. Its lines are kept with when they came, ms. `by`: a program that becomes it, when it is told to. */
export class Part {
  constructor(args, folder, by = []) {
    this.lines = [];
    this.errors = "";
    const [program, ...words] = [...by, TAUT, ...args];
    const stdio = [by.length ? "pipe" : "ignore", "pipe", "pipe"];
    this.process = spawn(program, words, { cwd: folder, env: { ...process.env, XDG_STATE_HOME: folder }, stdio });
    this.ended = new Promise((resolve) => this.process.on("exit", resolve));
    createInterface({ input: this.process.stdout }).on("line", (line) => {
      if (line.startsWith("{")) this.lines.push({ at: performance.now(), ...JSON.parse(line) });
    });
    this.process.stderr.on("data", (text) => (this.errors += text));
  }

  /** The first line since `from` that fits. */
  async line(fits, from = 0) {
    const until = performance.now() + PATIENCE;
    for (;;) {
      const found = this.lines.find((line) => line.at >= from && fits(line));
      if (found) return found;
      if (this.process.exitCode !== null) throw new Error(`it ended: ${this.errors}`);
      if (performance.now() > until) throw new Error(`no such line of ${JSON.stringify(this.lines.slice(-5))} ${this.errors}`);
      await wait(2);
    }
  }

  async end(signal = "SIGTERM") {
    this.process.kill(signal);
    await this.ended;
  }
}

/** Both ends of a session, over `relay` where there is one: what is made of the robot's address has an `address`, its `paths` and an `end`. `by`: words before their commands. */
export class Session {
  static async start({ transport = "quic", listen: place = "127.0.0.1:0", robot = [], console: more = [], relay = null, touches = "free", by = [] } = {}) {
    const session = new Session();
    session.folder = mkdtempSync(join(tmpdir(), "taut-console-"));
    const identity = (name) => {
      const args = ["--identity", join(session.folder, name)];
      return { args, fingerprint: JSON.parse(execFileSync(TAUT, ["identity", ...args, "--json"], { encoding: "utf8" })).fingerprint };
    };
    const [own, peer] = [identity("robot"), identity("operator")];
    const listen = ["robot", "--listen", place, "--transport", transport, ...own.args, "--trust", peer.fingerprint, "--json", "--robot", `sim:${touches}`, "--watchdog", `${WATCHDOG}ms`];
    session.robot = new Part([...listen, ...robot], session.folder, by);
    session.address = (await session.robot.line((line) => line.event === "listening")).address;
    session.relay = await relay?.(session.address);
    if (session.relay) session.address = session.relay.address;
    const paths = session.relay?.paths.flatMap((path) => ["--path", path]) ?? [];
    const connect = ["console", "--connect", session.address, "--transport", transport, ...peer.args, "--robot-id", own.fingerprint, "--json", "--port", "0"];
    session.console = new Part([...connect, ...paths, ...more], session.folder, by);
    session.url = (await session.console.line((line) => line.event === "console")).url;
    await session.console.line((line) => line.event === "connected");
    return session;
  }

  async end() {
    await Promise.all([this.console.end(), this.robot.end()]);
    await this.relay?.end();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Waits until `is` gives something. */
export async function until(is, what, patience = PATIENCE) {
  const end = performance.now() + patience;
  for (;;) {
    const found = await is();
    if (found) return found;
    if (performance.now() > end) throw new Error(`never: ${what}`);
    await wait(5);
  }
}
