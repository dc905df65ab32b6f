// `taut demo --console`: one command, and whoever opens its page sees the arm and drives it over an emulated network.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { inEachBrowser } from "./browsers.mjs";
import { hold, position, resume } from "./page.mjs";
import { TAUT, until } from "./session.mjs";

/** A demonstration over that network, and its page. */
async function demonstration(browser, network, work) {
  const demo = spawn(TAUT, ["demo", "--console", "--network", network], { stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => demo.on("exit", resolve));
  let said = "";
  demo.stdout.on("data", (text) => (said += text));
  demo.stderr.on("data", (text) => (said += text));
  const page = await browser.page();
  try {
    await page.goto(await until(() => said.match(/http:\/\/\S+/)?.[0], `an address: ${said}`));
    await work(page);
    assert.deepEqual(page.errors, []);
  } finally {
    await page.close();
    demo.kill("SIGINT");
  }
  assert.equal(await ended, 0, said);
  assert.match(said, /the network carried \d+ packets to the robot/);
}

const number = async (page, id) => Number.parseFloat(await page.textContent(id));
const standing = (page) => page.textContent("#standing");
const acknowledged = (page) => until(async () => /acknowledged in/.test(await page.textContent("#acknowledged")), "the stop is acknowledged");

/** Chooses, and waits until that one is in use. */
async function choose(page, of, name) {
  const button = `[data-of=${of}] [data-name=${name}]`;
  await page.click(button);
  await until(async () => (await page.getAttribute(button, "aria-pressed")) === "true", `${name} is in use`);
  assert.equal(await page.locator(`[data-of=${of}] [aria-pressed=true]`).count(), 1);
  assert.match(await page.textContent("#events"), new RegExp(`the ${of} is ${name} now`));
}

/** The newest line of what happened that is so, with its time. */
const newest = (page, is) => page.evaluate((is) => [...document.querySelectorAll("#events li")].map((line) => line.textContent).find((text) => new RegExp(is).test(text)), is);

/** Does that, and waits until such a line is told anew. */
async function tells(page, is, what) {
  const before = await newest(page, is);
  await what();
  await until(async () => (await newest(page, is)) !== before, `it tells anew: ${is}`).catch(async ({ message }) => {
    throw new Error(`${message}: ${await page.textContent("#standing")}, ${await page.textContent("#events")}`);
  });
}

/** Chooses a transport; then both ends have left their session for one over that. */
const goOver = (page, transport) => tells(page, "sconnected", () => choose(page, "transport", transport));

inEachBrowser((browser) => {
  for (const network of ["wifi", "lte"]) {
    test(`the demonstration over ${network} shows the arm, moves it against the spring, and stops it`, async () => {
      const began = performance.now();
      await demonstration(browser(), network, async (page) => {
        await until(async () => (await number(page, "#age")) >= 0, "a picture");
        console.log(`the first picture after ${((performance.now() - began) / 1000).toFixed(1)} s`);
        await until(() => page.isHidden("#stale"), "a fresh picture");
        await resume(page);
        // A network that stalls lets go, and an old picture: it is pressed again.
        await hold(page, "KeyW", async () => (await number(page, "#force")) > 1, "it presses with 1 N");
        await page.keyboard.up("KeyW");
        // What is chosen is what there is in between: 150 ms there and back and a stall of what was fresh, then 1.
        for (const [name, is] of [["far", (trip) => trip > 145], ["direct", (trip) => trip < 20]]) {
          await choose(page, "network", name);
          await until(async () => is(await number(page, "#trip")), `the round trip is that of ${name}`);
        }
        await page.keyboard.press("Space");
        await until(async () => (await standing(page)).startsWith("STOPPED"), "it is stopped");
        await acknowledged(page);
      });
    });
  }

  test("another transport stops the arm, which moves on only when it is resumed and something is held anew", async () => {
    await demonstration(browser(), "direct", async (page) => {
      const moves = async (what) => {
        await resume(page);
        const from = await position(page);
        await hold(page, "KeyS", async () => Math.abs((await position(page)) - from) > 2, what);
      };
      await until(() => page.isHidden("#stale"), "a fresh picture");
      await moves("it moves over UDP");
      for (const transport of ["quic", "sctp", "dccp"]) {
        // The key stays down.
        await goOver(page, transport);
        await until(async () => /^(PAUSED|DISABLED)/.test(await standing(page)), "it stands, and answers");
        // What is shown until then may be of the session before.
        await wait(300);
        const at = await position(page);
        await wait(500);
        assert.ok(Math.abs((await position(page)) - at) < 0.2, `nothing moves by itself: ${at}`);
        await page.keyboard.up("KeyS");
        await moves(`it moves over ${transport}`);
      }
      await page.keyboard.up("KeyS");
    });
  });

  test("a stop that was pressed before another transport is chosen, or right after, holds over that", async () => {
    await demonstration(browser(), "direct", async (page) => {
      await until(() => page.isHidden("#stale"), "a fresh picture");
      for (const [transport, pressedAfter] of [["sctp", false], ["udp", true]]) {
        await resume(page);
        if (pressedAfter) {
          await page.click(`[data-of=transport] [data-name=${transport}]`);
          await page.keyboard.press("Space");
        } else {
          await page.keyboard.press("Space");
          await acknowledged(page);
          await goOver(page, transport);
        }
        await until(async () => (await standing(page)).startsWith("STOPPED"), "it is stopped");
        await acknowledged(page);
        await tells(page, "stop is latched", () => page.keyboard.press("KeyR"));
        await page.keyboard.down("KeyW");
        await wait(300);
        assert.match(await standing(page), /^STOPPED/);
        await page.keyboard.up("KeyW");
        await page.keyboard.press("KeyC");
        await until(async () => !(await standing(page)).startsWith("STOPPED"), "the stop is reset");
      }
    });
  });
});
