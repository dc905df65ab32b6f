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
/** So long, ms, a gamepad may say nothing while it moves the robot. No hand is still for long. */
const SILENCE = 5000;

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

/** A gamepad. One whose radio or battery is gone stays as it was, until the operating system misses it. */
class Stick extends Enabled {
  /** When it said something last, as the browser says and by this page's clock, ms. */
  private told: number | undefined;
  private toldAt = 0;

  constructor(public pad: Gamepad) {
    super();
  }

  /** False: it moved the robot and has said nothing for too long, and is let go. */
  readPad(pad: Gamepad, now: number): boolean {
    this.pad = pad;
    if (this.rate === null || pad.timestamp !== this.told) [this.told, this.toldAt] = [pad.timestamp, now];
    const isSilent = this.told !== undefined && now - this.toldAt > SILENCE;
    if (isSilent) this.release();
    const isHeld = (pad.buttons[5]?.pressed ?? false) || (pad.buttons[4]?.pressed ?? false);
    this.read(isHeld, () => ofPad(pad));
    return !isSilent;
  }
}

export class Hold {
  /** Keys and pads on the screen that are pressed, by their name. */
  private pressed = new Map<string, { place: number; sign: number }>();
  private sticks: Stick[] = [];
  /** Of these the one that moved the robot last, or else the first. */
  private stick: Stick | null = null;
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
    for (const stick of this.sticks) stick.release();
  }

  /** Reads the gamepads that there are. Of several that are held the first counts until it is let go. Gives what has happened to them. */
  readGamepads(all: readonly (Gamepad | null)[], now: number): "lost" | "silent" | null {
    const pads = all.filter((pad) => pad?.connected && pad.mapping === "standard") as Gamepad[];
    const isLost = this.sticks.some(({ pad }) => !pads.some((other) => isSame(pad, other)));
    if (isLost || pads.length !== this.sticks.length) {
      this.release();
      this.sticks = pads.map((pad) => new Stick(pad));
      this.stick = this.sticks[0] ?? null;
    }
    const isSilent = this.sticks.map((stick, place) => stick.readPad(pads[place]!, now)).includes(false);
    if (!this.stick?.rate) this.stick = this.sticks.find(({ rate }) => rate) ?? this.stick;
    if (this.stick?.rate) for (const other of this.sticks) if (other !== this.stick) other.release();
    return isLost ? "lost" : isSilent ? "silent" : null;
  }

  /** The one that counts. */
  get gamepad(): Gamepad | null {
    return this.stick?.pad ?? null;
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
    if (this.pressed.size === 0) return this.stick?.rate ?? this.hand.rate;
    const rate: Rate = [0, 0, 0, 0, 0, 0, 0];
    for (const { place, sign } of this.pressed.values()) rate[place]! += sign * SCALE[place]!;
    return rate;
  }
}

/** Of two of one model their places tell which one it is. */
function isSame(one: Gamepad, other: Gamepad): boolean {
  return one.index === other.index && one.id === other.id;
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
