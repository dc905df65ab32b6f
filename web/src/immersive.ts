/** A session of a headset: reads its hands and draws what it shows. A script of its own, which `headset.ts` loads where there is a headset. */

import { Board, type Words } from "./board";
import { Forth } from "./forth";
import { Hand, type Reading } from "./hand";
import type { Frame } from "./screen";
import { Stage } from "./stage";
import type { Rate } from "./wire";

/** The page, to a headset. */
export interface Page {
  /** Does a hand hold, and how fast does it lead? True: it moves the robot. */
  lead(isHeld: boolean, rate: () => Rate): boolean;
  /** Nothing is held, until it was let go. */
  release(): void;
  stop(): void;
  /** Resets a stop, or lets the robot move: whichever is next. */
  goOn(): void;
  words(): Words;
  /** At each frame of the headset. */
  frame(): void;
  ended(): void;
}

/** Of the layout "xr-standard": 0 is the trigger, 1 the grip. Every other one stops. */
const TRIGGER = 0;
const GRIP = 1;
/** A stick, or a thumb on a touchpad, is forth from here on. */
const FORTH = -0.8;

export class Immersive {
  private place: Place | null = null;
  private readonly hand = new Hand();
  private readonly board = new Board();
  /** The one that leads, of those that are gripped. */
  private holder: XRInputSource | null = null;
  /** Those that were seen let go since they came, and since anything was let go for their person: a hand that comes back gripped leads nothing. */
  private free = new Set<XRInputSource>();
  private moves = false;
  /** The buttons that are pressed and have stopped the robot. */
  private stopping = new WeakMap<XRInputSource, Set<number>>();
  private readonly forth = new Forth();
  /** How the robot stood when sticks were looked at last. */
  private standing = "";
  /** The next picture. */
  private shown: Frame | null = null;
  private isOver = false;

  private constructor(
    private readonly session: XRSession,
    private readonly space: XRReferenceSpace,
    private readonly stage: Stage,
    private readonly page: Page,
    private readonly scale: () => number,
  ) {
    session.addEventListener("visibilitychange", () => this.isVisible || this.letGo());
    session.addEventListener("inputsourceschange", ({ removed }) => removed.includes(this.holder!) && this.letGo());
    session.addEventListener("end", () => {
      this.isOver = true;
      this.letGo();
      this.shown?.close();
      this.shown = null;
      page.ended();
    });
    // Its person has looked for a new middle: what was forth is elsewhere.
    space.addEventListener("reset", () => {
      this.place = null;
      this.letGo();
    });
    stage.canvas.addEventListener("webglcontextlost", () => this.end());
    const each = (now: number, frame: XRFrame): void => {
      session.requestAnimationFrame(each);
      this.frame(now, frame);
    };
    session.requestAnimationFrame(each);
  }

  static async enter(mode: XRSessionMode, page: Page, scale: () => number): Promise<Immersive> {
    const session = await navigator.xr!.requestSession(mode);
    try {
      const stage = await Stage.of(session);
      return new Immersive(session, await session.requestReferenceSpace("local"), stage, page, scale);
    } catch (error) {
      await session.end().catch(() => {});
      throw error;
    }
  }

  get isVisible(): boolean {
    return !this.isOver && this.session.visibilityState === "visible";
  }

  /** What feels what the robot's hand meets: of the hand that leads. */
  get pad(): Gamepad | null {
    return this.moves ? (this.holder?.gamepad ?? null) : null;
  }

  end(): void {
    void this.session.end().catch(() => {});
  }

  /** A picture, which is its own from now on. */
  show(frame: Frame): void {
    if (this.isOver) return frame.close();
    this.shown?.close();
    this.shown = frame;
  }

  /** A stick that is forth has to be back before it counts. */
  interrupt(): void {
    this.forth.interrupt();
  }

  private letGo(): void {
    this.holder = null;
    this.free.clear();
    this.hand.letGo();
    this.interrupt();
    this.page.release();
    this.moves = false;
  }

  private frame(now: number, frame: XRFrame): void {
    const viewer = frame.getViewerPose(this.space) ?? null;
    if (viewer) this.place ??= new Place(viewer.transform);
    if (this.isVisible) this.read(frame, viewer !== null && !viewer.emulatedPosition, now);
    this.page.frame();
    if (viewer && this.place) this.draw(viewer, frame);
  }

