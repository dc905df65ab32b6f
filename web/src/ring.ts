/** What waits to be played: a ring buffer that begins late and ends early, so that it does not run dry at every unevenness. */

/** It begins when so much waits, samples: 30 ms. */
export const BEGINS = 1440;
/** More than that, 80 ms, has piled up: it is cut to where playing begins. */
export const MOST = 3840;

export class Ring {
  private readonly samples = new Float32Array(MOST + BEGINS);
  private first = 0;
  private isPlaying = false;
  /** Samples that wait. */
  waiting = 0;
  /** Times that it ran dry while it played. */
  underruns = 0;
  /** Samples that were left out. */
  leftOut = 0;

  push(samples: Float32Array): void {
    for (const sample of samples) {
      if (this.waiting === this.samples.length) this.leaveOut(1);
      this.samples[(this.first + this.waiting) % this.samples.length] = sample;
      this.waiting += 1;
    }
    if (this.waiting > MOST) this.leaveOut(this.waiting - BEGINS);
  }

  /** Fills `out`, with silence where there is nothing. */
  pull(out: Float32Array): void {
    this.isPlaying ||= this.waiting >= BEGINS;
    const count = this.isPlaying ? Math.min(out.length, this.waiting) : 0;
    for (let at = 0; at < count; at++) out[at] = this.samples[(this.first + at) % this.samples.length]!;
    out.fill(0, count);
    this.forget(count);
    if (this.isPlaying && count < out.length) {
      this.isPlaying = false;
      this.underruns += 1;
    }
  }

  private leaveOut(count: number): void {
    this.forget(count);
    this.leftOut += count;
  }

  private forget(count: number): void {
    this.first = (this.first + count) % this.samples.length;
    this.waiting -= count;
  }
}
