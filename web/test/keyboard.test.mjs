// Keys of an X server, which a browser has before its page: those of the remote control it has not.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { after, before, test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { inEachBrowser } from "./browsers.mjs";
import { open, shows } from "./page.mjs";
import { Session, until } from "./session.mjs";

const isThere = (command) => execFileSync("sh", ["-c", `command -v ${command} || true`], { encoding: "utf8" }) !== "";
const missing = ["Xvfb", "xdotool"].filter((command) => !isThere(command));
const skip = missing.length > 0 ? `${missing} is missing` : false;
if (skip) console.log(`skipped: keys of an X server, ${skip}`);

let server;
let env;
before(async () => {
  if (skip) return;
  server = spawn("Xvfb", ["-screen", "0", "1280x900x24", "-nolisten", "tcp", "-displayfd", "3"], { stdio: ["ignore", "ignore", "ignore", "pipe"] });
  const display = await new Promise((resolve) => server.stdio[3].once("data", (text) => resolve(String(text).trim())));
  env = { ...process.env, DISPLAY: `:${display}` };
});
after(() => server?.kill());

const x = (...words) => execFileSync("xdotool", words, { env });

inEachBrowser((browser) => {
  test("no key leads the keyboard to the browser's own menu, search or question: Space stops after each", { skip }, async () => {
    const session = await Session.start();
    const own = await browser().another({ headless: false, env });
    try {
      const page = await open(own, session, null, { viewport: null });
      await shows(page, "#seat", /^in control/);
      // In the page, beside all buttons.
      const click = () => x("mousemove", "500", "400", "click", "1");
      await until(async () => {
        click();
        x("key", "r");
        await wait(100);
        return /^(MOVING)/.test(await page.textContent("#standing"));
      }, "keys come to the page");
      for (const key of ["slash", "apostrophe", "alt", "F1", "F3", "F6", "F7", "F10", "Menu", "shift+F10"]) {
        const from = performance.now();
        x("key", key);
        // A menu or a question would be there by now.
        await wait(300);
        x("key", "space");
        await session.console.line((line) => line.event === "emergency_stopped", from).catch(() => assert.fail(`no stop after ${key}`));
        await shows(page, "#standing", /^STOPPED/);
        x("key", "c");
        await shows(page, "#standing", /^PAUSED/);
      }
    } finally {
      await own.end();
      await session.end();
    }
  });
});
