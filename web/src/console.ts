/** The operator's console: keys, gamepad and touch to the gateway, what the session tells to the eye. */

import { aside, connect, type Carrier } from "./carrier";
import { GatewayClock } from "./clock";
import { Headset } from "./headset";
import { Hold, KEYS } from "./hold";
import { element } from "./page";
import { Panels } from "./panels";
import { Rumble, rumble } from "./rumble";
import { Screen } from "./screen";
import { Sound } from "./sound";
import * as wire from "./wire";
import type { Rate } from "./wire";

/** How often what is held is said, ms: several times within the shortest input lease. */
const HEARTBEAT = 20;
/** A picture of this age, ms, is no eye on the robot any more: what is held is let go. */
const STALE = 300;
const RECONNECT = 1000;
/** The time between pictures that have room while they are under way, ms: sixty a second. */
const PICTURE = 16;
/** How often figures and plots are drawn, ms: the picture has its own worker. */
const PANELS = 60;
/** So often a stop that is not acknowledged is said again, ms. */
const STOP_AGAIN = 100;
/** And by another way, ms; at once where there is no way. */
const STOP_ASIDE = 300;
/** So often more a page that is left says that nothing is held. */
const GONE_AGAIN = 3;
/** A headset that has drawn nothing for so long, ms, says no more what its hands do. */
const UNSEEN = 100;
/** So long after a stop a click is no reset and no resume, ms: it may be the key that pressed the stop. */
const AFTER_STOP = 500;


/** Of the gateway's start. */
const token = (): string => location.hash.slice(1) || "none";

class Console {
  private carrier: Carrier | null = null;
  private inControl = false;
  /** Its person looks at another window, or nowhere. */
  private away = !document.hasFocus();
  private stopPressedAt: number | null = null;
  private stopSaidAt = -Infinity;
  /** The gateway has this page's stop: what the robot acknowledges from now on is no other one. */
  private isStopTaken = false;
  private beatAt = -Infinity;
  private drawnAt = 0;
  /** What is held counts for so long, ms: of the gateway, and what the robot takes. */
  private readonly leases = { input: Infinity, robot: Infinity };
  private readonly clock = new GatewayClock();
  private readonly hold = new Hold();
  private readonly rumble = new Rumble();
  private readonly panels = new Panels();
  private readonly screen = new Screen(
    (message) => this.send(message),
    (age) => this.panels.pictureAge(age),
    (what) => this.panels.say(what),
  );

  private readonly sound = new Sound(
    (what) => this.panels.say(what),
    (plays) => this.send(wire.play(plays)),
  );
  private readonly headset = new Headset(
    {
      lead: (isHeld, rate) => this.lead(isHeld, rate),
      release: () => this.release(),
      stop: () => this.stop(),
      goOn: () => this.goOn(),
      words: () => ({
        ...this.panels.words(),
        age: this.screen.age(performance.now()),
        isStale: this.isStale,
        inControl: this.inControl,
        drawing: this.screen.isExpected ? null : element<HTMLCanvasElement>("pose"),
      }),
      // A browser may draw no page beside a headset, and call its timers once in a second.
      frame: () => {
        const now = performance.now();
        if (now - this.beatAt >= HEARTBEAT) this.beat();
        this.draw(now);
      },
    },
    (to) => this.screen.lend(to),
    (what) => this.panels.say(what),
  );

  private readonly stopAside = aside(token, (message) => this.receive(message));

  start(): void {
    this.connect();
    this.listen();
    setInterval(() => this.beat(), HEARTBEAT);
    setInterval(() => this.send(wire.ping(performance.now())), 500);
    const each = (now: number): void => {
      requestAnimationFrame(each);
      this.draw(now);
    };
    requestAnimationFrame(each);
  }

  private draw(now: number): void {
    if (now - this.drawnAt < PANELS) return;
    this.drawnAt = now;
    // Also of a page that looks on, or whose gateway is gone.
    this.panels.stale(this.screen.isStale(STALE));
    this.panels.draw(now, this.headset.isWatched, this.screen.age(now));
  }

  private connect(): void {
    void connect(token(), {
      open: (carrier, what) => {
        this.carrier = carrier;
        if (what) this.panels.say(what);
        this.send(wire.ping(performance.now()));
        if (this.sound.isOn) this.send(wire.play(true));
        if (this.stopPressedAt !== null) this.sayStop();
      },
      message: (bytes) => this.receive(bytes),
      close: () => {
        const was = this.carrier !== null;
        this.carrier = null;
        this.inControl = false;
        // Whether it passed that on nobody knows.
        this.isStopTaken = false;
        this.clock.forget();
        this.release();
        this.panels.lost(was ? "the gateway is gone" : "the gateway does not answer, or this page's address is another start's");
        setTimeout(() => this.connect(), RECONNECT);
      },
    });
  }

  /** False: nothing goes to the gateway now. */
  private send(message: Uint8Array): boolean {
    return this.carrier?.send(message) ?? false;
  }

