// What a picture costs touch: how old states are at the robot and forces at the hand, beside a picture on the same link.
//
//     TAUT=target/release/taut node bench/touch.mjs [--runs 3] [--seconds 25] [--scenario FILE.toml [--link NAME | --link A --link B]] [--transport udp]
//
// In turn without a picture; with one that another session's same processes carry past the link (`sink`), which takes as much of this machine; and with one
// over the link (`link`). A device makes 1000 states a second, the robot feeds back as many, both ends record what came and when it was made, by the
// clock of this machine. Prints one line of JSON for each run, and medians: ms of each state and force that came, and of the newest one there was, sampled
// every millisecond (`held`). The first two seconds do not count. As root it runs in a network namespace of its own.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Part, TAUT } from "../test/session.mjs";
import { medians, summary } from "./figures.mjs";
import { isolate, Network } from "./network.mjs";

isolate();
const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "3" },
    seconds: { type: "string", default: "25" },
    scenario: { type: "string" },
    link: { type: "string", multiple: true, default: [] },
    transport: { type: "string", default: "udp" },
  },
});
if (values.scenario) values.scenario = resolve(values.scenario);
const BEGIN = 2000;

/** A robot and an operator, each with what it is given besides. */
class Pair {
  static async start(settings, more) {
    const pair = new Pair();
    const folder = (pair.folder = mkdtempSync(join(tmpdir(), "taut-touch-")));
    const identity = (end) => {
      const args = ["--identity", join(folder, end)];
      return { args, fingerprint: JSON.parse(execFileSync(TAUT, ["identity", ...args, "--json"], { encoding: "utf8" })).fingerprint };
    };
    const [own, peer] = [identity("robot"), identity("operator")];
    const place = settings.link?.length > 1 ? "0.0.0.0:0" : "127.0.0.1:0";
    const session = ["--transport", values.transport, "--json", "--every", "1s"];
    const listen = ["robot", "--listen", place, ...own.args, "--trust", peer.fingerprint, "--robot", "sim:free", "--watchdog", "2s", "--max-age", "2s"];
    pair.robot = new Part([...listen, ...session, ...more.robot], folder);
    const { address } = await pair.robot.line((line) => line.event === "listening");
    pair.network = await Network.start(settings, address, folder);
    const paths = pair.network.paths.flatMap((path) => ["--path", path]);
    const connect = ["operator", "--connect", pair.network.address, ...peer.args, "--robot-id", own.fingerprint, "--input", "demo", "--resume", "always"];
    pair.operator = new Part([...connect, ...session, ...paths, ...more.operator], folder);
    await pair.operator.line((line) => line.event === "connected");
    return pair;
  }

  async end() {
    await Promise.all([this.operator.end("SIGINT"), this.robot.end("SIGINT")]);
    await this.network.end();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Of a recording's topic: when each message came and how old it was then, ms. */
function ages(file, topic) {
  const table = file.replace(/mcap$/, "csv");
  execFileSync(TAUT, ["trace", "convert", file, table], { stdio: "ignore" });
  const [head, ...rows] = readFileSync(table, "utf8").trim().split("\n").map((row) => row.split(","));
  const [at, age, sequence] = ["time_s", `${topic}_age_ms`, `${topic}_sequence`].map((name) => head.indexOf(name));
  // A row has the last of each topic.
  const news = rows.filter((row, place) => row[age] !== "" && row[sequence] !== rows[place - 1]?.[sequence]);
  const all = news.map((row) => [1000 * Number(row[at]), Number(row[age])]);
  return all.filter(([time]) => time > all[0][0] + BEGIN);
}

/** Of the newest, every millisecond. */
function held(all) {
  const list = [];
  let newest = -Infinity;
  all.forEach(([at, age], place) => {
    newest = Math.max(newest, at - age);
    const until = all[place + 1]?.[0] ?? at;
    for (let now = at; now < until; now++) list.push(now - newest);
  });
  return list;
}

async function run(mode) {
  const folder = mkdtempSync(join(tmpdir(), "taut-touch-"));
  const [robot, operator] = ["robot", "operator"].map((end) => ["--record", join(folder, `${end}.mcap`)]);
  const picture = { robot: ["--video", "front=test"], operator: ["--video", "front"] };
  const own = mode === "link" ? picture : { robot: [], operator: [] };
  const pairs = [];
  try {
    // Its states are few: it is there for the picture.
    if (mode === "sink") pairs.push(await Pair.start({}, { robot: picture.robot, operator: [...picture.operator, "--rate", "10"] }));
    pairs.push(await Pair.start(values, { robot: [...own.robot, ...robot], operator: [...own.operator, ...operator] }));
    await wait(1000 * Number(values.seconds));
  } finally {
    for (const pair of pairs) await pair.end();
  }
  const [states, forces] = [ages(robot[1], "operator_state"), ages(operator[1], "robot_state")];
  rmSync(folder, { recursive: true, force: true });
  const rate = (all) => Math.round(all.length / (Number(values.seconds) - BEGIN / 1000));
  const of = (all) => ({ ...summary(all.map(([, age]) => age)), held_p99: summary(held(all)).p99, per_second: rate(all) });
  const seen = pairs[0].operator.lines.find((line) => line.event === "video_summary");
  return { state_ms: of(states), force_ms: of(forces), pictures: seen && { frames: seen.frames, age_ms: seen.age_ms, rate_kbps: seen.rate_kbps } };
}

const results = {};
for (let count = 0; count < Number(values.runs); count++) {
  for (const mode of ["none", "sink", "link"]) {
    const one = await run(mode);
    (results[mode] ??= []).push(one);
    console.log(JSON.stringify({ picture: mode, ...one }));
  }
}
for (const [mode, all] of Object.entries(results)) console.log(JSON.stringify({ picture: mode, medians: medians(all), scenario: values.scenario ?? null, link: values.link }));
