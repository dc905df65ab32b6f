// What a lost packet does to whoever drives from elsewhere: how long until a stop is acknowledged, and how often what is held lapses, beside a picture.
//
//     TAUT=target/debug/taut node bench/stop.mjs [--runs 2] [--seconds 22] [--scenario ../benches/forty-ms.toml] [--link lossy]
//
// In turn with the page behind a tunnel over TCP, and by WebTransport beside it; the link is between browser and gateway. A key is held for 0.9 s, then
// STOP is pressed, again and again. Prints a line of JSON for each run. As root, in a network namespace of its own; taut is built with `--features webtransport`.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";
import { Session, until } from "../test/session.mjs";
import { Elsewhere } from "./elsewhere.mjs";
import { isolate } from "./network.mjs";

isolate();
const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "2" },
    seconds: { type: "string", default: "22" },
    scenario: { type: "string", default: "../benches/forty-ms.toml" },
    link: { type: "string", default: "lossy" },
  },
});

async function run(elsewhere, browser, by) {
  const straight = by === "webtransport" ? ["--webtransport", `${elsewhere.address}:0`] : [];
  const session = await Session.start({ transport: "udp", robot: ["--video", "front=test"], console: ["--video", "front", ...straight], by: elsewhere.gateway });
  try {
    await elsewhere.tunnel(new URL(session.url).port);
    const page = await browser.newPage();
    await page.goto(session.url);
    await until(async () => /^in control/.test(await page.textContent("#seat")), "in control");
    await page.keyboard.press("KeyR");
    const took = [];
    for (const end = performance.now() + 1000 * Number(values.seconds); performance.now() < end; ) {
      const key = took.length % 2 ? "KeyW" : "KeyS";
      await page.keyboard.down(key);
      await wait(900);
      await page.keyboard.up(key);
      await wait(60);
      await page.evaluate(() => (document.querySelector("#acknowledged").textContent = ""));
      await page.keyboard.press("Space");
      const said = await until(async () => (await page.textContent("#acknowledged")).match(/^robot acknowledged in (\d+) ms/), "acknowledged");
      took.push(Number(said[1]));
      await page.keyboard.press("KeyC");
      await wait(150);
      await page.keyboard.press("KeyR");
      await wait(100);
    }
    took.sort((a, b) => a - b);
    const lapses = Number((await page.textContent("#dropped")).match(/lapsed lease (\d+)/)?.[1] ?? 0);
    await page.close();
    return { by, stops: took.length, p50_ms: took[took.length >> 1], p90_ms: took[Math.floor(took.length * 0.9)], largest_ms: took.at(-1), lapses };
  } finally {
    await session.end();
  }
}

const folder = mkdtempSync(join(tmpdir(), "taut-stop-"));
const elsewhere = await Elsewhere.start({ scenario: resolve(values.scenario), link: [values.link] }, folder);
const browser = await chromium.launch({ executablePath: elsewhere.chromium(), args: ["--no-sandbox"] });
try {
  for (let count = 0; count < Number(values.runs); count++)
    for (const by of ["tunnel", "webtransport"]) console.log(JSON.stringify(await run(elsewhere, browser, by)));
} finally {
  await browser.close();
  await elsewhere.end();
  rmSync(folder, { recursive: true, force: true });
}
