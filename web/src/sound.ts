/** What the robot hears. A browser plays nothing before somebody asks for it: a button does. */

import type { FromPlayer } from "./player";
import { sound } from "./wire";

const RATE = 48_000;
/** Of one message, ms. */
const FRAME = 10;
/** So long an output for sound may take to begin, ms. */
const PATIENCE = 2000;

export class Sound {
  private readonly button = document.getElementById("sound") as HTMLButtonElement;
  private context: AudioContext | null = null;
  private opening: Promise<AudioContext> | null = null;
  private player: AudioWorkletNode | null = null;
  /** When what was given to the player last was heard, by the page's clock, ms. */
  private heard = NaN;

  /** It is to be played. */
  isOn = false;

  /** `play`: has it sent, or not. */
  constructor(
    private readonly tell: (what: string) => void,
    private readonly play: (plays: boolean) => void,
  ) {
    this.button.addEventListener("click", () => {
      // Else the next press of Space would press it, too.
      this.button.blur();
      void this.toggle();
    });
  }

  /** Is there sound in this session? */
  expect(isThere: boolean): void {
    this.button.hidden = !isThere;
  }

  /** 10 ms of it, heard at that time by the page's clock, ms; `NaN`: made up. */
  receive(bytes: Uint8Array, heard: number): void {
    if (!this.player || this.context?.state !== "running") return;
    if (!Number.isNaN(heard)) this.heard = heard;
    const samples = sound(bytes);
    this.player.port.postMessage(samples, [samples.buffer]);
  }

  private async toggle(): Promise<void> {
    const isOn = this.context?.state === "running";
    this.turn(!isOn);
    try {
      if (isOn) await this.context!.suspend();
      else await this.start();
    } catch (error) {
      this.turn(false);
      this.tell(`no sound: ${error instanceof Error ? error.message : error}`);
    }
  }

  private turn(isOn: boolean): void {
    this.isOn = isOn;
    this.button.setAttribute("aria-pressed", String(isOn));
    this.play(isOn);
  }

  /** Output and player, which is loaded. */
  private async open(): Promise<AudioContext> {
    const context = new AudioContext({ sampleRate: RATE, latencyHint: "interactive" });
    try {
      await context.audioWorklet.addModule("/player.js");
    } catch (error) {
      // The next press tries again.
      this.opening = null;
      void context.close();
      throw error;
    }
    this.player = new AudioWorkletNode(context, "player", { numberOfInputs: 0, outputChannelCount: [2] });
    this.player.port.onmessage = ({ data }: MessageEvent<FromPlayer>) => this.report(data);
    this.player.connect(context.destination);
    return (this.context = context);
  }

  private async start(): Promise<void> {
    const context = await (this.opening ??= this.open());
    // Firefox waits for ever for a sound card that is not there.
    const isRunning = await Promise.race([context.resume().then(() => true), new Promise<boolean>((resolve) => setTimeout(resolve, PATIENCE, false))]);
    if (isRunning) return;
    void context.suspend();
    throw new Error("the browser has no output for it");
  }

  private report(told: FromPlayer): void {
    if (this.context?.state !== "running") return;
    // What was given last waits, too, and its first sample is what was heard then.
    const age = performance.now() - this.heard + told.waits - FRAME + (this.context.outputLatency || 0) * 1e3;
    // For whoever measures beside this page.
    dispatchEvent(new CustomEvent("sound", { detail: { ...told, age } }));
    this.button.title = Number.isNaN(age) ? "" : `${age.toFixed(0)} ms old, ${told.underruns} gaps`;
  }
}
