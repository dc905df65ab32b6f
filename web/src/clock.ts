/** The gateway's clock, as its pongs tell it. */

/** Pongs that count: those of ten seconds. */
const KEPT = 20;
/** One may be held up, as the first ones are by a page that loads; of so many the shortest is the way's. */
const SURE = 4;

/**
 * What a pong says is older by the way here when it is read, never newer. So of several the latest offset is nearest, and a time that this page
 * tells is never later than it was: a page or a way that lags makes what is held older, not fresher. Nor is what the gateway tells younger than it
 * is here: a ping is sent before a pong says anything.
 */
export class GatewayClock {
  /** How far the gateway's clock is ahead of this page's: at least, and at most. */
  private offsets: { least: number; most: number }[] = [];
  private shortest = Infinity;

  /** The gateway's clock said that, ms, to a ping of `pinged`, and this page's says `now`. */
  heard(pinged: number, gateway: number, now: number): void {
    this.offsets.push({ least: gateway - now, most: gateway - pinged });
    this.shortest = Math.min(this.shortest, now - pinged);
    if (this.offsets.length > KEPT) this.offsets.shift();
  }

  forget(): void {
    this.offsets = [];
    this.shortest = Infinity;
  }

  /** The shortest round trip since this way is there, ms: of a longer time than offsets, for pictures that fill the way would count as the way's own. */
  trip(): number {
    return this.shortest;
  }

  /** Is the round trip longer than `limit`, ms, each time? */
  isBeyond(limit: number): boolean {
    return this.offsets.length >= SURE && this.shortest > limit;
  }

  /** A time of this page by the gateway's clock, ms; long ago while that is not known. */
  there(time: number): number {
    return this.offsets.length > 0 ? time + Math.max(...this.offsets.map(({ least }) => least)) : 0;
  }

  /** A time of the gateway's by this page's clock, ms, never later than it was; `NaN` while that is not known. */
  here(time: number): number {
    return this.offsets.length > 0 ? time - Math.min(...this.offsets.map(({ most }) => most)) : NaN;
  }
}
