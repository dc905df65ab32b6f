// The framebuffer of an X server, and what is shown in it.
import { spawn } from "node:child_process";
import { mkdtempSync, openSync, readSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { chromium } from "playwright-core";

const [WIDTH, HEIGHT, BLOCK, MARKS, BITS] = [1280, 800, 16, 4, 32];

export const now = () => performance.timeOrigin + performance.now();

/** A file in the format of xwd. */
export class Glass {
  static async start() {
    const glass = new Glass();
    glass.folder = mkdtempSync(join(tmpdir(), "taut-glass-"));
    const screen = ["-screen", "0", `${WIDTH}x${HEIGHT}x24`, "-fbdir", glass.folder, "-nolisten", "tcp", "-displayfd", "3"];
    glass.server = spawn("Xvfb", screen, { stdio: ["ignore", "ignore", "ignore", "pipe"] });
    glass.display = `:${await new Promise((resolve) => glass.server.stdio[3].once("data", (text) => resolve(String(text).trim())))}`;
    glass.file = openSync(join(glass.folder, "Xvfb_screen0"), "r");
    const head = Buffer.alloc(100);
    readSync(glass.file, head, 0, 100, 0);
    glass.line = head.readUInt32BE(48);
    glass.base = head.readUInt32BE(0) + 12 * head.readUInt32BE(76);
    glass.rows = [Buffer.alloc(glass.line), Buffer.alloc(glass.line)];
    return glass;
  }

  /** A window of a page alone: nothing of the browser above it. */
  browser(more = [], executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium") {
    return chromium.launchPersistentContext(join(this.folder, "profile"), {
      executablePath,
      headless: false,
      viewport: null,
      args: ["--no-sandbox", "--app=about:blank", "--disable-gpu", `--window-size=${WIDTH},${HEIGHT}`, "--window-position=0,0", ...more],
      env: { ...process.env, DISPLAY: this.display },
    });
  }

  /** Where an element has the picture, and how large its pixels are. */
  async look(page, selector, picture) {
    const above = HEIGHT - (await page.evaluate(() => innerHeight));
    const box = await page.locator(selector).boundingBox();
    this.scale = Math.min(box.width / picture.width, box.height / picture.height);
    this.left = box.x + (box.width - picture.width * this.scale) / 2;
    this.top = above + box.y + (box.height - picture.height * this.scale) / 2;
  }

  /** The number that is shown; null: none, or one that is being drawn. */
  read() {
    this.rows.forEach((row, place) => {
      const y = Math.round(this.top + (place + 0.5) * BLOCK * this.scale);
      readSync(this.file, row, 0, this.line, this.base + y * this.line);
    });
    const bit = (row, block) => row[4 * Math.round(this.left + (block + 0.5) * BLOCK * this.scale) + 1] > 128;
    let [number, complement] = [0, 0];
    for (let place = MARKS; place < MARKS + BITS; place++) {
      number = number * 2 + Number(bit(this.rows[0], place));
      complement = complement * 2 + Number(bit(this.rows[1], place));
    }
    return number + complement === 2 ** BITS - 1 ? number : null;
  }

  /** What is shown, once a millisecond for so long: pairs of a number, the last that could be read, and when. */
  async watch(seconds) {
    const shown = [];
    let last = null;
    const end = now() + 1000 * seconds;
    // It sleeps: who waits by turning round takes a core from what is measured.
    const sleep = new Int32Array(new SharedArrayBuffer(4));
    for (let next = now(); next < end; ) {
      Atomics.wait(sleep, 0, 0, Math.max(0, next - now()));
      const at = now();
      // Where it was woken late what was there before is taken to have stayed.
      for (next += 1; next <= at; next += 1) shown.push([last, next - 1]);
      last = this.read() ?? last;
      shown.push([last, at]);
      await turn();
    }
    return shown;
  }

  end() {
    this.server.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
