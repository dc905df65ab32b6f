// What the console asks of a camera whose pictures wait for the display.
import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const { outputFiles } = await build({ entryPoints: [new URL("../src/phase.ts", import.meta.url).pathname], bundle: true, format: "esm", write: false });
const { Phase } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
const PERIOD = 1000 / 60;

/** What is asked for after so many pictures of a camera of this period that follows as `crates/cli/src/video/camera.rs` does, and the last wait. */
function follow(period, first, { jitter = () => 0, delay = 3 } = {}) {
  const phase = new Phase();
  const asked = Array(delay).fill(0);
  let made = first;
  let wait = 0;
  for (let count = 0; count < 300; count++) {
    const drawn = made + jitter(count);
    wait = ((PERIOD - (drawn % PERIOD)) % PERIOD + PERIOD) % PERIOD;
    phase.record(wait, PERIOD);
    asked.push(phase.later());
    made += period + Math.max(-0.5, Math.min(0.5, asked.shift() * 0.005));
  }
  return { later: phase.later(), wait };
}

test("pictures come just before the display takes them, from wherever they began, a round trip late", () => {
  for (let first = 0; first < PERIOD; first += 1.5) {
    const { later, wait } = follow(2 * PERIOD, first);
    assert.ok(Math.abs(later) < 6, `${first}: ${later}`);
    assert.ok(Math.min(wait, PERIOD - wait) < 2.5, `${first}: ${wait} ms`);
  }
});

test("pictures that come now sooner, now later, are led all the same", () => {
  const { later } = follow(2 * PERIOD, 9, { jitter: (count) => ((count * 7) % 5) - 2 });
  assert.ok(Math.abs(later) < 15, `${later}`);
});

test("a rate that does not fit the display is left alone", () => {
  assert.equal(follow(PERIOD * 1.37, 3).later, 0);
});

test("what is no wait is not taken for one", () => {
  const phase = new Phase();
  for (const [wait, period] of [[-1, PERIOD], [3, 0], [3, 1000], [50, PERIOD], [Number.NaN, PERIOD]]) phase.record(wait, period);
  assert.equal(phase.later(), 0);
});