  private read(frame: XRFrame, isTracked: boolean, now: number): void {
    const sources = [...this.session.inputSources].filter(({ gamepad }) => gamepad);
    let stops = false;
    for (const source of sources) {
      const pressed = new Set(source.gamepad!.buttons.flatMap((button, place) => (button.pressed && place > GRIP ? [place] : [])));
      const before = this.stopping.get(source);
      if ([...pressed].some((place) => !before?.has(place))) this.page.stop();
      this.stopping.set(source, pressed);
      stops ||= pressed.size > 0;
    }
    const known = sources.filter(leads);
    this.lead(known, (source) => (isTracked && source.gripSpace ? this.where(frame, source) : null), now);
    this.goOn(known, stops, now);
  }

  /** Either hand may: the first that grips does, and another one, that grips already, takes nothing over. */
  private lead(sources: XRInputSource[], where: (source: XRInputSource) => Reading | null, now: number): void {
    const gripped = sources.filter(({ gamepad }) => gamepad!.buttons[GRIP]?.pressed);
    if (this.holder && !gripped.includes(this.holder)) this.letGo();
    this.free = new Set(sources.filter((source) => this.free.has(source) || !gripped.includes(source)));
    this.holder ??= gripped.find((source) => this.free.has(source)) ?? null;
    const reading = this.holder && where(this.holder);
    if (this.holder && !reading) this.letGo();
    this.moves = this.page.lead(this.holder !== null, () => this.hand.follow(reading!, now / 1e3, this.scale()));
    if (!this.moves) this.hand.letGo();
  }

  /** `null`: nobody knows; one that is made up from how it is turned is no place. */
  private where(frame: XRFrame, source: XRInputSource): Reading | null {
    const pose = frame.getPose(source.gripSpace!, this.space);
    if (!pose || pose.emulatedPosition || !this.place) return null;
    const { position, orientation } = pose.transform;
    return { position: this.place.robots(position), turned: [...this.place.robots(orientation), orientation.w], trigger: source.gamepad!.buttons[TRIGGER]?.value ?? 0 };
  }

  /** By one stick, and by none while a button that stops is pressed: a stick that is pressed is one. What is meant is meant for how the robot stands now. */
  private goOn(sources: XRInputSource[], stops: boolean, now: number): void {
    const { standing } = this.page.words();
    const isSame = standing === this.standing;
    this.standing = standing;
    if (stops || !isSame) return this.interrupt();
    const forth = sources.filter(({ gamepad }) => Math.min(gamepad!.axes[1] ?? 0, gamepad!.axes[3] ?? 0) < FORTH);
    if (this.forth.follow(forth, now)) this.page.goOn();
  }

  private draw(viewer: XRViewerPose, frame: XRFrame): void {
    const { stage } = this;
    const place = this.place!;
    const now = performance.now();
    const words = this.page.words();
    if (this.shown) {
      stage.picture(this.shown);
      this.shown.close();
      this.shown = null;
    } else if (words.drawing) stage.picture(words.drawing);
    const canLead = [...this.session.inputSources].some(leads);
    const board = this.board.draw({ ...words, canLead, isHeld: this.moves, goesOn: this.forth.share(now) });
    if (board) stage.board(board);
    const hands = [...this.session.inputSources].flatMap((source) => {
      const pose = source.gripSpace && frame.getPose(source.gripSpace, this.space);
      return pose ? [{ at: pose.transform.position, moves: this.moves && source === this.holder }] : [];
    });
    stage.draw(viewer, place, hands, words.isStale);
  }
}

/** Is it a controller of a known layout that can stop the robot, too? A hand without one cannot. */
const leads = ({ gamepad, hand }: XRInputSource): boolean => gamepad?.mapping === "xr-standard" && !hand && gamepad.buttons.length > GRIP + 1;

/** Where the picture stands: before its person as that looked when the session began, upright. Into it is where the robot's forth is, its left is left. */
export class Place {
  readonly origin: DOMPointReadOnly;
  readonly sine: number;
  readonly cosine: number;

  constructor({ position, orientation: { x, y, z, w } }: XRRigidTransform) {
    this.origin = position;
    // Where −z points, from above.
    const heading = Math.atan2(2 * (x * z + w * y), 1 - 2 * (x * x + y * y));
    [this.sine, this.cosine] = [Math.sin(heading), Math.cos(heading)];
  }

  /** A vector along the robot's axes: forth, left, up. Of a turn the vector of its quaternion. */
  robots({ x, y, z }: DOMPointReadOnly): [number, number, number] {
    return [-(this.sine * x + this.cosine * z), -(this.cosine * x - this.sine * z), y];
  }
}

globalThis.tautImmersive = Immersive;
