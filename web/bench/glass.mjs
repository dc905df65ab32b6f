// From a frame to the glass: the number in the pixels of the test camera, read from the framebuffer of an X server once a millisecond.
//
//     TAUT=target/release/taut node bench/glass.mjs [--runs 5] [--seconds 20] [--scenario FILE.toml [--link NAME]]
//
// Prints one line of JSON for each run, and their medians: ms from when a frame was made until it is on the glass, the age of the picture shown
// sampled every millisecond, the share of frames that were never seen, how long the gateway held a picture, and how much of a core each process of
// taut took. With a scenario, its link is between robot and console.
import { spawn } from "node:child_process";
import { mkdtempSync, openSync, readFileSync, readSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as turn, setTimeout as wait } from "node:timers/promises";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";
import { Part, Session, until } from "../test/session.mjs";

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "5" },
    seconds: { type: "string", default: "20" },
    scenario: { type: "string" },
    link: { type: "string" },
    transport: { type: "string", default: "udp" },
  },
});
const [WIDTH, HEIGHT, BLOCK, MARKS, BITS] = [1280, 800, 16, 4, 32];

/** The framebuffer of an X server, a file in the format of xwd. */
class Glass {
  static async start() {
    const glass = new Glass();
    glass.folder = mkdtempSync(join(tmpdir(), "taut-glass-"));
    const screen = ["-screen", "0", `${WIDTH}x${HEIGHT}x24`, "-fbdir", glass.folder, "-nolisten", "tcp", "-displayfd", "3"];
    glass.server = spawn("Xvfb", screen, { stdio: ["ignore", "ignore", "ignore", "pipe"] });
    glass.display = `:${await new Promise((resolve) => glass.server.stdio[3].once("data", (text) => resolve(String(text).trim())))}`;
    glass.file = openSync(join(glass.folder, "Xvfb_screen0"), "r");
    const head = Buffer.alloc(100);
    readSync(glass.file, head, 0, 100, 0);
    glass.line = head.readUInt32BE(48);
    glass.base = head.readUInt32BE(0) + 12 * head.readUInt32BE(76);
    glass.rows = [Buffer.alloc(glass.line), Buffer.alloc(glass.line)];
    return glass;
  }

  /** Where the picture is, and how large its pixels are. */
  look(box, picture, above) {
    this.scale = Math.min(box.width / picture.width, box.height / picture.height);
    this.left = box.x + (box.width - picture.width * this.scale) / 2;
    this.top = above + box.y + (box.height - picture.height * this.scale) / 2;
  }

  /** The number that is shown; null: none, or one that is being drawn. */
  read() {
    this.rows.forEach((row, place) => {
      const y = Math.round(this.top + (place + 0.5) * BLOCK * this.scale);
      readSync(this.file, row, 0, this.line, this.base + y * this.line);
    });
    const bit = (row, block) => row[4 * Math.round(this.left + (block + 0.5) * BLOCK * this.scale) + 1] > 128;
    let [number, complement] = [0, 0];
    for (let place = MARKS; place < MARKS + BITS; place++) {
      number = number * 2 + Number(bit(this.rows[0], place));
      complement = complement * 2 + Number(bit(this.rows[1], place));
    }
    return number + complement === 2 ** BITS - 1 ? number : null;
  }

  end() {
    this.server.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

const now = () => performance.timeOrigin + performance.now();
const quantile = (sorted, at) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * at))];
const summary = (list) => {
  const sorted = [...list].sort((a, b) => a - b);
  return Object.fromEntries([["p50", 0.5], ["p95", 0.95], ["p99", 0.99]].map(([name, at]) => [name, Number(quantile(sorted, at)?.toFixed(1))]));
};

/** Time of a processor that a process took, ms (proc(5): clock ticks of 10 ms). */
const cpu = ({ process: { pid } }) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return 10 * (Number(fields[11]) + Number(fields[12]));
};

async function run() {
  const glass = await Glass.start();
  const relay = values.scenario && ((robot) => new Part(["emulate", values.scenario, ...(values.link ? ["--link", values.link] : []), "--relay", `127.0.0.1:0=${robot}`, "--json"], glass.folder));
  const session = await Session.start({ transport: values.transport, robot: ["--video", "front=test"], console: ["--video", "front"], relay });
  // A window of a page alone: nothing of the browser above it.
  const browser = await chromium.launchPersistentContext(join(glass.folder, "profile"), {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: false,
    viewport: null,
    args: ["--no-sandbox", "--app=about:blank", "--disable-gpu", `--window-size=${WIDTH},${HEIGHT}`, "--window-position=0,0"],
    env: { ...process.env, DISPLAY: glass.display },
  });
  try {
    const [page] = browser.pages();
    await page.addInitScript(() => {
      globalThis.pictures = [];
      addEventListener("picture", ({ detail }) => globalThis.pictures.push([detail.number, detail.made]));
    });
    await page.goto(session.url);
    await page.waitForSelector("#screen:visible");
    await until(() => page.evaluate(() => globalThis.pictures.length > 30), "a second of pictures");
    const above = HEIGHT - (await page.evaluate(() => innerHeight));
    glass.look(await page.locator("#screen").boundingBox(), { width: 640, height: 480 }, above);
    await until(() => glass.read() !== null, "a number on the glass");
    const parts = { robot: session.robot, gateway: session.console };
    const before = Object.entries(parts).map(([name, part]) => [name, cpu(part)]);
    const seen = new Map();
    const shown = [];
    let last = null;
    const end = now() + 1000 * Number(values.seconds);
    for (let next = now(); next < end; ) {
      const at = now();
      if (at < next) {
        await turn();
        continue;
      }
      next = Math.max(next + 1, at);
      const number = glass.read();
      if (number !== null) {
        last = number;
        if (!seen.has(number)) seen.set(number, at);
      }
      shown.push([last, at]);
    }
    const share = before.map(([name, ms]) => [name, Math.round((cpu(parts[name]) - ms) / 10 / Number(values.seconds))]);
    const hop = Number.parseFloat((await page.textContent("#age")).split("gateway")[1]);
    const made = new Map(await page.evaluate(() => globalThis.pictures));
    const numbers = [...seen.keys()].filter((number) => made.has(number)).sort((a, b) => a - b).slice(1);
    const delays = numbers.map((number) => seen.get(number) - made.get(number));
    const ages = shown.filter(([number]) => made.has(number)).map(([number, at]) => at - made.get(number));
    const wanted = numbers.at(-1) - numbers[0] + 1;
    return { frame_to_glass_ms: summary(delays), age_ms: summary(ages), missing: Number((1 - numbers.length / wanted).toFixed(4)), frames: wanted, gateway_ms: hop, cpu_percent: Object.fromEntries(share) };
  } finally {
    await browser.close();
    await session.end();
    glass.end();
  }
}

const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const results = [];
for (let count = 0; count < Number(values.runs); count++) {
  results.push(await run());
  console.log(JSON.stringify(results.at(-1)));
  await wait(500);
}
const over = (of) => ({ p50: median(results.map((one) => of(one).p50)), p95: median(results.map((one) => of(one).p95)), p99: median(results.map((one) => of(one).p99)) });
const medians = { frame_to_glass_ms: over((one) => one.frame_to_glass_ms), age_ms: over((one) => one.age_ms), missing: median(results.map((one) => one.missing)), gateway_ms: median(results.map((one) => one.gateway_ms)) };
console.log(JSON.stringify({ medians, runs: results.length, scenario: values.scenario ?? null, link: values.link ?? null }));
