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
    assert.ok(clock.here(6000 + AHEAD, 6000) <= 6000, "and what the gateway tells is no younger than it is");
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

test("a picture is not taken for younger than it is once one of the clocks stood", () => {
  const clock = new GatewayClock();
  for (let pinged = 0; pinged < 10_000; pinged += 500) clock.heard(pinged, pinged + 1 + AHEAD, pinged + 2);
  // The host slept for 9 s, which the page's clock does not count.
  const ahead = AHEAD + 9000;
  assert.ok(Number.isNaN(clock.here(10_000 + ahead, 10_000)), "it is not known before a pong came");
  clock.heard(10_000, 10_001 + ahead, 10_002);
  assert.equal(clock.here(10_002 + ahead, 10_002), 10_001);
  assert.ok(clock.there(10_002) <= 10_002 + ahead);
  // And back.
  clock.heard(10_500, 10_501 + AHEAD, 10_502);
  assert.equal(clock.here(10_502 + AHEAD, 10_502), 10_501);
  assert.ok(clock.there(10_502) <= 10_502 + AHEAD);
});

test("pongs count for ten seconds, however seldom they come", () => {
  const clock = new GatewayClock();
  // The page's clock is slower by 1 ms in 10 s, and no way is as short as the first.
  for (let pinged = 0; pinged <= 60_000; pinged += 5000) {
    const trip = pinged ? 40 : 2;
    clock.heard(pinged, pinged * 1.0001 + trip / 2, pinged + trip);
  }
  assert.ok(clock.here(60_000 * 1.0001, 60_000) <= 60_000);
});
