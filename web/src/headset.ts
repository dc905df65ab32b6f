/** A headset, where there is one: the button that enters it, and what it is to the page. Nothing of it is loaded where there is none. */

import type { Immersive, Page } from "./immersive";
import { element } from "./page";
import type { Frame } from "./screen";

declare global {
  /** By `/immersive.js`. */
  var tautImmersive: typeof Immersive | undefined;
}

/** Kinds of session, the better one first. In the second the room stays in sight. */
const MODES = ["immersive-vr", "immersive-ar"] as const;

export class Headset {
  private session: Immersive | null = null;
  private mode: (typeof MODES)[number] | null = null;
  private isEntering = false;
  /** m of the robot's hand for one of the person's. */
  private scale = 0.5;
  private frameAt = -Infinity;
  private readonly button = element<HTMLButtonElement>("enter");

  constructor(
    private readonly page: Omit<Page, "ended">,
    /** Gives it pictures from now on, or no more. */
    private readonly lend: (to: ((frame: Frame) => void) | null) => void,
    private readonly say: (what: string) => void,
  ) {
    this.button.addEventListener("click", () => {
      // Else the next press of Space would press it, too.
      this.button.blur();
      if (this.session) this.session.end();
      else void this.enter();
    });
    for (const button of document.querySelectorAll<HTMLButtonElement>("[data-scale]"))
      button.addEventListener("click", () => {
        button.blur();
        // What leads now would lead otherwise.
        this.page.release();
        this.choose(Number(button.dataset.scale));
      });
    navigator.xr?.addEventListener("devicechange", () => void this.look());
    void this.look();
  }

  /** Does its person see what the robot does? Then the window beside it may be anywhere. */
  get isWatched(): boolean {
    return this.session?.isVisible ?? false;
  }

  /** Something was let go: a stick that is forth has to be back first. */
  interrupt(): void {
    this.session?.interrupt();
  }

  get pad(): Gamepad | null {
    return this.session?.pad ?? null;
  }

  /** Did it draw nothing for longer than that, ms? */
  isLate(now: number, limit: number): boolean {
    return now - this.frameAt > limit;
  }

  private async look(): Promise<void> {
    const supported = await Promise.all(MODES.map((mode) => navigator.xr?.isSessionSupported(mode).catch(() => false) ?? false));
    this.mode = MODES.find((_, place) => supported[place]) ?? null;
    if (this.mode && !document.querySelector("script[src='/immersive.js']")) this.load();
    element("headset").hidden = !this.mode || !globalThis.tautImmersive;
  }

  private load(): void {
    const script = document.createElement("script");
    script.src = "/immersive.js";
    script.onerror = () => this.say("what a headset needs cannot be loaded");
    script.onload = () => (element("headset").hidden = !this.mode || !globalThis.tautImmersive);
    document.head.append(script);
  }

  private async enter(): Promise<void> {
    const { tautImmersive } = globalThis;
    if (this.isEntering || !this.mode || !tautImmersive) return;
    this.isEntering = true;
    const { page } = this;
    const told: Page = {
      ...page,
      frame: () => {
        this.frameAt = performance.now();
        page.frame();
      },
      ended: () => this.ended(),
    };
    try {
      this.session = await tautImmersive.enter(this.mode, told, () => this.scale);
      const { session } = this;
      this.button.textContent = "Leave headset";
      this.lend((frame) => session.show(frame));
    } catch (error) {
      this.say(`no headset: ${error instanceof Error ? error.message : error}`);
    }
    this.isEntering = false;
  }

  private ended(): void {
    this.session = null;
    this.lend(null);
    this.button.textContent = "Enter headset";
  }

  private choose(scale: number): void {
    this.scale = scale;
    for (const button of document.querySelectorAll<HTMLElement>("[data-scale]")) button.setAttribute("aria-pressed", String(Number(button.dataset.scale) === scale));
  }
}
