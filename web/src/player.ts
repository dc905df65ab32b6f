/** Plays what the page is given, beside it: the browser's sound thread. */

import { Ring } from "./ring";

/** What is told so often, s. */
const EVERY = 0.5;

/** How it goes: what waits, ms; counts since the beginning; and how loud it is, root of the mean square. */
export interface FromPlayer {
  waits: number;
  underruns: number;
  leftOut: number;
  loudness: number;
}

// What there is where this runs.
declare const sampleRate: number;
declare const currentTime: number;
declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, of: unknown): void;

class Player extends AudioWorkletProcessor {
  private readonly ring = new Ring();
  private told = 0;
  private squares = 0;
  private played = 0;

  constructor() {
    super();
    this.port.onmessage = ({ data }: MessageEvent<Float32Array>) => this.ring.push(data);
  }

  process(_: Float32Array[][], [outputs]: Float32Array[][]): boolean {
    const [out, ...others] = outputs!;
    this.ring.pull(out!);
    for (const other of others) other.set(out!);
    for (const sample of out!) this.squares += sample * sample;
    this.played += out!.length;
    if (currentTime - this.told >= EVERY) {
      const { waiting, underruns, leftOut } = this.ring;
      const told: FromPlayer = { waits: (waiting / sampleRate) * 1e3, underruns, leftOut, loudness: Math.sqrt(this.squares / this.played) };
      this.port.postMessage(told);
      this.told = currentTime;
      this.squares = this.played = 0;
    }
    return true;
  }
}

registerProcessor("player", Player);