  private receive(bytes: Uint8Array): void {
    const now = performance.now();
    switch (bytes[0]) {
      case wire.FromGateway.event:
        return this.event(JSON.parse(new TextDecoder().decode(bytes.subarray(1))), now);
      case wire.FromGateway.states:
        return wire.samples(bytes, (sample) => {
          this.panels.sample(sample, now);
          this.rumble.feel(sample.at, Math.hypot(...sample.force));
        });
      case wire.FromGateway.joints:
        return this.panels.joints(wire.joints(bytes), this.clock.here(wire.madeAt(bytes), now));
      case wire.FromGateway.picture:
        return this.screen.receive(bytes, this.clock.here(wire.madeAt(bytes), now));
      case wire.FromGateway.sound:
        return this.sound.receive(bytes, this.clock.here(wire.madeAt(bytes), now));
      case wire.FromGateway.stopTaken:
        // Not of a press before.
        this.isStopTaken ||= this.stopPressedAt !== null && new DataView(bytes.buffer).getFloat64(1) >= this.stopPressedAt;
        return;
      case wire.FromGateway.pong: {
        const view = new DataView(bytes.buffer);
        const pinged = view.getFloat64(1);
        this.clock.heard(pinged, view.getFloat64(9), now);
        // What is acknowledged is older by a round trip.
        this.send(wire.way(Math.min(255, Math.floor(this.clock.trip() / PICTURE))));
        this.panels.far(this.isFar ? this.clock.trip() : null, this.lease);
        return this.panels.gateway(now - pinged);
      }
    }
  }

  private event(event: any, now: number): void {
    switch (event.event) {
      case "connected":
        this.leases.robot = event.max_age_ms ?? Infinity;
        break;
      case "console":
        this.leases.input = event.input_lease_ms;
        this.screen.expect(event.pictures.length > 0);
        this.sound.expect(event.sound);
        this.offers(event.offers);
        break;
      case "seat":
        if (this.inControl !== event.in_control) this.release();
        this.inControl = event.in_control;
        break;
      case "robot":
        if (event.state !== "ENABLED") this.release();
        break;
      case "hold_lapsed":
        this.release();
        break;
      case "emergency_stopped":
        // One more stop changes nothing of how the robot stands.
        this.headset.interrupt();
        if (this.stopPressedAt !== null && !this.isStopTaken) break;
        this.panels.acknowledged(this.stopPressedAt === null ? event.after_ms : now - this.stopPressedAt);
        [this.stopPressedAt, this.isStopTaken] = [null, false];
        this.stopAside.over();
        break;
    }
    this.panels.event(event, now);
  }

  /** Says what is held. A page that nobody sees says nothing: for the gateway it is gone. */
  private beat(): void {
    const now = performance.now();
    this.beatAt = now;
    this.repeatStop();
    this.panels.keys(document.hasFocus());
    // Also where nobody feels it: a contact that is over is none for who takes control later.
    const share = this.rumble.next(now);
    if (this.hold.isLed && this.headset.isLate(now, UNSEEN)) this.release();
    if ((document.visibilityState !== "visible" && !this.headset.isWatched) || !this.inControl) return;
    const happened = this.hold.readGamepads(navigator.getGamepads?.() ?? [], now);
    if (happened) {
      this.panels.say(happened === "lost" ? "the gamepad is gone: let go" : "the gamepad has said nothing for 5 s: let go");
      this.release();
    }
    for (const felt of [this.hold.gamepad, this.headset.pad]) if (felt && share !== null) rumble(felt, share);
    this.say();
  }

  private get lease(): number {
    return Math.min(this.leases.input, this.leases.robot);
  }

  /** Is what this page says over before the next of it is there? For the gateway it is older by the way there and back, lest it be taken for newer than it is. */
  private get isFar(): boolean {
    return this.clock.isBeyond(this.lease - HEARTBEAT);
  }

  /** Is what its person sees of the robot too old to move it by? A headset without a camera has the robot's hand in place of a picture. */
  private get isStale(): boolean {
    return this.screen.isStale(STALE) || (this.headset.isWatched && !this.screen.isExpected && this.panels.isStale(performance.now(), STALE));
  }

  /** What is held, unless nobody sees what that does, or it would not count. */
  private say(): void {
    if (!this.inControl) return;
    if (this.isStale || this.isFar || (this.away && !this.headset.isWatched)) this.hold.release();
    // Whoever wears a headset sees what its hands do; keys and gamepad may be somebody else's.
    else if (this.away) this.hold.releaseHere();
    const rate = this.hold.rate();
    this.panels.held(rate !== null);
    this.send(wire.input(rate, this.clock.there(performance.now())));
  }

  /** By a headset's hand, at each of its frames. */
  private lead(isHeld: boolean, rate: () => Rate): boolean {
    const was = this.hold.isLed;
    this.hold.readHand(isHeld && this.inControl, rate);
    if (was || this.hold.isLed) this.say();
    return this.hold.isLed;
  }

  private release(): void {
    this.hold.release();
    this.headset.interrupt();
    for (const pad of document.querySelectorAll<HTMLElement>("[data-held]")) delete pad.dataset.held;
    this.say();
  }

