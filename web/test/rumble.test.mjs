// What a gamepad's motors tell of the force.
import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";
import { inEachBrowser } from "./browsers.mjs";
import { gamepad, moving } from "./page.mjs";
import { until } from "./session.mjs";

const { outputFiles } = await build({ entryPoints: [new URL("../src/rumble.ts", import.meta.url).pathname], bundle: true, format: "esm", write: false });
const { Rumble } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

/** Feels forces at 1 kHz from `from`, s, on, for so many ms; how strongly the gamepad rumbles, asked every 20 ms. */
function felt(rumble, from, ms, force) {
  const shares = [];
  for (let now = 0; now < ms; now++) {
    rumble.feel(from + now / 1e3, force(now));
    if (now % 20 === 0) shares.push(rumble.next(from * 1e3 + now));
  }
  return shares;
}
const rumbles = (shares) => shares.filter((share) => share !== null);

test("a contact is felt at once and as strongly as it is, and a force that stays is not", () => {
  const rumble = new Rumble();
  assert.deepEqual(rumbles(felt(rumble, 0, 500, () => 4)), [], "a force that was there before");
  assert.deepEqual(rumbles(felt(rumble, 0.5, 500, (now) => 4 + Math.sin(now / 50) / 20)), [], "noise");
  const shares = felt(rumble, 1, 1000, (now) => (now < 10 ? 4 : 5));
  assert.ok(shares[0] === null && shares[1] > 0.4 && shares[1] <= 0.5, JSON.stringify(shares));
  assert.deepEqual(rumbles(shares.slice(25)), [], "half a second later");
  assert.equal(felt(rumble, 2, 100, (now) => (now < 10 ? 5 : 50))[1], 1, "as strongly as it can");
  assert.deepEqual(rumbles(felt(new Rumble(), 0, 100, () => 0)), []);
});

test("after a gap a force is no contact, and the gamepad is not asked faster than it can", () => {
  const rumble = new Rumble();
  felt(rumble, 0, 100, () => 0);
  assert.deepEqual(rumbles(felt(rumble, 5, 500, () => 3)), []);
  const shares = felt(rumble, 5.5, 1000, (now) => now % 100);
  assert.ok(rumbles(shares).length <= 20 && rumbles(shares).length > 5, JSON.stringify(shares));
});

inEachBrowser((browser) => {
  test("a gamepad feels that the robot's hand meets a wall", () =>
    moving(
      browser(),
      async (page) => {
        const effects = () => page.evaluate(() => globalThis.effects ?? []);
        // Once more, where a busy machine held up the page meanwhile: what lapsed has to be let go first.
        await until(async () => {
          await gamepad(page, true, false);
          await page.keyboard.press("KeyR");
          await new Promise((resolve) => setTimeout(resolve, 100));
          await gamepad(page, true, true);
          await new Promise((resolve) => setTimeout(resolve, 2000));
          return (await effects()).length > 0;
        }, "the gamepad is asked to rumble");
        for (const { kind, strongMagnitude, duration } of await effects())
          assert.ok(kind === "dual-rumble" && strongMagnitude > 0 && strongMagnitude <= 1 && duration <= 200);
      },
      { touches: "wall" },
    ));
});
