/** What is shown beside the picture. */

import { element } from "./page";
import { Plot } from "./plot";
import { Pose } from "./pose";
import { Posture } from "./posture";
import type { Sample } from "./wire";
import { standing, words } from "./words";

const EVENTS = 12;
/** The gateway tells ten times a second how the robot stands: after so long, ms, that is not known any more. */
const UNTOLD = 1000;
const ms = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)} ms`;

/** What the robot's state asks of its person. */
const STANDS: Record<string, string> = {
  PAUSED: "PAUSED: let it move (R)",
  DISABLED: "DISABLED: let it move (R)",
  STOPPED: "STOPPED: reset (C), then let it move (R)",
};

export class Panels {
  private readonly force = new Plot(element("force-plot"), "#f0c257", 1, "N");
  private readonly trip = new Plot(element("trip-plot"), "#6cc5ff", 10, "ms");
  private readonly age = new Plot(element("age-plot"), "#c79bff", 50, "ms");
  private readonly pose = new Pose(element("pose"));
  private readonly posture = new Posture((what) => this.say(what));
  private newest: { sample: Sample; at: number } | null = null;
  private gatewayTrip = 0;
  private gatewayCounts = { pictures_dropped: 0, sound_dropped: 0, states_dropped: 0, lapses: 0 };
  private seat = "";
  /** Why nothing can be held, where the way to the gateway is too long. */
  private isFar = "";
  private said = new Map<string, string>();
  private stands = "NO LINK";
  /** Or when the gateway was there; `Infinity`: it is not. */
  private toldAt = Infinity;
  private standsSince = 0;

  /** Writes only what has changed: a screen reader hears nothing twice. */
  private write(id: string, text: string): void {
    if (this.said.get(id) === text) return;
    this.said.set(id, text);
    element(id).textContent = text;
  }

  sample(sample: Sample, now: number): void {
    this.newest = { sample, at: now };
    this.force.add(now, Math.hypot(...sample.force));
    this.pose.show(sample);
  }

  joints(places: Float32Array, at: number): void {
    this.posture.show(places, at);
  }

  pictureAge(age: number): void {
    element("age-figure").hidden = false;
    this.age.add(performance.now(), age);
  }

  gateway(trip: number): void {
    this.gatewayTrip = trip;
  }

  held(isHeld: boolean): void {
    document.body.dataset.holds = String(isHeld);
  }

  /** Does this page have the keyboard? */
  keys(isHere: boolean): void {
    this.write("keys", isHere ? "Space or Esc" : "by pointer; click the page for Space and Esc");
  }

  stale(isStale: boolean): void {
    element("stale").hidden = !isStale;
  }

  stopPressed(isConnected: boolean): void {
    this.write("acknowledged", isConnected ? "STOP pressed, not acknowledged yet" : "NOT SENT: the gateway is gone");
  }

  acknowledged(after: number): void {
    this.write("acknowledged", `robot acknowledged in ${after.toFixed(0)} ms`);
  }

  /** What stands here now, for whoever does not see this page. */
  words(): { standing: string; stop: string; seat: string; trip: string; force: string } {
    const said = (id: string): string => this.said.get(id) ?? "";
    return { standing: this.stands, stop: said("acknowledged"), seat: said("seat"), trip: said("trip"), force: said("force") };
  }

  /** Of these this one is in use. */
  chosen(of: string, name: string): void {
    for (const button of document.querySelectorAll<HTMLElement>(`[data-of="${CSS.escape(of)}"] button`))
      button.setAttribute("aria-pressed", String(button.dataset.name === name));
  }

  /** The way to the gateway takes so long, ms there and back, that what is held is over before it counts; `null`: it does not. */
  far(trip: number | null, lease: number): void {
    this.isFar = trip === null ? "" : `; the gateway is ${trip.toFixed(0)} ms away, there and back, and what is held counts for ${lease.toFixed(0)} ms: nothing moves`;
    this.write("seat", this.seat + this.isFar);
  }

  lost(why: string): void {
    this.standing("NO LINK");
    this.toldAt = Infinity;
    this.seat = why;
    this.far(null, 0);
    this.buttons(false);
  }

  private standing(standing: string): void {
    // From when on it may move.
    if (this.stands in STANDS && !(standing in STANDS)) this.standsSince = performance.now();
    this.stands = standing;
    element("standing").dataset.is = standing;
    this.write("standing", STANDS[standing] ?? standing);
  }

  private buttons(inControl: boolean): void {
    for (const button of document.querySelectorAll<HTMLButtonElement>("#reset, #resume, #pads button, #offers button"))
      button.disabled = !inControl;
  }

  /** Among the events, with the session's time of it, s, where it has one. */
  say(text: string, at?: number): void {
    const line = document.createElement("li");
    const time = document.createElement("time");
    time.textContent = at === undefined ? "" : `${at.toFixed(1)} s`;
    const what = document.createElement("span");
    what.textContent = text;
    line.append(time, what);
    const events = element("events");
    events.prepend(line);
    while (events.children.length > EVENTS) events.lastElementChild!.remove();
  }

  event(event: any, now: number): void {
    switch (event.event) {
      case "console":
        this.toldAt = now;
        this.posture.expect(event.model);
        return this.write("title", event.title);
      case "seat": {
        const others = event.pages - 1;
        const beside = others > 0 ? `, ${others} other page${others > 1 ? "s" : ""}` : "";
        const text = event.in_control ? "in control" : event.free ? "nobody is in control" : "looks on: another page is in control";
        this.seat = text + beside;
        this.write("seat", this.seat + this.isFar);
        element("control").hidden = event.in_control || !event.free;
        return this.buttons(event.in_control);
      }
      case "button_late":
        return this.say("what was pressed came to the gateway too late, or after a stop: press it again");
      case "chosen":
        this.chosen(event.of, event.name);
        break;
      case "gateway":
        this.gatewayCounts = event;
        return;
      case "status":
        return this.status(event, now);
      case "robot":
        // Sooner than the next report.
        this.toldAt = now;
        this.standing(standing(event.state));
    }
    const text = words(event);
    if (text !== null) this.say(text, event.t_s);
  }

  private status(event: any, now: number): void {
    const { status, recent } = event;
    this.toldAt = now;
    this.standing(event.standing);
    if (recent.round_trip_mean_ms !== null) {
      this.trip.add(now, recent.round_trip_mean_ms);
      this.trip.add(now, recent.round_trip_max_ms);
    }
    const trip = recent.round_trip_mean_ms === null ? "none" : ms(recent.round_trip_mean_ms);
    this.write("trip", status.rtt.count > 0 ? `${trip} now, p99 ${ms(status.rtt.p99_ms)}` : "–");
    this.write("rate", `${recent.rate_hz.toFixed(0)}/s of ${status.allowed_hz.toFixed(0)}, ${(recent.throughput_bps / 1e6).toFixed(2)} Mbit/s`);
    this.write("delivered", `${status.delivered} of ${status.messages}, ${status.lost} lost, ${status.late} late`);
    const { pictures_dropped: pictures, sound_dropped: sound, states_dropped: states, lapses } = this.gatewayCounts;
    const causes = Object.entries({ ...status.dropped, "picture at gateway": pictures, "sound at gateway": sound, "states at gateway": states, "lapsed lease": lapses });
    const dropped = causes.filter(([, count]) => Number(count) > 0).map(([cause, count]) => `${cause.replaceAll("_", " ")} ${count}`);
    this.write("dropped", dropped.join(", ") || "nothing");
    const paths = (event.choices?.paths ?? []).map((path: any) => `${path.path}: ${path.up ? "up" : "no answer"}`);
    this.write("paths", paths.join(", ") || "one");
  }

  /** Has the robot told nothing for longer than that, ms, while it may move? One that rests may tell nothing. */
  isStale(now: number, limit: number): boolean {
    return !(this.stands in STANDS) && now - Math.max(this.newest?.at ?? -Infinity, this.standsSince) > limit;
  }

  /** `isLent`: a headset shows the hand, too, which is drawn then whatever else may be asked for. `age`: of the picture that is shown, ms; `NaN`: none is. */
  draw(now: number, isLent: boolean, age: number): void {
    if (now - this.toldAt > UNTOLD) this.standing("NOT KNOWN");
    const fresh = this.newest && now - this.newest.at < 500 ? this.newest.sample : null;
    this.write("force", fresh ? `${Math.hypot(...fresh.force).toFixed(2)} N` : "–");
    this.write("position", fresh ? fresh.position.map((value) => (value * 1000).toFixed(1)).join(", ") + " mm" : "–");
    this.write("age", Number.isNaN(age) ? "–" : `${ms(age)}, gateway ${ms(this.gatewayTrip)}`);
    for (const plot of [this.force, this.trip]) plot.draw(now);
    if (!element("age-figure").hidden) this.age.draw(now);
    if (!this.posture.draw(now, !isLent)) this.pose.draw();
  }
}
