/** The operator's console: keys, gamepad and touch to the gateway, what the session tells to the eye. */

import { Hold, KEYS } from "./hold";
import { Panels } from "./panels";
import { Screen } from "./screen";
import * as wire from "./wire";

/** How often what is held is said, ms: several times within the shortest input lease. */
const HEARTBEAT = 20;
/** A picture of this age, ms, is no eye on the robot any more: what is held is let go. */
const STALE = 300;
const RECONNECT = 1000;
/** How often figures and plots are drawn, ms: the picture has its own worker. */
const PANELS = 60;

const element = <T extends HTMLElement>(id: string): T => document.getElementById(id) as T;

class Console {
  private socket: WebSocket | null = null;
  private inControl = false;
  /** Its person looks at another window, or nowhere. */
  private away = false;
  private stopPressedAt: number | null = null;
  private readonly hold = new Hold();
  private readonly panels = new Panels();
  private readonly screen = new Screen(
    (message) => this.send(message),
    (age) => this.panels.pictureAge(age),
  );

  start(): void {
    this.connect();
    this.listen();
    setInterval(() => this.beat(), HEARTBEAT);
    setInterval(() => this.send(wire.ping(performance.now())), 500);
    let drawn = 0;
    const draw = (now: number): void => {
      requestAnimationFrame(draw);
      if (now - drawn < PANELS) return;
      drawn = now;
      this.panels.draw(now);
    };
    requestAnimationFrame(draw);
  }

  private connect(): void {
    const token = location.hash.slice(1);
    const socket = new WebSocket(`ws://${location.host}/session`, ["taut.console.1", token || "none"]);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => (this.socket = socket);
    socket.onmessage = ({ data }) => this.receive(new Uint8Array(data as ArrayBuffer));
    socket.onclose = () => {
      const was = this.socket !== null;
      this.socket = null;
      this.inControl = false;
      this.release();
      this.panels.lost(was ? "the gateway is gone" : "the gateway does not answer, or this page's address is another start's");
      setTimeout(() => this.connect(), RECONNECT);
    };
  }

  private send(message: Uint8Array): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(message as Uint8Array<ArrayBuffer>);
  }

  private receive(bytes: Uint8Array): void {
    const now = performance.now();
    switch (bytes[0]) {
      case wire.FromGateway.event:
        return this.event(JSON.parse(new TextDecoder().decode(bytes.subarray(1))), now);
      case wire.FromGateway.states:
        return wire.samples(bytes, (sample) => this.panels.sample(sample, now));
      case wire.FromGateway.picture:
        return this.screen.receive(bytes, now);
      case wire.FromGateway.pong:
        return this.panels.gateway(now - new DataView(bytes.buffer).getFloat64(1));
    }
  }

  private event(event: any, now: number): void {
    switch (event.event) {
      case "console":
        this.screen.expect(event.pictures.length > 0);
        break;
      case "seat":
        if (this.inControl !== event.in_control) this.release();
        this.inControl = event.in_control;
        break;
      case "robot":
        if (event.state !== "ENABLED") this.release();
        break;
      case "emergency_stopped":
        this.panels.acknowledged(this.stopPressedAt === null ? event.after_ms : now - this.stopPressedAt);
        this.stopPressedAt = null;
        break;
    }
    this.panels.event(event, now);
  }

  /** Says what is held. A page that nobody sees says nothing: for the gateway it is gone. */
  private beat(): void {
    if (document.visibilityState !== "visible" || !this.inControl) return;
    if (this.hold.readGamepad(navigator.getGamepads?.() ?? []) === "lost") {
      this.panels.say("the gamepad is gone: let go");
      this.release();
    }
    const isStale = this.screen.isStale(STALE);
    if (isStale || this.away) this.hold.release();
    this.panels.stale(isStale);
    this.say();
  }

  private say(): void {
    if (!this.inControl) return;
    const rate = this.hold.rate();
    this.panels.held(rate !== null);
    this.send(wire.input(rate));
  }

  private release(): void {
    this.hold.release();
    for (const pad of document.querySelectorAll<HTMLElement>("[data-held]")) delete pad.dataset.held;
    this.say();
  }

  private stop(): void {
    this.send(wire.button(wire.Button.stop));
    this.stopPressedAt ??= performance.now();
    this.panels.stopPressed(this.socket !== null);
    this.release();
  }

  private listen(): void {
    const goAway = (): void => {
      this.away = true;
      this.release();
    };
    const comeBack = (): void => void (this.away = false);
    addEventListener("blur", goAway);
    addEventListener("pagehide", goAway);
    document.addEventListener("visibilitychange", () => document.visibilityState !== "visible" && goAway());
    addEventListener("focus", comeBack);
    addEventListener("pointerdown", comeBack, true);
    addEventListener("contextmenu", (event) => event.preventDefault());

    const stop = element("stop");
    stop.addEventListener("pointerdown", () => this.stop());
    // Of the keyboard or a screen reader; a pointer has pressed it before.
    stop.addEventListener("click", (event) => event.detail === 0 && this.stop());
    const ask = (id: string, code: number): void =>
      element(id).addEventListener("click", () => this.send(wire.button(code)));
    ask("reset", wire.Button.reset);
    ask("resume", wire.Button.resume);
    ask("control", wire.Button.takeControl);

    addEventListener("keydown", (event) => this.keyDown(event), true);
    addEventListener("keyup", (event) => this.letGo(event.code), true);
    for (const pad of document.querySelectorAll<HTMLElement>("[data-key]")) {
      const key = pad.dataset.key!;
      pad.addEventListener("pointerdown", (event) => {
        pad.setPointerCapture(event.pointerId);
        this.press(key, pad);
      });
      for (const end of ["pointerup", "pointercancel", "lostpointercapture"])
        pad.addEventListener(end, () => this.letGo(key));
    }
  }

  private keyDown(event: KeyboardEvent): void {
    if (event.code === "Space" || event.code === "Escape") {
      event.preventDefault();
      if (!event.repeat) this.stop();
      return;
    }
    // A repeat is no press: what was let go for its person stays so.
    if (event.repeat || event.ctrlKey || event.altKey || event.metaKey) return;
    this.away = false;
    if (event.code === "KeyC") this.send(wire.button(wire.Button.reset));
    else if (event.code === "KeyR") this.send(wire.button(wire.Button.resume));
    else if (event.code in KEYS) this.press(event.code, document.querySelector(`[data-key="${event.code}"]`));
  }

  private press(key: string, pad: HTMLElement | null): void {
    if (!this.inControl) return;
    this.hold.press(key, KEYS[key]!);
    if (pad) pad.dataset.held = "";
    this.say();
  }

  private letGo(key: string): void {
    if (!(key in KEYS)) return;
    this.hold.letGo(key);
    const pad = document.querySelector<HTMLElement>(`[data-key="${key}"]`);
    if (pad) delete pad.dataset.held;
    this.say();
  }
}

new Console().start();