  private stop(): void {
    this.stopPressedAt ??= performance.now();
    this.sayStop();
    this.release();
  }

  private repeatStop(): void {
    if (this.stopPressedAt !== null && performance.now() - this.stopSaidAt >= STOP_AGAIN) this.sayStop();
  }

  /** Until it is acknowledged: also to a gateway that is back only then. */
  private sayStop(): void {
    this.stopSaidAt = performance.now();
    const stop = wire.button(wire.Button.stop, this.stopSaidAt);
    const sent = this.send(stop);
    const isSlow = this.stopPressedAt !== null && this.stopSaidAt - this.stopPressedAt >= STOP_ASIDE;
    const sentAside = (!sent || isSlow) && this.stopAside.send(stop);
    this.panels.stopPressed(sent || sentAside);
  }

  /** What does not follow a stop too soon for that to be meant. */
  private ask(code: number): void {
    if (performance.now() - this.stopSaidAt > AFTER_STOP) this.sayPressed(code);
  }

  /** A reset, or what lets the robot move; before, the seat, where it is free. */
  private goOn(): void {
    const { standing } = this.panels.words();
    // Nothing else can be pressed in a headset.
    if (!this.inControl) this.sayPressed(wire.Button.takeControl);
    else if (standing === "STOPPED") this.ask(wire.Button.reset);
    else if (standing === "PAUSED" || standing === "DISABLED") this.ask(wire.Button.resume);
  }

  private sayPressed(code: number): void {
    this.send(wire.button(code, this.clock.there(performance.now())));
  }

  private listen(): void {
    const goAway = (): void => {
      this.away = true;
      this.release();
      // A page that is hidden says no more, and what it said may be lost.
      for (let again = 0; again < GONE_AGAIN; again++) this.say();
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
    const ask = (id: string, code: number): void => {
      const button = element(id);
      button.addEventListener("click", () => {
        // Else the next press of Space would press it, too.
        button.blur();
        this.ask(code);
      });
    };
    ask("reset", wire.Button.reset);
    ask("resume", wire.Button.resume);
    ask("control", wire.Button.takeControl);

    addEventListener("gamepadconnected", ({ gamepad }) => {
      if (gamepad.mapping !== "standard") this.panels.say(`this browser knows no layout of ${gamepad.id}: it moves nothing`);
    });
    addEventListener("keydown", (event) => this.keyDown(event), true);
    addEventListener("keyup", (event) => this.keyUp(event), true);
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

  /** What may be chosen from, the first of which is in use: a button for each. A list to choose from would have the keys while it is open. */
  private offers(offers: { of: string; names: string[] }[]): void {
    element("offers").replaceChildren(
      ...offers.map(({ of, names }, offer) => {
        const group = document.createElement("div");
        group.role = "group";
        group.ariaLabel = group.dataset.of = of;
        const buttons = names.map((name, place) => {
          const button = document.createElement("button");
          button.textContent = button.dataset.name = name;
          button.addEventListener("click", () => {
            // Else the next press of Space would press it, too.
            button.blur();
            this.send(wire.choose(offer, place));
          });
          return button;
        });
        group.append(...buttons);
        return group;
      }),
    );
    for (const { of, names } of offers) if (names[0]) this.panels.chosen(of, names[0]);
  }

  private keyUp(event: KeyboardEvent): void {
    // A browser that clicks what has the focus does it now, and Firefox opens its menu.
    if (isStop(event) || event.key === "Alt") event.preventDefault();
    if (isModified(event)) return this.release();
    this.letGo(event.code);
  }

  private keyDown(event: KeyboardEvent): void {
    if (isStop(event)) {
      event.preventDefault();
      if (!event.repeat) this.stop();
      return;
    }
    // With one of these nobody tells that another key is let go (macOS), and what it does is the browser's.
    if (isModified(event)) {
      if (event.key === "Alt") event.preventDefault();
      return this.release();
    }
    if (leadsElsewhere(event.key)) event.preventDefault();
    // A repeat is no press: what was let go for its person stays so.
    if (event.repeat) return;
    this.away = false;
    if (event.code === "KeyC") this.sayPressed(wire.Button.reset);
    else if (event.code === "KeyR") this.sayPressed(wire.Button.resume);
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

/**
 * A browser opens its menu by this key, asks something, leads to its address, or searches the page for what is typed: then Space would stop nothing.
 * To load the page again, and for the whole display, F5 and F11 are the browser's.
 */
function leadsElsewhere(key: string): boolean {
  return key.length === 1 || (/^F\d+$/.test(key) && key !== "F5" && key !== "F11");
}

/** By its place, or by what it types: a keyboard on the screen, or a program that presses keys for a person, may have no places. */
function isStop({ code, key }: KeyboardEvent): boolean {
  return code === "Space" || code === "Escape" || key === " " || key === "Escape";
}

function isModified(event: KeyboardEvent): boolean {
  return event.ctrlKey || event.altKey || event.metaKey || /^(Meta|Control|Alt)/.test(event.key);
}

new Console().start();
