/**
 * What is held, of all sources. Whatever takes the page away from its person lets go of everything, and nothing that is still pressed counts
 * before it was let go.
 */

import type { Rate } from "./wire";

export const SPEED = 0.05;
const TURN = 0.5;
const GRIPPER = 0.5;

/** By `KeyboardEvent.code`: places on the keyboard, whatever is printed there. */
export const KEYS: Record<string, { place: number; sign: number }> = {
  KeyW: { place: 0, sign: 1 },
  KeyS: { place: 0, sign: -1 },
  KeyA: { place: 1, sign: 1 },
  KeyD: { place: 1, sign: -1 },
  KeyI: { place: 2, sign: 1 },
  KeyK: { place: 2, sign: -1 },
  KeyJ: { place: 5, sign: 1 },
  KeyL: { place: 5, sign: -1 },
  KeyO: { place: 6, sign: -1 },
  KeyP: { place: 6, sign: 1 },
};

const SCALE: Rate = [SPEED, SPEED, SPEED, TURN, TURN, TURN, GRIPPER];
/** A stick that is let go does not rest quite in its middle. */
const DEAD_ZONE = 0.15;

/** What moves the robot while its enabling button is held. */
class Enabled {
  /** Null while it is not held. */
  rate: Rate | null = null;
  /** It has to be let go before it counts again, and so does one that comes pressed. */
  private isLocked = true;

  release(): void {
    this.rate = null;
    this.isLocked = true;
  }

  read(isHeld: boolean, rate: () => Rate): void {
    this.isLocked &&= isHeld;
    this.rate = isHeld && !this.isLocked ? rate() : null;
  }
}

export class Hold {
  /** Keys and pads on the screen that are pressed, by their name. */
  private pressed = new Map<string, { place: number; sign: number }>();
  private readonly stick = new Enabled();
  /** Of two of one model their places tell which one it is. */
  private gamepad: string | null = null;
  /** Of a headset. */
  private readonly hand = new Enabled();

  press(name: string, does: { place: number; sign: number }): void {
    this.pressed.set(name, does);
  }

  letGo(name: string): void {
    this.pressed.delete(name);
  }

  /** Nothing is held. What is still pressed says so no more: keys repeat, and repeats are not presses. */
  release(): void {
    this.releaseHere();
    this.hand.release();
  }

  /** The same of what belongs to the page itself. */
  releaseHere(): void {
    this.pressed.clear();
    this.stick.release();
  }

  /** Reads the gamepad that there is. Gives what has happened to it. */
  readGamepad(pad: Gamepad | null): "lost" | "found" | null {
    const was = this.gamepad;
    this.gamepad = pad && `${pad.index} ${pad.id}`;
    if (was !== this.gamepad) this.release();
    if (pad) {
      const isHeld = (pad.buttons[5]?.pressed ?? false) || (pad.buttons[4]?.pressed ?? false);
      this.stick.read(isHeld, () => ofPad(pad));
    }
    if (was !== null && this.gamepad === null) return "lost";
    return was === null && this.gamepad !== null ? "found" : null;
  }

  /** Reads a headset's hand: does it hold, and how fast does it lead? */
  readHand(isHeld: boolean, rate: () => Rate): void {
    this.hand.read(isHeld, rate);
  }

  /** Does a headset's hand lead the robot? */
  get isLed(): boolean {
    return this.hand.rate !== null;
  }

  rate(): Rate | null {
    if (this.pressed.size === 0) return this.stick.rate ?? this.hand.rate;
    const rate: Rate = [0, 0, 0, 0, 0, 0, 0];
    for (const { place, sign } of this.pressed.values()) rate[place]! += sign * SCALE[place]!;
    return rate;
  }
}

/** The one that counts. */
export function gamepad(pads: readonly (Gamepad | null)[]): Gamepad | null {
  return pads.find((pad) => pad?.connected && pad.mapping === "standard") ?? null;
}

function ofPad(pad: Gamepad): Rate {
  const axis = (place: number): number => {
    const value = pad.axes[place] ?? 0;
    return Math.abs(value) < DEAD_ZONE ? 0 : value;
  };
  const closing = (pad.buttons[7]?.value ?? 0) - (pad.buttons[6]?.value ?? 0);
  const raw: Rate = [-axis(1), -axis(0), -axis(3), 0, 0, -axis(2), closing];
  return raw.map((value, place) => value * SCALE[place]!) as Rate;
}
