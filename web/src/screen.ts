/** The robot's picture. It is decoded and drawn by a worker, beside which the page may be busy. */

import type { FromDecoder, ToDecoder } from "./decoder";

export type Frame = VideoFrame | ImageBitmap;

export class Screen {
  private worker: Worker | null = null;
  private expected = false;
  /** When the picture that is shown was made, by the page's clock, ms. */
  private made: number | null = null;
  /** Who else shows them, and is looked at instead. */
  private lentTo: ((frame: Frame) => void) | null = null;

  constructor(
    private readonly send: (message: Uint8Array) => void,
    private readonly tellAge: (age: number) => void,
    private readonly say: (what: string) => void,
  ) {}

  /** Are there pictures in this session? */
  expect(pictures: boolean): void {
    this.expected = pictures;
    if (!pictures || this.worker) return;
    document.getElementById("picture")!.hidden = false;
    if (typeof VideoDecoder === "undefined") {
      document.getElementById("stale")!.textContent = "This browser cannot show the pictures (it has no WebCodecs): this page moves nothing";
      return;
    }
    const canvas = (document.getElementById("screen") as HTMLCanvasElement).transferControlToOffscreen();
    this.worker = new Worker("/decoder.js");
    this.worker.onmessage = ({ data }: MessageEvent<FromDecoder>) => {
      if ("send" in data) return this.send(data.send);
      if ("frame" in data) return this.pass(data.frame, data.made);
      if (!this.lentTo) this.made = data.made - performance.timeOrigin;
      this.tellAge(performance.timeOrigin + performance.now() - data.made);
      // For whoever measures beside this page.
      dispatchEvent(new CustomEvent("picture", { detail: data }));
    };
    this.worker.onerror = ({ message }) => this.say(`what decodes the pictures has failed: ${message || "it could not be loaded"}`);
    this.worker.postMessage({ canvas } satisfies ToDecoder, [canvas]);
    this.want();
  }

  /** Gives each picture away, too, whose it is then; or no more. */
  lend(to: ((frame: Frame) => void) | null): void {
    this.lentTo = to;
    this.want();
  }

  private want(): void {
    this.worker?.postMessage({ isWanted: this.lentTo !== null } satisfies ToDecoder);
  }

  private pass(frame: Frame, made: number): void {
    if (!this.lentTo) return frame.close();
    if (!Number.isNaN(made)) this.made = made - performance.timeOrigin;
    this.lentTo(frame);
    this.want();
  }

  /** A picture, made at that time by the page's clock, ms: `NaN` where nobody knows. */
  receive(bytes: Uint8Array, made: number): void {
    this.worker?.postMessage({ bytes, made: performance.timeOrigin + made }, [bytes.buffer]);
  }

  /** How old is what is shown, ms? `NaN`: nothing is. */
  age(now: number): number {
    return this.made === null ? NaN : now - this.made;
  }

  /** Are there pictures in this session? */
  get isExpected(): boolean {
    return this.expected;
  }

  /** Is what is shown older than `limit`, ms, or is nothing shown yet where there are pictures? */
  isStale(limit: number): boolean {
    return this.expected && (this.made === null || performance.now() - this.made > limit);
  }
}
