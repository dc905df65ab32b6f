/** How the robot's joints are, where it tells them, there is a model of it, and the browser draws in three dimensions. Else, and until somebody asks for it, the hand alone is shown. */

import type { Model } from "./model";
import { element } from "./page";

declare global {
  /** By `/model.js`. */
  var tautModel: (new (canvas: HTMLCanvasElement, urdf: string, joints: string[]) => Model) | undefined;
}

/** Joints of this age, ms, are not shown any more. */
const STALE = 1000;

export class Posture {
  private about: { urdf: string; joints: string[] } | null = null;
  private places: Float32Array | null = null;
  private at = -Infinity;
  private isAsked = false;
  private model: Model | null = null;

  constructor(private readonly say: (what: string) => void) {
    const button = element("in-depth");
    button.addEventListener("click", () => {
      // Else the next press of Space would press it, too.
      button.blur();
      this.isAsked = !this.isAsked;
      button.setAttribute("aria-pressed", String(this.isAsked));
      if (this.isAsked) this.load();
    });
    element("model").addEventListener("webglcontextlost", () => this.give("the browser draws no more in three dimensions"));
  }

  /** Is there a model in this session? */
  expect(model: { urdf: string; joints: string[] } | null): void {
    // A page whose gateway is another one's by now has the model of that when it is loaded anew.
    if (model && this.about === null && document.createElement("canvas").getContext("webgl2")) this.about = model;
  }

  /** Where joints were at that time, rad or m; `NaN`: nobody knows when, and they are not shown. */
  show(places: Float32Array, at: number): void {
    if (!this.about) return;
    if (places.length !== this.about.joints.length) return this.give(`the robot tells of ${places.length} joints, and its model has ${this.about.joints.length}`);
    element("in-depth").hidden = false;
    this.places = places;
    this.at = at;
  }

  /** Draws it, where it is asked for and known, and `hasRoom`; else nothing, and somebody else has the room. */
  draw(now: number, hasRoom: boolean): boolean {
    const isShown = hasRoom && this.isAsked && this.model !== null && this.places !== null && now - this.at < STALE;
    element("model").hidden = !isShown;
    element("pose").hidden = isShown;
    if (isShown) {
      this.model!.show(this.places!);
      this.model!.draw();
    }
    return isShown;
  }

  private load(): void {
    if (this.model || document.querySelector("script[src='/model.js']")) return;
    const script = document.createElement("script");
    script.src = "/model.js";
    script.onerror = () => this.give("the model cannot be loaded");
    script.onload = () => this.begin();
    document.head.append(script);
  }

  private begin(): void {
    const { about, places } = this;
    if (!about || !places || !tautModel) return;
    try {
      const model = new tautModel(element("model"), about.urdf, about.joints);
      model.show(places);
      model.look();
      this.model = model;
    } catch (error) {
      this.give(`the model cannot be drawn: ${error}`);
    }
  }

  /** The hand alone, from now on. */
  private give(why: string): void {
    this.about = this.model = null;
    this.isAsked = false;
    element("in-depth").hidden = true;
    this.say(why);
  }
}
