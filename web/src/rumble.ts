/** What the gamepad lets a hand feel: that the robot's hand has met something, or been pushed. A force that stays fades. */

/** A force counts as steady after so long, s. */
const FADES = 0.15;
/** A rise of so much is felt as strongly as the gamepad can, N; of less than this share of it, not at all. */
const FULL = 2;
const LEAST = 0.1;
/** The gamepad is asked again so often, ms, and goes on for longer when nobody asks: no gap, and soon over when the page hangs. */
const EVERY = 50;
const LASTS = 100;

export class Rumble {
  private at = NaN;
  private steady = 0;
  private rise = 0;
  private asks = -Infinity;

  /** The robot felt a force of so much, N, at that time, s. */
  feel(at: number, force: number): void {
    // The first, and one after a gap, is no contact.
    if (!(at - this.at < 1)) this.steady = force;
    else this.steady += (force - this.steady) * -Math.expm1((this.at - at) / FADES);
    this.at = at;
    this.rise = Math.max(this.rise, force - this.steady);
  }

  /** How strongly to rumble from now, ms, on, 0 to 1: of what rose most since it was asked last; `null`: not at all, or it was asked just now. */
  next(now: number): number | null {
    if (now - this.asks < EVERY) return null;
    const share = Math.min(1, this.rise / FULL);
    this.rise = 0;
    if (share < LEAST) return null;
    this.asks = now;
    return share;
  }
}

/** By two motors, or by the one that a headset's hand has. Gamepads without motors, and browsers without this, have none: then nothing is felt, and nothing else changes. */
export function rumble(pad: Gamepad, share: number): void {
  const effect = { duration: LASTS, strongMagnitude: share, weakMagnitude: share };
  const motors = pad.vibrationActuator;
  if (motors?.playEffect) void motors.playEffect("dual-rumble", effect).catch(() => {});
  else void pad.hapticActuators?.[0]?.pulse(share, LASTS).catch(() => {});
}
