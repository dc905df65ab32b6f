// What is held, by which source.
import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const { outputFiles } = await build({ entryPoints: [new URL("../src/hold.ts", import.meta.url).pathname], bundle: true, format: "esm", write: false });
const { Hold } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

/** Its left stick is forth. */
const pad = (index, isHeld) => ({ id: "x", index, axes: [0, -1, 0, 0], buttons: Array.from({ length: 17 }, (_, place) => ({ pressed: isHeld && place === 5, value: 0 })) });

test("a gamepad in another's place moves nothing before it was let go, also one of the same model", () => {
  const hold = new Hold();
  const rate = (...all) => {
    hold.readGamepad(pad(...all));
    return hold.rate();
  };
  assert.equal(rate(0, false), null);
  assert.ok(rate(0, true)[0] > 0);
  assert.equal(rate(1, true), null);
  assert.equal(rate(1, false), null);
  assert.ok(rate(1, true)[0] > 0);
});
