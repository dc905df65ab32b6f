/** A hand that leads the robot's: where it goes while it holds, the robot's goes, at a scale. Made into how fast to move, as all inputs are. */

import type { Rate } from "./wire";

/** Where a hand is: m along the robot's axes as the person has them, how it is turned about these (x, y, z, w), and how far its trigger is pulled. */
export interface Reading {
  position: [number, number, number];
  turned: [number, number, number, number];
  trigger: number;
}

/** In so long, s, what the hand has done is done: longer than from one frame of a headset to the next. */
const CATCH_UP = 0.03;
/** No faster than so: m/s, rad/s, 1/s of the gripper. What a hand does faster is left out. */
const FASTEST = { linear: 0.25, angular: 1.5, gripper: 4 };
/** And no more than this is made up for once the hand rests: m, rad, of the gripper's way. */
const BEHIND = { linear: 0.02, angular: 0.15, gripper: 1 };

const nothing = (): Rate => [0, 0, 0, 0, 0, 0, 0];

/** Motion is relative: it begins with nothing at each grip, wherever the hand is by then. Sans-IO. */
export class Hand {
  private last: Reading | null = null;
  private at = 0;
  /** What the hand has done, at the scale, and the robot was not told yet. */
  private behind = nothing();
  private told = nothing();

  /** It is let go: the next reading is where motion begins. */
  letGo(): void {
    this.last = null;
  }

  /** It is held, and was there at that time, s: how fast the robot is to move from now on, at `scale` m of its hand for one of the person's. */
  follow(reading: Reading, at: number, scale: number): Rate {
    const { last } = this;
    if (last) {
      const seconds = at - this.at;
      const by = step(last, reading, scale);
      // What was told was done meanwhile, however late this is.
      this.behind = this.behind.map((left, place) => left - this.told[place]! * seconds + by[place]!) as Rate;
    } else this.behind = nothing();
    [this.last, this.at] = [reading, at];
    this.behind = within(this.behind, BEHIND);
    this.told = within(this.behind.map((left) => left / CATCH_UP) as Rate, FASTEST);
    return this.told;
  }
}

/** From one reading to the next: the way at the scale, the turn as it is, as a vector about the axes, and the gripper by the trigger. */
function step(from: Reading, to: Reading, scale: number): Rate {
  const way = to.position.map((place, axis) => (place - from.position[axis]!) * scale);
  // q = to · from⁻¹, the shorter way around; its vector is the axis times the sine of half the turn.
  const [ax, ay, az, aw] = to.turned;
  const [bx, by, bz, bw] = from.turned;
  const cosine = aw * bw + ax * bx + ay * by + az * bz;
  const vector = [bw * ax - aw * bx - ay * bz + az * by, bw * ay - aw * by - az * bx + ax * bz, bw * az - aw * bz - ax * by + ay * bx];
  const sine = Math.hypot(...vector);
  const times = sine < 1e-9 ? 2 : (2 * Math.atan2(sine, Math.abs(cosine))) / sine;
  const turn = vector.map((part) => part * times * (cosine < 0 ? -1 : 1));
  return [...way, ...turn, to.trigger - from.trigger] as Rate;
}

/** In its own direction no longer than that. */
function within(rate: Rate, limit: typeof FASTEST): Rate {
  const shorten = (parts: number[], most: number): number[] => {
    const share = Math.min(1, most / Math.hypot(...parts));
    return parts.map((part) => part * (Number.isFinite(share) ? share : 1));
  };
  return [...shorten(rate.slice(0, 3), limit.linear), ...shorten(rate.slice(3, 6), limit.angular), ...shorten(rate.slice(6), limit.gripper)] as Rate;
}
