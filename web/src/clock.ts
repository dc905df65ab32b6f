/** The gateway's clock, as its pongs tell it. */

/** Pongs that count: those of ten seconds. */
const KEPT = 20;

/**
 * What a pong says is older by the way here when it is read, never newer. So of several the latest offset is nearest, and a time that this page
 * tells is never later than it was: a page or a way that lags makes what is held older, not fresher.
 */
export class GatewayClock {
  private offsets: number[] = [];
  private trips: number[] = [];

  /** The gateway's clock said that, ms, to a ping of `pinged`, and this page's says `now`. */
  heard(pinged: number, gateway: number, now: number): void {
    this.offsets.push(gateway - now);
    this.trips.push(now - pinged);
    for (const list of [this.offsets, this.trips]) if (list.length > KEPT) list.shift();
  }

  forget(): void {
    this.offsets = [];
    this.trips = [];
  }

  /** The shortest round trip, ms. */
  trip(): number {
    return Math.min(...this.trips);
  }

  /** A time of this page by the gateway's clock, ms; long ago while that is not known. */
  there(time: number): number {
    return this.offsets.length > 0 ? time + this.offset() : 0;
  }

  /** A time of the gateway's by this page's clock, ms; `NaN` while that is not known. */
  here(time: number): number {
    return this.offsets.length > 0 ? time - this.offset() : NaN;
  }

  private offset(): number {
    return Math.max(...this.offsets);
  }
}
