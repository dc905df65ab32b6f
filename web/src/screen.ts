/** The robot's picture. It is decoded and drawn by a worker, beside which the page may be busy. */

import type { FromDecoder } from "./decoder";

export class Screen {
  private worker: Worker | null = null;
  private expected = false;
  /** When the picture that is shown was made, by the page's clock, ms. */
  private made: number | null = null;

  constructor(
    private readonly send: (message: Uint8Array) => void,
    private readonly tellAge: (age: number) => void,
  ) {}

  /** Are there pictures in this session? */
  expect(pictures: boolean): void {
    this.expected = pictures;
    if (!pictures || this.worker || typeof VideoDecoder === "undefined") return;
    document.getElementById("picture")!.hidden = false;
    const canvas = (document.getElementById("screen") as HTMLCanvasElement).transferControlToOffscreen();
    this.worker = new Worker("/decoder.js");
    this.worker.onmessage = ({ data }: MessageEvent<FromDecoder>) => {
      if ("send" in data) return this.send(data.send);
      this.made = data.made - performance.timeOrigin;
      this.tellAge(performance.now() - this.made);
      // For whoever measures beside this page.
      dispatchEvent(new CustomEvent("picture", { detail: data }));
    };
    this.worker.postMessage({ canvas }, [canvas]);
  }

  /** A picture, made at that time by the page's clock, ms: `NaN` where nobody knows. */
  receive(bytes: Uint8Array, made: number): void {
    this.worker?.postMessage({ bytes, made: performance.timeOrigin + made }, [bytes.buffer]);
  }

  /** Is what is shown older than `limit`, ms, or is nothing shown yet where there are pictures? */
  isStale(limit: number): boolean {
    return this.expected && (this.made === null || performance.now() - this.made > limit);
  }
}
