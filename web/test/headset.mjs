// A headset that is emulated in the page: Meta's Immersive Web Emulation Runtime, which is an implementation of WebXR of its own.
import { setTimeout as wait } from "node:timers/promises";
import { until } from "./session.mjs";

const IWER = new URL("../node_modules/iwer/build/iwer.min.js", import.meta.url).pathname;

/** Before the page is loaded: it has a headset with two hands, whose tracking can be lost by `globalThis.lost`. */
export async function wear(page) {
  await page.addInitScript({ path: IWER });
  await page.addInitScript(() => {
    const device = (globalThis.device = new globalThis.IWER.XRDevice(globalThis.IWER.metaQuest3));
    device.installRuntime({ forceInstall: true });
    globalThis.hand = (side) => device.controllers[side];
    const { getPose } = XRFrame.prototype;
    XRFrame.prototype.getPose = function (space, base) {
      const pose = getPose.call(this, space, base);
      const isHand = [...this.session.inputSources].some(({ gripSpace }) => gripSpace === space);
      if (!isHand) return pose;
      // By itself it says of every place that it is made up.
      return globalThis.lost === "pose" ? undefined : { transform: pose.transform, emulatedPosition: globalThis.lost === "emulated" };
    };
    // How often it draws, for whoever waits for it.
    globalThis.frames = 0;
    const { requestAnimationFrame } = XRSession.prototype;
    XRSession.prototype.requestAnimationFrame = function (then) {
      const each = (...all) => {
        // One that stands comes to it later.
        if (globalThis.stands) return void setTimeout(() => requestAnimationFrame.call(this, each), 20);
        globalThis.frames++;
        then(...all);
      };
      return requestAnimationFrame.call(this, each);
    };
  });
}

/** Waits until the headset has drawn so often more. */
export async function draws(page, frames = 2) {
  const from = await page.evaluate(() => globalThis.frames);
  await until(() => page.evaluate((from) => globalThis.frames >= from, from + frames), "the headset draws");
}

export async function enter(page) {
  await page.waitForSelector("#enter", { state: "visible" });
  await page.click("#enter");
  await draws(page);
}

/** A button of a hand is pressed, or not. */
export async function press(page, button, value, side = "right") {
  await page.evaluate(([side, button, value]) => globalThis.hand(side).updateButtonValue(button, value), [side, button, value]);
  await draws(page);
}

/** Where a hand is, m, right, up and back from where the headset's space begins. */
export async function put(page, [x, y, z], side = "right") {
  await page.evaluate(([side, x, y, z]) => globalThis.hand(side).position.set(x, y, z), [side, x, y, z]);
  await draws(page);
}

/** Moves a hand from one place to another in so long, s, at each frame of the page. */
export const move = (page, from, to, seconds, side = "right") =>
  page.evaluate(
    ([side, from, to, seconds]) =>
      new Promise((resolve) => {
        const began = performance.now();
        const each = () => {
          const share = Math.min(1, (performance.now() - began) / 1e3 / seconds);
          globalThis.hand(side).position.set(...from.map((place, axis) => place + (to[axis] - place) * share));
          if (share < 1) requestAnimationFrame(each);
          else resolve();
        };
        each();
      }),
    [side, from, to, seconds],
  );

/** Holds the stick forth for as long as lets the robot go on; is it so then? */
export async function stick(page, standing, side = "right") {
  const put = (forth) => page.evaluate(([side, forth]) => globalThis.hand(side).updateAxes("thumbstick", 0, -forth), [side, forth]);
  const stands = async () => standing.test(await page.textContent("#standing"));
  await put(1);
  await draws(page);
  for (const end = performance.now() + 1_500; performance.now() < end && !(await stands()); await wait(20));
  await put(0);
  await draws(page);
  return stands();
}

/** The same, until it is. */
export const goOn = (page, standing, side) => until(() => stick(page, standing, side), `the robot goes on: ${standing}`);

export const holds = async (page) => (await page.getAttribute("body", "data-holds")) === "true";

/** Grips, once more where a busy machine held up the page and what was held has lapsed. */
export const grip = (page, side = "right") =>
  until(async () => {
    await press(page, "squeeze", 0, side);
    await press(page, "squeeze", 1, side);
    return holds(page);
  }, "a hand holds");
