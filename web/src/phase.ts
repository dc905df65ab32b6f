/**
 * A display takes what is drawn at moments of its own, 60 a second: what is drawn just after one waits for the next. Where the camera's rate fits
 * the display's, all pictures wait as long, by chance; then the camera is asked for pictures that come just in time.
 */

/**
 * So long before the display's moment, as the browser tells it, a picture is drawn at best, ms. To the framebuffer of an X server it takes Chromium
 * 19.1 ms with 5 here, 15.5 with 1; with -2 every twentieth picture comes too late for its moment.
 */
const SPARE = 1;
/** Of a new wait, in the mean. */
const WEIGHT = 1 / 16;
/** Where the mean of the waits' directions on the period's circle is shorter, they have no phase in common. */
const STEADY = 0.6;
/** What is nearer is near enough, ms. */
const NEAR = 0.3;

export class Phase {
  private period = 0;
  private sine = 0;
  private cosine = 0;

  /** A picture was drawn so long before the display's next moment; from that to the one after is a period; ms. */
  record(wait: number, period: number): void {
    if (!(period > 2 && period < 50 && wait >= 0 && wait <= 2 * period)) return;
    this.period = period;
    const angle = (2 * Math.PI * wait) / period;
    this.sine += WEIGHT * (Math.sin(angle) - this.sine);
    this.cosine += WEIGHT * (Math.cos(angle) - this.cosine);
  }

  /** By how much later pictures would better be made, 0.1 ms; 0: as they are, or nobody knows. */
  later(): number {
    if (Math.hypot(this.sine, this.cosine) < STEADY) return 0;
    const wait = (Math.atan2(this.sine, this.cosine) / (2 * Math.PI)) * this.period;
    const off = wait - SPARE;
    const nearest = off - this.period * Math.round(off / this.period);
    return Math.abs(nearest) < NEAR ? 0 : Math.round(10 * nearest);
  }
}
