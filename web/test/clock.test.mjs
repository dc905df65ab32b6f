// How far away the gateway is, and what of a page counts there.
import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const { outputFiles } = await build({ entryPoints: [new URL("../src/clock.ts", import.meta.url).pathname], bundle: true, format: "esm", write: false });
const { GatewayClock } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

const BEAT = 20;
const LEASE = 100;
/** The gateway's clock says so much more, ms. */
const AHEAD = 5000;

test("what is held counts for as long as the lease where there and back, and a beat, take no longer, and else the page knows that it does not", () => {
  for (const [up, down] of [[5, 5], [39, 39], [79, 1], [1, 79], [42, 42], [1, 85], [85, 1]]) {
    const clock = new GatewayClock();
    for (let pinged = 0; pinged < 5000; pinged += 500) clock.heard(pinged, pinged + up + AHEAD, pinged + up + down);
    // What is said at 6 s is there `up` later; the next of it a beat after that.
    const age = 6000 + up + BEAT + AHEAD - clock.there(6000);
    assert.equal(clock.isBeyond(LEASE - BEAT), age > LEASE, `${up} ms there, ${down} back: ${age} ms old`);
    assert.ok(clock.here(6000 + AHEAD) <= 6000, "and what the gateway tells is no younger than it is");
  }
});

test("a page that was busy when it came is not far away", () => {
  const clock = new GatewayClock();
  assert.equal(clock.isBeyond(80), false);
  for (const [pinged, trip] of [[0, 300], [10, 290], [500, 90], [1000, 4]]) {
    clock.heard(pinged, pinged + trip, pinged + trip);
    assert.equal(clock.isBeyond(80), false);
  }
});
