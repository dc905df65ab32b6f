/** The gateway's clock, as its pongs tell it. */

/** A pong counts for so long, ms. */
const KEPT = 10_000;
/** One may be held up, as the first ones are by a page that loads; of so many the shortest is the way's. */
const SURE = 4;

/**
 * What a pong says is older by the way here when it is read, never newer. So of several the latest offset is nearest, and a time that this page
 * tells is never later than it was: a page or a way that lags makes what is held older, not fresher. Nor is what the gateway tells younger than it
 * is here: a ping is sent before a pong says anything.
 */
export class GatewayClock {
  /** How far the gateway's clock is ahead of this page's: at least, and at most. */
  private offsets: { at: number; least: number; most: number }[] = [];
  /** Pongs since this way is there. */
  private pongs = 0;
  private shortest = Infinity;

  /** The gateway's clock said that, ms, to a ping of `pinged`, and this page's says `now`. */
  heard(pinged: number, gateway: number, now: number): void {
    const [least, most] = [gateway - now, gateway - pinged];
    // One of the clocks was set, or stood while its host slept: what is known is of before.
    if (most < this.least || least > this.most) this.offsets = [];
    this.offsets = [...this.offsets.filter(({ at }) => now - at <= KEPT), { at: now, least, most }];
    this.pongs++;
    this.shortest = Math.min(this.shortest, now - pinged);
  }

  forget(): void {
    this.offsets = [];
    this.pongs = 0;
    this.shortest = Infinity;
  }

  private get least(): number {
    return Math.max(...this.offsets.map(({ least }) => least));
  }

  private get most(): number {
    return Math.min(...this.offsets.map(({ most }) => most));
  }

  /** The shortest round trip since this way is there, ms: of a longer time than offsets, for pictures that fill the way would count as the way's own. */
  trip(): number {
    return this.shortest;
  }

  /** Is the round trip longer than `limit`, ms, each time? */
  isBeyond(limit: number): boolean {
    return this.pongs >= SURE && this.shortest > limit;
  }

  /** A time of this page by the gateway's clock, ms; long ago while that is not known. */
  there(time: number): number {
    return this.offsets.length > 0 ? time + this.least : 0;
  }

  /** A time of the gateway's, which is over, by this page's clock, ms, never later than it was; `NaN` while that is not known. */
  here(time: number, now: number): number {
    const here = time - this.most;
    // What would be yet to come is of a clock that was set, or stood, since the last pong.
    return this.offsets.length > 0 && here <= now ? here : NaN;
  }
}
