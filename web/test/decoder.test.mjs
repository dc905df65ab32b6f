// What the picture's worker asks for, gives back and draws, beside a decoder that does as it is told.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { createContext, runInContext } from "node:vm";
import { build } from "esbuild";

const { outputFiles } = await build({ entryPoints: [new URL("../src/decoder.ts", import.meta.url).pathname], bundle: true, format: "iife", write: false });

const [VP8, H264, JPEG] = [1, 2, 3];

/** A message of a picture: a key frame where it needs itself, and one that recovers where it does not need the one before it. */
function picture(number, reference = number, codec = VP8) {
  const bytes = new Uint8Array(40);
  const view = new DataView(bytes.buffer);
  bytes[0] = 3;
  bytes.set([1, codec, number === reference ? 3 : number - reference > 1 ? 2 : 0], 12);
  view.setUint16(16, 640);
  view.setUint16(18, 480);
  view.setUint32(20, number);
  view.setUint32(24, reference);
  return bytes;
}

/** A worker. What it says is in `asked` and `taken`, what went to the decoder in `given`, how often it has drawn in `drawn`, what waits for the display in `frames`; what decodes now is `decoder`, and it decodes when it is told to. */
function start({ createImageBitmap } = {}) {
  const worker = { now: 1000, asked: [], taken: 0, given: [], drawn: [], frames: [] };
  const global = createContext({
    onmessage: null,
    performance: { now: () => worker.now },
    requestAnimationFrame: (frame) => worker.frames.push(frame),
    Blob,
    createImageBitmap,
    EncodedVideoChunk: class {
      constructor(chunk) {
        Object.assign(this, chunk);
      }
    },
    VideoDecoder: class {
      constructor({ output, error }) {
        worker.decoder = { output: (number) => output({ timestamp: number * 1000, displayWidth: 640, displayHeight: 480, close: () => {} }), error };
      }
      configure() {}
      decode({ timestamp }) {
        worker.given.push(timestamp / 1000);
      }
      close() {}
    },
    postMessage({ send }) {
      if (send?.[0] === 3) worker.taken++;
      if (send?.[0] !== 4) return;
      const view = new DataView(send.buffer);
      worker.asked.push({ needsKey: (send[3] & 1) !== 0, isMissing: (send[3] & 2) !== 0, last: view.getUint32(6) });
    },
  });
  runInContext(outputFiles[0].text, global);
  const canvas = { getContext: () => ({ canvas, drawImage: (image) => worker.drawn.push(image) }) };
  global.onmessage({ data: { canvas } });
  worker.take = (...all) => global.onmessage({ data: { bytes: picture(...all), made: NaN } });
  return worker;
}

test("an encoder that counts from 0 again is asked for a key frame where its first one was lost, and what is late is not", () => {
  const worker = start();
  worker.take(1000);
  worker.take(999, 998);
  assert.deepEqual(worker.asked, []);
  worker.take(1, 0);
  assert.deepEqual(worker.asked, [{ needsKey: true, isMissing: true, last: 1 }]);
  // By its number it is the next one, and is of another start.
  worker.take(1001, 1000);
  worker.take(3);
  worker.decoder.output(3);
  assert.equal(worker.taken, 4, "the first is still at the decoder");
});

test("what waits for frames of a start that is over waits no more", () => {
  const worker = start();
  worker.take(1000);
  worker.take(1002, 1001);
  worker.now += 100;
  worker.take(0);
  worker.decoder.output(0);
  assert.deepEqual(worker.asked.at(-1), { needsKey: false, isMissing: false, last: 0 });
});

test("a key frame behind a newer one is not drawn over it and stops nothing, and behind many that are late one is of another start", () => {
  const worker = start();
  worker.take(40);
  worker.take(18);
  assert.deepEqual([worker.taken, worker.given.at(-1)], [1, 40]);
  worker.take(41, 40);
  assert.equal(worker.given.at(-1), 41);
  worker.take(0);
  for (let number = 1; number < 31; number++) worker.take(number, number - 1);
  assert.deepEqual([worker.asked.at(-1), worker.given.at(-1)], [{ needsKey: true, isMissing: true, last: 30 }, 41]);
  worker.take(31);
  worker.take(42, 41);
  assert.equal(worker.given.at(-1), 31);
});

test("a decoder that fails or is replaced gives back the room of each frame that it had, once", () => {
  const worker = start();
  worker.take(1);
  worker.take(2, 1);
  worker.decoder.error();
  assert.equal(worker.taken, 2);
  worker.take(3);
  worker.decoder.output(3);
  // One that waited has given it back before.
  worker.take(5, 4);
  assert.equal(worker.taken, 4);
  worker.take(4, 3);
  worker.decoder.error();
  assert.equal(worker.taken, 5);
  worker.take(6);
  worker.take(7, 7, H264);
  assert.equal(worker.taken, 6);
  worker.decoder.output(7);
  assert.equal(worker.taken, 7);
});

test("while nobody sees the page, and the display takes nothing, no more and more waits for it", () => {
  const worker = start();
  const take = (from) => {
    for (let number = from; number < from + 100; number++) {
      worker.take(number);
      worker.decoder.output(number);
    }
  };
  take(1);
  assert.deepEqual([worker.drawn.length, worker.frames.length], [100, 1]);
  // It is seen again.
  for (let frame; (frame = worker.frames.pop()); ) frame(2000);
  take(101);
  assert.equal(worker.frames.length, 1);
});

test("JPEGs that take longer to decode than until the next one comes are drawn all the same, and none after a newer one", async () => {
  const takes = [50, 50, 50, 50, 50, 100, 10];
  let came = 0;
  const worker = start({
    createImageBitmap: async () => {
      const place = came++;
      await wait(takes[place]);
      return { place, close: () => {} };
    },
  });
  for (const [number] of takes.entries()) {
    worker.take(number, number, JPEG);
    await wait(33);
  }
  await wait(100);
  assert.deepEqual(worker.drawn.map(({ place }) => place), [0, 1, 2, 3, 4, 6]);
  assert.equal(worker.taken, takes.length);
});

test("far away a loss costs no key frame: what recovers is decoded whenever it comes", () => {
  const worker = start();
  worker.take(1000);
  worker.take(1001, 1000);
  // A round trip of 0.9 s, 30 pictures a second.
  for (let number = 1003; number < 1030; number++) {
    worker.now += 33;
    worker.take(number, number - 1);
  }
  assert.ok(worker.asked.length > 10 && worker.asked.every(({ needsKey, isMissing }) => !needsKey && isMissing), JSON.stringify(worker.asked));
  worker.take(1030, 1001);
  assert.equal(worker.given.at(-1), 1030);
  // Also of one of the last 256, and when a key frame was asked for meanwhile.
  for (let number = 1031; number < 1200; number++) worker.take(number, number - 1);
  for (let number = 1201; number < 1240; number++) {
    worker.now += 60;
    worker.take(number, number - 1);
  }
  assert.deepEqual(worker.asked.at(-1), { needsKey: true, isMissing: true, last: 1239 });
  worker.take(1240, 1030);
  assert.equal(worker.given.at(-1), 1240);
});
