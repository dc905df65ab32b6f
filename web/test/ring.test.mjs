// What waits for the browser's sound thread.
import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const { outputFiles } = await build({ entryPoints: [new URL("../src/ring.ts", import.meta.url).pathname], bundle: true, format: "esm", write: false });
const { BEGINS, MOST, Ring } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

/** Samples that count up from `first`. */
const counting = (first, length) => Float32Array.from({ length }, (_, at) => first + at);

test("it begins when 30 ms wait, and begins so again once it ran dry", () => {
  const ring = new Ring();
  const out = new Float32Array(480);
  ring.push(counting(1, 960));
  ring.pull(out);
  assert.equal(out[0], 0);
  ring.push(counting(961, 480));
  for (const first of [1, 481, 961]) {
    ring.pull(out);
    assert.equal(out[0], first);
  }
  assert.equal(ring.underruns, 0);
  ring.pull(out);
  assert.equal(ring.underruns, 1);
  ring.push(counting(1441, 480));
  ring.pull(out);
  assert.deepEqual([out[0], ring.underruns], [0, 1]);
});

test("what piles up is cut back to where it begins, the oldest first", () => {
  const ring = new Ring();
  let pushed = 0;
  while (pushed <= MOST) {
    ring.push(counting(pushed, 480));
    pushed += 480;
  }
  assert.deepEqual([ring.waiting, ring.leftOut], [BEGINS, pushed - BEGINS]);
  const out = new Float32Array(128);
  ring.pull(out);
  assert.equal(out[0], pushed - BEGINS);
});
