/** What a headset shows in words, below the picture. */

/** What the page says; the text is that of the page. */
export interface Words {
  standing: string;
  stop: string;
  seat: string;
  trip: string;
  /** Of the picture, ms; no number: there is none. */
  age: number;
  force: string;
  isStale: boolean;
  inControl: boolean;
  /** Instead of a picture, where there is no camera. */
  drawing: HTMLCanvasElement | null;
}

export interface Says extends Words {
  /** There is a controller that can lead, and stop. */
  canLead: boolean;
  isHeld: boolean;
  /** How much of the time is over that something is held for the robot to go on, 0 to 1. */
  goesOn: number;
}

export const WIDTH = 1280;
export const HEIGHT = 400;
const [GROUND, TEXT, DIM, GO, WAIT, BAD] = ["#10151b", "#eef3f8", "#aab8c7", "#4fd08a", "#f0c257", "#ff8f8a"];
const COLOURS: Record<string, string> = { MOVING: GO, PAUSED: WAIT, DISABLED: WAIT };
/** What a stick that is held forth does next. */
const NEXT: Record<string, string> = { PAUSED: "Stick forth for a second: let it move", DISABLED: "Stick forth for a second: let it move", STOPPED: "Stick forth for a second: reset the stop" };

export class Board {
  private readonly canvas = Object.assign(document.createElement("canvas"), { width: WIDTH, height: HEIGHT });
  private readonly context = this.canvas.getContext("2d", { alpha: false })!;
  private drawn = "";

  /** `null`: it is as it was. */
  draw(says: Says): HTMLCanvasElement | null {
    const { standing, stop, seat, inControl, isStale, canLead, isHeld, goesOn } = says;
    const age = Number.isNaN(says.age) ? "" : `picture ${says.age.toFixed(0)} ms old`;
    const figures = [`round trip ${says.trip.replace(/ now.*/, "")}`, age, `force ${says.force}`].filter((figure) => figure).join("   ·   ");
    const next = !inControl ? seat : !canLead ? "Take a controller that has a button to stop" : isStale ? "No fresh picture: nothing moves" : (NEXT[standing] ?? (isHeld ? "Your hand leads" : "Grip: the robot's hand follows yours"));
    const buttons = canLead ? "Trigger: gripper   ·   any other button: STOP" : "No controller here can stop the robot";
    const lines = JSON.stringify([buttons, standing, stop, figures, next, goesOn.toFixed(2), isStale]);
    if (lines === this.drawn) return null;
    this.drawn = lines;
    const { context } = this;
    context.fillStyle = GROUND;
    context.fillRect(0, 0, WIDTH, HEIGHT);
    context.textBaseline = "middle";
    context.font = "700 60px system-ui, sans-serif";
    const wide = context.measureText(standing).width + 64;
    context.fillStyle = COLOURS[standing] ?? BAD;
    context.beginPath();
    context.roundRect(32, 28, wide, 92, 16);
    context.fill();
    context.fillStyle = "#0b1016";
    context.fillText(standing, 64, 76);
    this.write(stop, 32 + wide + 32, 76, 44, /^(STOP|NOT)/.test(stop) ? BAD : TEXT);
    if (isStale) {
      context.fillStyle = BAD;
      context.fillRect(0, 146, WIDTH, 76);
    }
    this.write(next, 32, 184, 48, isStale ? "#14080a" : isHeld ? GO : TEXT);
    context.fillStyle = WAIT;
    context.fillRect(32, 220, (WIDTH - 64) * goesOn, 8);
    this.write(figures, 32, 270, 40, TEXT);
    this.write(buttons, 32, 344, 40, DIM);
    return this.canvas;
  }

  /** No wider than there is room. */
  private write(text: string, left: number, middle: number, size: number, colour: string): void {
    this.context.fillStyle = colour;
    this.context.font = `600 ${size}px system-ui, sans-serif`;
    this.context.fillText(text, left, middle, WIDTH - left - 32);
  }
}
