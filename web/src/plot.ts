/** Plots of the last seconds. What falls on one column is drawn from its least to its largest, so that no peak is lost. */

const SECONDS = 10;
/** Height of the labels, CSS pixels. */
const LABELS = 14;

export class Plot {
  private readonly context: CanvasRenderingContext2D;
  /** Least and largest of each column, a ring. */
  private least = new Float32Array(1).fill(NaN);
  private largest = new Float32Array(1).fill(NaN);
  /** Of the newest column, counted from the page's start. */
  private column = 0;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly colour: string,
    /** The least top of the axis. */
    private readonly top: number,
    private readonly unit: string,
  ) {
    this.context = canvas.getContext("2d")!;
  }

  /** At `now`, ms. */
  add(now: number, value: number): void {
    const place = this.advance(now);
    const is = this.least[place]!;
    this.least[place] = Number.isNaN(is) ? value : Math.min(is, value);
    this.largest[place] = Number.isNaN(is) ? value : Math.max(this.largest[place]!, value);
  }

  private advance(now: number): number {
    const count = this.least.length;
    const column = Math.floor((now / 1000 / SECONDS) * count);
    for (let next = Math.max(this.column + 1, column - count + 1); next <= column; next++) {
      this.least[next % count] = NaN;
      this.largest[next % count] = NaN;
    }
    this.column = Math.max(this.column, column);
    return column % count;
  }

  draw(now: number): void {
    const { width, height } = fit(this.canvas);
    if (width !== this.least.length && width > 0) {
      this.least = new Float32Array(width).fill(NaN);
      this.largest = new Float32Array(width).fill(NaN);
      this.column = Math.floor((now / 1000 / SECONDS) * width);
    }
    this.advance(now);
    const largest = this.largest.reduce((a, b) => (b > a ? b : a), this.top);
    const top = ceiling(largest);
    // The labels have a strip of their own above the top of the axis: nothing is drawn over them.
    const strip = LABELS * devicePixelRatio;
    const y = (value: number): number => height - 1 - (value / top) * (height - 3 - strip);
    const { context } = this;
    context.clearRect(0, 0, width, height);
    context.strokeStyle = "#33404f";
    context.strokeRect(0.5, strip + 0.5, width - 1, height - 1 - strip);
    context.fillStyle = this.colour;
    for (let x = 0; x < width; x++) {
      const place = (this.column + 1 + x) % width;
      const low = this.least[place]!;
      if (Number.isNaN(low)) continue;
      const upper = y(this.largest[place]!);
      context.fillRect(x, upper - 1, 1, Math.max(2, y(low) - upper + 1));
    }
    const scale = devicePixelRatio;
    context.fillStyle = "#aab8c7";
    context.font = `${11 * scale}px system-ui, sans-serif`;
    context.textBaseline = "top";
    context.fillText(`${top} ${this.unit}`, 0, 0);
    context.textAlign = "right";
    context.fillText(`${SECONDS} s`, width, 0);
    context.textAlign = "left";
  }
}

/** The canvas has as many pixels as are shown. */
export function fit(canvas: HTMLCanvasElement): { width: number; height: number } {
  const width = Math.round(canvas.clientWidth * devicePixelRatio);
  const height = Math.round(canvas.clientHeight * devicePixelRatio);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  return { width, height };
}

/** The next of 1, 2, 5, 10, 20 … that is not less. */
function ceiling(value: number): number {
  const scale = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find((step) => value <= step * scale * 1.0001) ?? 10;
  return Number((step * scale).toPrecision(1));
}
