/** A stick that is held forth for as long as lets a robot move again. Sans-IO. */

/** So long it is, ms. */
export const GOES_ON = 1000;
/** Between two looks at it, ms: after more than that nobody knows that it was held. */
const UNSEEN = 250;

export class Forth {
  /** Whose stick it is that is held, and since when. */
  private by: object | null = null;
  private since = 0;
  private seenAt = -Infinity;
  /** All sticks were back since anything came between. */
  private isFree = false;

  /** Something came between: a stop, a menu, another hand. All sticks have to be back first. */
  interrupt(): void {
    this.by = null;
    this.isFree = false;
  }

  /** Whose sticks are forth now, ms. True once: one was, all the time. */
  follow(forth: readonly object[], now: number): boolean {
    if (now - this.seenAt > UNSEEN) this.interrupt();
    this.seenAt = now;
    const [first] = forth;
    if (!first) {
      [this.by, this.isFree] = [null, true];
      return false;
    }
    if (!this.by && this.isFree) [this.by, this.since, this.isFree] = [first, now, false];
    if (!this.by) return false;
    if (!forth.includes(this.by)) this.interrupt();
    if (!this.by || now - this.since < GOES_ON) return false;
    this.interrupt();
    return true;
  }

  /** How much of that time is over, 0 to 1. */
  share(now: number): number {
    return this.by ? Math.min(Math.max((now - this.since) / GOES_ON, 0), 1) : 0;
  }
}
