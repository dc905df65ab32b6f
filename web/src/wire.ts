/** The bytes between page and gateway: see `crates/console/src/frame.rs`. */

/** How fast to move: m/s along x, y, z, rad/s about x, y, z, and 1/s of the gripper, which closes. */
export type Rate = [number, number, number, number, number, number, number];

export const Button = { stop: 0, reset: 1, resume: 2, takeControl: 3 } as const;

export const FromGateway = { event: 1, states: 2, picture: 3, sound: 4, pong: 5, joints: 6, stopTaken: 7 } as const;

/** What is held, and when that was so, ms by the gateway's clock. */
export function input(rate: Rate | null, made: number): Uint8Array {
  const bytes = new Uint8Array(40);
  const view = new DataView(bytes.buffer);
  bytes[0] = 1;
  bytes[1] = rate ? 1 : 0;
  rate?.forEach((value, place) => view.setFloat32(4 + 4 * place, value));
  view.setFloat64(32, made);
  return bytes;
}

/** Says a message what is held? It is said again so soon that none has to get there. */
export function isHeld(message: Uint8Array): boolean {
  return message[0] === 1;
}

/** Does it tell what became of a stop: that the gateway has it, or that the robot acknowledged one? */
export function isOfStop(message: Uint8Array): boolean {
  if (message[0] === FromGateway.stopTaken) return true;
  return message[0] === FromGateway.event && JSON.parse(new TextDecoder().decode(message.subarray(1))).event === "emergency_stopped";
}

/** And when it was pressed, ms by the gateway's clock; of a stop by this page's, which comes back. */
export function button(code: number, made: number): Uint8Array {
  const bytes = new Uint8Array(10);
  bytes.set([2, code]);
  new DataView(bytes.buffer).setFloat64(2, made);
  return bytes;
}

export function choose(offer: number, place: number): Uint8Array {
  return new Uint8Array([6, offer, place]);
}

/** The sound that comes is played, or not. */
export function play(plays: boolean): Uint8Array {
  return new Uint8Array([8, Number(plays)]);
}

export function taken(channel: number): Uint8Array {
  return new Uint8Array([3, channel]);
}

/** So many pictures are under way to this page, or their acknowledgements back. */
export function way(pictures: number): Uint8Array {
  return new Uint8Array([7, pictures]);
}

export interface Ask {
  /** The frame that was decoded last; where a key frame is needed, the one that came last. */
  last: number;
  needsKey: boolean;
  isMissing: boolean;
  /** By how much later pictures would better be made, 0.1 ms. */
  later: number;
}

/** What goes back to the encoder of a channel: see `crates/media/src/picture.rs`. */
export function ask(channel: number, { last, needsKey, isMissing, later }: Ask): Uint8Array {
  const bytes = new Uint8Array(10);
  bytes.set([4, channel, 1, (needsKey ? 1 : 0) | (isMissing ? 2 : 0)]);
  const view = new DataView(bytes.buffer);
  view.setInt16(4, needsKey || isMissing ? 0 : later);
  view.setUint32(6, last);
  return bytes;
}

export function ping(now: number): Uint8Array {
  const bytes = new Uint8Array(9);
  bytes[0] = 5;
  new DataView(bytes.buffer).setFloat64(1, now);
  return bytes;
}

/** What the robot felt, and where it was, at one moment. */
export interface Sample {
  /** s, by the gateway's clock. */
  at: number;
  position: [number, number, number];
  force: [number, number, number];
}

const STATE = 32;

export function samples(bytes: Uint8Array, each: (sample: Sample) => void): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 1; at + STATE <= bytes.length; at += STATE) {
    const three = (from: number): [number, number, number] => [
      view.getFloat32(at + from),
      view.getFloat32(at + from + 4),
      view.getFloat32(at + from + 8),
    ];
    each({ at: view.getFloat64(at), position: three(8), force: three(20) });
  }
}

/** Where the robot's joints were, rad or m. When that was says `madeAt`. */
export function joints(bytes: Uint8Array): Float32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset + MADE);
  return Float32Array.from({ length: (bytes.length - MADE) >> 2 }, (_, place) => view.getFloat32(4 * place));
}

export interface Picture {
  channel: number;
  codec: string;
  key: boolean;
  /** It refers to what its receiver said it had, and not to the one before. */
  recovers: boolean;
  width: number;
  height: number;
  number: number;
  reference: number;
  frame: Uint8Array;
}

const CODECS: Record<number, string> = { 1: "vp8", 2: "avc1.42E01F", 3: "jpeg" };
const HEADER = 16;
/** Ahead of it: the channel, and when it was made by the gateway's clock, ms. */
const MADE = 12;

/** When the picture of a message was made, ms by the gateway's clock; no number: nobody knows. */
export function madeAt(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getFloat64(4);
}

/** The samples of a message of sound, −1 to 1, of 48 kHz. When the first was heard says `madeAt`. */
export function sound(bytes: Uint8Array): Float32Array<ArrayBuffer> {
  const view = new DataView(bytes.buffer, bytes.byteOffset + MADE);
  const samples = new Float32Array((bytes.length - MADE) >> 1);
  for (let at = 0; at < samples.length; at++) samples[at] = view.getInt16(2 * at) / 32768;
  return samples;
}

/** A message of a picture; `null` where it is none. */
export function picture(bytes: Uint8Array): Picture | null {
  if (bytes.length < MADE + HEADER) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const codec = CODECS[view.getUint8(MADE + 1)];
  if (view.getUint8(MADE) !== 1 || codec === undefined) return null;
  const flags = view.getUint8(MADE + 2);
  return {
    channel: view.getUint8(1),
    codec,
    key: (flags & 1) !== 0,
    recovers: (flags & 2) !== 0,
    width: view.getUint16(MADE + 4),
    height: view.getUint16(MADE + 6),
    number: view.getUint32(MADE + 8),
    reference: view.getUint32(MADE + 12),
    frame: bytes.subarray(MADE + HEADER),
  };
}

/** Is a message a picture that needs the one before it? */
export function needsAnother(message: Uint8Array): boolean {
  const one = message[0] === FromGateway.picture ? picture(message) : null;
  return one !== null && !one.key && !one.recovers;
}
