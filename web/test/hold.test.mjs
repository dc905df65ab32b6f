// What is held, by which source.
import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const { outputFiles } = await build({ entryPoints: [new URL("../src/hold.ts", import.meta.url).pathname], bundle: true, format: "esm", write: false });
const { Hold } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

/** Its left stick is forth. Without a time it says nothing of when it was heard. */
const pad = (index, isHeld, timestamp) => ({
  id: "x",
  index,
  timestamp,
  connected: true,
  mapping: "standard",
  axes: [0, -1, 0, 0],
  buttons: Array.from({ length: 17 }, (_, place) => ({ pressed: isHeld && place === 5, value: 0 })),
});

test("a gamepad in another's place moves nothing before it was let go, also one of the same model", () => {
  const hold = new Hold();
  const rate = (...all) => {
    hold.readGamepads([null, pad(...all)], 0);
    return hold.rate();
  };
  assert.equal(rate(0, false), null);
  assert.ok(rate(0, true)[0] > 0);
  assert.equal(rate(1, true), null);
  assert.equal(rate(1, false), null);
  assert.ok(rate(1, true)[0] > 0);
});

test("a gamepad that moves the robot and says nothing for 5 s is let go, and what it says then counts after it was let go", () => {
  const hold = new Hold();
  const read = (now, ...all) => [hold.readGamepads([pad(0, ...all)], now), hold.rate() !== null];
  // At rest it says nothing for as long as it likes.
  assert.deepEqual(read(0, false, 1), [null, false]);
  assert.deepEqual(read(60_000, true, 60_000), [null, true]);
  assert.deepEqual(read(64_900, true, 60_000), [null, true]);
  assert.deepEqual(read(65_100, true, 60_000), ["silent", false]);
  assert.deepEqual(read(65_120, true, 65_110), [null, false]);
  assert.deepEqual(read(65_140, false, 65_130), [null, false]);
  // One that goes on saying something is held.
  for (let now = 70_000; now < 90_000; now += 1000) assert.deepEqual(read(now, true, now), [null, true]);
});

test("of several gamepads the one that is held counts, and another one once both were let go", () => {
  const hold = new Hold();
  const read = (...held) => {
    hold.readGamepads(held.map((isHeld, index) => pad(index, isHeld)), 0);
    return hold.rate() !== null && hold.gamepad.index;
  };
  assert.equal(read(false, false), false);
  assert.equal(read(false, true), 1);
  assert.equal(read(true, true), 1);
  assert.equal(read(true, false), false);
  assert.equal(read(false, false), false);
  assert.equal(read(true, false), 0);
  // Another one comes.
  assert.equal(read(true, false, false), false);
});
