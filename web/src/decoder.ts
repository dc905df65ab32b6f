/** Decodes pictures and draws each at once: there is no jitter buffer, and of two that are ready the newer one stays. */

import { Phase } from "./phase";
import { ask, picture, taken, type Picture } from "./wire";

/** To the page: what goes to the gateway, when the picture was made that is shown now (ms since the epoch), or the picture itself. */
export type FromDecoder = { send: Uint8Array } | { made: number; number: number } | { frame: VideoFrame | ImageBitmap; made: number };
/** And to here: where to draw, a picture's message, or whether the page wants the next picture itself, which it does anew after each. */
export type ToDecoder = { canvas: OffscreenCanvas } | { bytes: Uint8Array; made: number } | { isWanted: boolean };

/** How often it is asked for what is missing, ms. */
const ASK_AGAIN = 60;

let context: OffscreenCanvasRenderingContext2D;
let decoder: VideoDecoder | null = null;
let codec = "";
/** The page draws the next picture, too. */
let isWanted = false;
/** It is being looked when the display takes pictures: one at a time, for while nobody sees the page the display takes none. */
let isTimed = false;
let needsKey = true;
/** Frames that were given to the decoder, the newest last: what a frame may refer to. */
const given: number[] = [];
const REMEMBERED = 256;
/** Frames that came since one was given to the decoder. */
let inVain = 0;
/** So many in a row, and nothing but a key frame helps: the encoder may take another page's frames for this one's, or began anew. */
const PATIENCE = 30;
let lastDecoded = 0;
/** The frame that came last: it tells the encoder, where nothing is decoded, that a key frame before it was lost. */
let lastCame = 0;
let askedAt = 0;
/** Frames that wait for one before them, their room at the gateway already given back. */
let held: Picture[] = [];
const HELD = 4;
/** JPEGs that came, and by that count the one that is drawn: which of several is decoded first, nobody knows. */
let came = 0;
let shown = 0;
const phase = new Phase();
const made = new Map<number, number>();
/** Frames at the decoder whose room at the gateway is not given back yet. */
const owed = new Set<number>();

function tell(message: FromDecoder): void {
  postMessage(message);
}

function askFor(channel: number, isMissing: boolean): void {
  const now = performance.now();
  if ((isMissing || needsKey) && now - askedAt < ASK_AGAIN) return;
  askedAt = now;
  const asksKey = needsKey || inVain > PATIENCE;
  tell({ send: ask(channel, { last: asksKey ? lastCame : lastDecoded, needsKey: asksKey, isMissing, later: phase.later() }) });
}

/** `isOwed`: the gateway waits to hear that there is room for another. */
function draw(channel: number, number: number, frame: VideoFrame | ImageBitmap, width: number, height: number, isOwed = true): void {
  if (context.canvas.width !== width || context.canvas.height !== height) Object.assign(context.canvas, { width, height });
  context.drawImage(frame, 0, 0);
  const at = made.get(number);
  made.delete(number);
  // One at a time: a page that is busy keeps none from the decoder.
  if (isWanted) postMessage({ frame, made: at ?? NaN } satisfies FromDecoder, { transfer: [frame] });
  else frame.close();
  isWanted = false;
  const drawn = performance.now();
  time(drawn);
  lastDecoded = number;
  if (at !== undefined && !Number.isNaN(at)) tell({ made: at, number });
  if (isOwed) tell({ send: taken(channel) });
  askFor(channel, held.length > 0);
}

/** How long after it was drawn the display takes a picture. */
function time(drawn: number): void {
  if (isTimed) return;
  isTimed = true;
  requestAnimationFrame((next) =>
    requestAnimationFrame((after) => {
      isTimed = false;
      phase.record(next - drawn, after - next);
    }),
  );
}

/** What the decoder still has is never drawn. */
function giveBack(channel: number): void {
  for (const _ of owed) tell({ send: taken(channel) });
  owed.clear();
}

function start(picture: Picture): VideoDecoder {
  const { channel } = picture;
  decoder?.close();
  giveBack(channel);
  codec = picture.codec;
  decoder = new VideoDecoder({
    output: (frame) => {
      const number = frame.timestamp / 1000;
      draw(channel, number, frame, frame.displayWidth, frame.displayHeight, owed.delete(number));
    },
    error: () => {
      decoder = null;
      needsKey = true;
      giveBack(channel);
      askFor(channel, false);
    },
  });
  decoder.configure({ codec, optimizeForLatency: true });
  return decoder;
}

/** Is it ahead of the other, where numbers wrap? */
function isNewer(number: number, other: number): boolean {
  return number !== other && (number - other) >>> 0 < 2 ** 31;
}

/** Is it so far from the other that it is of another start of the encoder, which counts from 0 again? */
function isFar(number: number, other: number): boolean {
  return Math.abs((number - other) | 0) > REMEMBERED;
}

/** Is what it needs the last frame that was decoded, or one that is kept for that? As in `crates/video/src/decoder.rs`. */
function isReady({ key, recovers, number, reference }: Picture): boolean {
  if (key) return true;
  const last = given.at(-1);
  if (needsKey || last === undefined || !isNewer(number, last)) return false;
  return recovers ? given.includes(reference) : reference === last;
}

async function receive(bytes: Uint8Array, at: number): Promise<void> {
  const one = picture(bytes);
  if (!one) return tell({ send: taken(bytes[1] ?? 0) });
  made.set(one.number, at);
  lastCame = one.number;
  // What was never shown is not kept.
  if (made.size > 64) made.delete(made.keys().next().value!);
  if (one.codec === "jpeg") {
    const order = ++came;
    const image = await createImageBitmap(new Blob([one.frame as Uint8Array<ArrayBuffer>], { type: "image/jpeg" })).catch(() => null);
    if (!image || order < shown) return tell({ send: taken(one.channel) });
    shown = order;
    needsKey = false;
    return draw(one.channel, one.number, image, one.width, one.height);
  }
  inVain++;
  const before = given.at(-1);
  if (before !== undefined && !isNewer(one.number, before)) {
    // Late, or of another start. As in `crates/video/src/decoder.rs`.
    if (!isFar(one.number, before) && inVain <= PATIENCE) return tell({ send: taken(one.channel) });
    // The key frame that its start began with may be lost, and what waits is of the one before.
    given.length = 0;
    held = [];
    needsKey = true;
  }
  if (isReady(one)) {
    decode(one, true);
    for (let next; (next = held.find(isReady)); ) {
      held = held.filter((other) => other !== next);
      decode(next, false);
    }
    const last = given.at(-1)!;
    held = held.filter(({ number }) => isNewer(number, last) && !isFar(number, last));
    return;
  }
  tell({ send: taken(one.channel) });
  held = [...held, one].slice(-HELD);
  askFor(one.channel, true);
}

/** `isOwed`: as of `draw`. */
function decode(one: Picture, isOwed: boolean): void {
  if (one.key) {
    needsKey = false;
    given.length = 0;
  }
  given.push(one.number);
  inVain = 0;
  if (given.length > REMEMBERED) given.shift();
  const to = decoder && codec === one.codec ? decoder : start(one);
  if (isOwed) owed.add(one.number);
  to.decode(new EncodedVideoChunk({ type: one.key ? "key" : "delta", timestamp: one.number * 1000, data: one.frame as Uint8Array<ArrayBuffer> }));
}

onmessage = ({ data }: MessageEvent<ToDecoder>) => {
  if ("isWanted" in data) isWanted = data.isWanted;
  else if ("canvas" in data) context = data.canvas.getContext("2d", { alpha: false, desynchronized: true })!;
  else void receive(data.bytes, data.made);
};
