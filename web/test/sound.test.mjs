// What the button for sound does, beside an output that does as it is told.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { build } from "esbuild";

const { outputFiles } = await build({ entryPoints: [new URL("../src/sound.ts", import.meta.url).pathname], bundle: true, format: "esm", write: false });
const { Sound } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

/** A button of the page. `loads`: is the player loaded, each time it is tried? */
function start(loads) {
  const button = Object.assign(new EventTarget(), { blur: () => {}, setAttribute: (_, value) => (button.pressed = value) });
  const [contexts, events, told] = [[], new EventTarget(), []];
  let player;
  Object.assign(globalThis, {
    document: { getElementById: () => button },
    dispatchEvent: (event) => events.dispatchEvent(event),
    AudioContext: class {
      state = "suspended";
      outputLatency = 0;
      audioWorklet = {
        addModule: async () => {
          if (!loads.shift()) throw new Error("not loaded");
        },
      };
      constructor() {
        contexts.push(this);
      }
      resume = async () => void (this.state = "running");
      suspend = async () => void (this.state = "suspended");
      close = async () => void (this.state = "closed");
    },
    AudioWorkletNode: class {
      port = { postMessage: () => {} };
      constructor() {
        player = this;
      }
      connect() {}
    },
  });
  const sent = [];
  const sound = new Sound((what) => told.push(what), (plays) => sent.push(plays));
  const press = async () => {
    button.dispatchEvent(new Event("click"));
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  return { sound, press, contexts, told, sent, events, button, player: () => player };
}

test("a player that could not be loaded is loaded by the next press", async () => {
  const { press, contexts, told, sent, button, player } = start([false, true]);
  await press();
  assert.deepEqual([button.pressed, told, contexts[0].state], ["false", ["no sound: not loaded"], "closed"]);
  await press();
  assert.deepEqual([button.pressed, contexts[1].state, player() !== undefined], ["true", "running", true]);
  await press();
  assert.deepEqual(sent, [true, false, true, false], "the gateway knows when it plays");
});

test("the age of what is played next counts what waits before it, and not itself", async () => {
  const { sound, press, events, player } = start([true]);
  await press();
  mock.method(performance, "now", () => 1000);
  const ages = [];
  events.addEventListener("sound", ({ detail }) => ages.push(detail.age));
  const message = new Uint8Array(12 + 960);
  // Its first sample was heard 50 ms ago. 40 ms wait, these 10 among them: it is played in 30 ms.
  sound.receive(message, 950);
  player().port.onmessage({ data: { waits: 40 } });
  assert.deepEqual(ages, [80]);
});
