// A page of the console, and what is done with it.
import assert from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import { Session, until } from "./session.mjs";

/** Beside a busy machine a time is measured up to so often; the best counts. */
export const ATTEMPTS = 5;

export const shows = (page, id, what) => until(async () => what.test(await page.textContent(id)), `${id} shows ${what}`);

export async function open(browser, session, script = null, options = {}) {
  const page = await browser.page(options);
  if (script) await page.addInitScript(script);
  await page.goto(session.url);
  await shows(page, "#title", /127/);
  return page;
}

/** Stops the robot by that, waits until it is acknowledged and shown, and resets the stop. How long that took, ms, as the page says it. */
export async function stopAndReset(page, session, press) {
  const from = performance.now();
  await press();
  await session.console.line((line) => line.event === "emergency_stopped", from);
  await shows(page, "#acknowledged", /^robot acknowledged in \d+ ms/);
  await shows(page, "#standing", /^STOPPED/);
  const took = Number((await page.textContent("#acknowledged")).match(/\d+/)[0]);
  const isReset = async () => {
    await page.keyboard.press("KeyC");
    for (const end = performance.now() + 1_000; performance.now() < end; await wait(5)) if (/^PAUSED/.test(await page.textContent("#standing"))) return true;
    return false;
  };
  // Once more, where a busy machine held up the stop when it was said again, and so the reset came before that.
  assert.ok((await isReset()) || (await isReset()), "the stop is reset");
  return took;
}

/** Of fifteen stops the third from the top is late on a machine that is slow, the middle one only where something waits for a clock. */
export function areSoon(took) {
  const sorted = took.toSorted((a, b) => a - b);
  assert.ok(sorted[7] <= 20 && sorted[12] <= 100, `${took}`);
}

/** Lets it move: once more, where a busy machine held up the page meanwhile, which stops the robot. */
export const resume = (page) =>
  until(async () => {
    await page.keyboard.press("KeyR");
    await wait(100);
    return (await page.textContent("#standing")) === "MOVING";
  }, "the robot moves");

/** Holds a key until `is`; presses it again once in a while, where a busy machine held up the page and what it holds has lapsed. */
export const hold = (page, key, is, what) =>
  until(async () => {
    await page.keyboard.up(key);
    await page.keyboard.down(key);
    if ((await page.textContent("#standing")) !== "MOVING") await page.keyboard.press("KeyR");
    for (const end = performance.now() + 1000; performance.now() < end; await wait(5)) if (await is()) return true;
    return false;
  }, what);

/** A gamepad by a script, held forth by its shoulder button or not; what its motors are asked is in `effects`. Or there is none any more. */
export const gamepad = (page, isThere, isHeld) =>
  page.evaluate(
    ([isThere, isHeld]) => {
      const button = (pressed) => ({ pressed, value: Number(pressed) });
      const buttons = Array.from({ length: 17 }, (_, place) => button(place === 5 && isHeld));
      const playEffect = async (kind, effect) => (globalThis.effects ??= []).push({ kind, ...effect });
      const pad = { id: "script", connected: true, mapping: "standard", axes: [0, -1, 0, 0], buttons, vibrationActuator: { playEffect } };
      navigator.getGamepads = () => (isThere ? [pad] : [null]);
    },
    [isThere, isHeld],
  );

export const position = async (page) => Number.parseFloat(await page.textContent("#position"));

/** A session whose robot moves while something is held. */
export async function moving(browser, work, { robot = [], more = [], touches = "free" } = {}) {
  const session = await Session.start({ robot, console: more, touches });
  try {
    const page = await open(browser, session);
    await shows(page, "#seat", /^in control/);
    if (!robot.includes("--hold-to-run")) {
      await resume(page);
    }
    await work(page, session);
    assert.deepEqual(page.errors, []);
    await page.close();
  } finally {
    await session.end();
  }
}

/** The same, of a robot that moves only while the enabling input is held, held. */
export const held = (page) =>
  hold(
    page,
    "KeyW",
    async () => (await page.getAttribute("body", "data-holds")) === "true" && (await page.textContent("#standing")) === "MOVING",
    "the robot moves, held",
  );

/** How long after `from` the robot stopped, ms: for ever, where it stood already, for a busy machine had held up the page and what it held had lapsed. */
export async function stoppedSince(session, from, reason) {
  const before = session.robot.lines.findLast((line) => line.at < from && /^(enabled|stopped)$/.test(line.event));
  if (before?.event === "stopped") return Infinity;
  const line = await session.robot.line((line) => line.event === "stopped", from);
  assert.match(line.why, reason);
  return line.at - from;
}

/** How long after `cause` the robot stops, ms: the least of several, each of which stops it. */
export async function stops(page, session, cause, limit, reason) {
  let least = Infinity;
  for (let attempt = 0; attempt < ATTEMPTS && least > limit; attempt++) {
    await held(page);
    const from = performance.now();
    await cause();
    least = Math.min(least, await stoppedSince(session, from, reason));
    await shows(page, "#standing", /^PAUSED/);
  }
  return least;
}
