// Chromium shows what OpenH264 made: the numbers in test pictures, read from what is drawn. Of a taut that has the feature.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { inEachBrowser } from "./browsers.mjs";
import { open } from "./page.mjs";
import { Session, TAUT, until } from "./session.mjs";

const asked = "robot --listen 127.0.0.1:0 --plaintext --transport udp --state none --video front=test:640x481 --video-codec h264";
const { stderr } = spawnSync(TAUT, asked.split(" "), { encoding: "utf8" });
const skip = /--features/.test(stderr) && "taut was built without OpenH264";
if (skip) console.log(`skipped: H.264, ${skip}`);

/** The bits of a test picture's first row of blocks, as its canvas has them (`crates/video/src/scene.rs`), and of the second, which has them turned over. */
const read = () => {
  const canvas = globalThis.drawn;
  if (!canvas) return null;
  const context = canvas.getContext("2d");
  const white = (block, row) => context.getImageData(16 * block + 8, 16 * row + 8, 1, 1).data[0] > 128;
  const bits = (row) => Array.from({ length: 32 }, (_, at) => white(4 + at, row));
  const [upper, lower] = [bits(0), bits(1)];
  if (![0, 1, 2, 3].every((at) => white(at, 0) === (at % 2 === 0)) || upper.some((bit, at) => bit === lower[at])) return null;
  return upper.reduce((number, bit) => number * 2 + Number(bit), 0);
};

inEachBrowser((browser) => {
  test("pictures in H.264 are drawn, with their numbers", { skip }, async (context) => {
    const session = await Session.start({ robot: ["--video", "front=test", "--video-codec", "h264"], console: ["--video", "front"] });
    try {
      const page = await open(browser(), session);
      const supports = await page.evaluate(async () => {
        const { supported } = (await globalThis.VideoDecoder?.isConfigSupported({ codec: "avc1.42E01F" }).catch(() => null)) ?? {};
        return supported === true;
      });
      if (!supports) return context.skip(`${browser().kind.name} has no H.264 in WebCodecs`);
      await page.evaluate(() => {
        globalThis.numbers = [];
        addEventListener("picture", ({ detail }) => globalThis.numbers.push(detail.number));
      });
      await until(() => page.evaluate(() => globalThis.numbers.length >= 60), "pictures of two seconds");
      const shown = await page.evaluate(async () => {
        const canvas = document.querySelector("canvas");
        const bitmap = await createImageBitmap(canvas);
        globalThis.drawn = Object.assign(document.createElement("canvas"), { width: 640, height: 480 });
        globalThis.drawn.getContext("2d").drawImage(bitmap, 0, 0, 640, 480);
        return globalThis.numbers.at(-1);
      });
      const number = await page.evaluate(read);
      console.log(`${browser().kind.name}: the picture that is drawn says ${number}, the last that was told is ${shown}`);
      assert.ok(number !== null && Math.abs(number - shown) <= 3, `${number} ${shown}`);
      assert.deepEqual(page.errors, []);
    } finally {
      await session.end();
    }
  });
});
