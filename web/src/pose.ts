/** Where the robot's hand is, from above and from the side, with the force on it. */

import { fit } from "./plot";
import type { Sample } from "./wire";

/** m, each way from the middle. */
const REACH = 0.2;
/** N, as long as half a view. */
const FORCE = 10;
const TRAIL = 400;
/** From above forth is up and left is left, as the keys have it. */
const VIEWS = [
  { name: "from above", across: 1, way: -1, up: 0, labels: ["← y", "x ↑"] },
  { name: "from the side", across: 0, way: 1, up: 2, labels: ["x →", "z ↑"] },
] as const;

export class Pose {
  private readonly context: CanvasRenderingContext2D;
  private trail: Sample["position"][] = [];
  private newest: Sample | null = null;

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.context = canvas.getContext("2d")!;
  }

  show(sample: Sample): void {
    this.newest = sample;
  }

  draw(): void {
    const { width, height } = fit(this.canvas);
    const { context, newest } = this;
    context.clearRect(0, 0, width, height);
    if (newest) {
      this.trail.push(newest.position);
      if (this.trail.length > TRAIL) this.trail.shift();
    }
    const half = width / 2;
    VIEWS.forEach((view, place) => this.drawView(view, half * place, half, height));
  }

  private drawView(view: (typeof VIEWS)[number], left: number, width: number, height: number): void {
    const { context } = this;
    const scale = devicePixelRatio;
    const margin = 26 * scale;
    const unit = Math.min(width, height) / 2 - margin;
    const [middleX, middleY] = [left + width / 2, height / 2];
    const at = (position: Sample["position"]): [number, number] => [
      middleX + view.way * (position[view.across] / REACH) * unit,
      middleY - (position[view.up] / REACH) * unit,
    ];
    context.strokeStyle = "#2a3542";
    context.lineWidth = scale;
    for (let step = -4; step <= 4; step++) {
      const by = (step / 4) * unit;
      context.beginPath();
      context.moveTo(middleX - unit, middleY + by);
      context.lineTo(middleX + unit, middleY + by);
      context.moveTo(middleX + by, middleY - unit);
      context.lineTo(middleX + by, middleY + unit);
      context.stroke();
    }
    context.fillStyle = "#aab8c7";
    context.font = `${13 * scale}px system-ui, sans-serif`;
    context.textBaseline = "alphabetic";
    context.textAlign = "center";
    context.fillText(`${view.name}, ${(REACH * 200).toFixed(0)} cm`, middleX, middleY - unit - 8 * scale);
    context.fillText(view.labels[0], middleX, middleY + unit + 18 * scale);
    context.textAlign = "right";
    context.fillText(view.labels[1], middleX - unit - 6 * scale, middleY);
    if (!this.newest) return;
    // What is drawn of the hand stays within the grid, and off the labels around it.
    context.save();
    context.beginPath();
    context.rect(middleX - unit, middleY - unit, 2 * unit, 2 * unit);
    context.clip();
    context.strokeStyle = "#3d6f93";
    context.lineWidth = 2 * scale;
    context.beginPath();
    this.trail.forEach((position) => context.lineTo(...at(position)));
    context.stroke();
    const [x, y] = at(this.newest.position);
    const { force } = this.newest;
    this.drawForce(x, y, view.way * (force[view.across] / FORCE) * unit, -(force[view.up] / FORCE) * unit);
    context.restore();
    // A hand beyond it is shown at its edge.
    const within = (value: number, middle: number): number => Math.min(Math.max(value, middle - unit), middle + unit);
    context.fillStyle = "#6cc5ff";
    context.beginPath();
    context.arc(within(x, middleX), within(y, middleY), 7 * scale, 0, 2 * Math.PI);
    context.fill();
  }

  /** An arrow from there on. */
  private drawForce(x: number, y: number, right: number, down: number): void {
    const { context } = this;
    const scale = devicePixelRatio;
    const length = Math.hypot(right, down);
    if (length < 2 * scale) return;
    const [alongX, alongY] = [right / length, down / length];
    const [tipX, tipY, head] = [x + right, y + down, Math.min(8 * scale, length)];
    context.strokeStyle = "#f0c257";
    context.lineWidth = 3 * scale;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(tipX, tipY);
    for (const side of [1, -1]) {
      context.moveTo(tipX, tipY);
      context.lineTo(tipX - head * (alongX + side * 0.6 * alongY), tipY - head * (alongY - side * 0.6 * alongX));
    }
    context.stroke();
  }
}
