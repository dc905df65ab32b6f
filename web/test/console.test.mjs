// The console in each browser, beside a simulated robot: what drives it, and everything that has to stop it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { inEachBrowser } from "./browsers.mjs";
import { ATTEMPTS, areSoon, gamepad, hold, moving, open, position, resume, shows, stopAndReset, stops } from "./page.mjs";
import { Session, WATCHDOG, until } from "./session.mjs";

const LEASE = 120;

inEachBrowser((browser) => {
  test("keys drive the arm to a target, where it stays when they are let go", () =>
    moving(browser(), async (page) => {
      await hold(page, "KeyW", async () => (await position(page)) > -20, "-20 mm");
      await page.keyboard.up("KeyW");
      await wait(300);
      const at = await position(page);
      await wait(300);
      assert.ok(at < 0 && Math.abs((await position(page)) - at) < 0.5, `it rests at ${at} mm`);
      await hold(page, "KeyA", async () => /, \d\d\.\d,/.test(await page.textContent("#position")), "10 mm to the left");
      await page.keyboard.up("KeyA");
    }));

  test("a stop is acknowledged within a round trip and 20 ms, by pointer, space and escape, and is anyone's", () =>
    moving(browser(), async (page, session) => {
      const box = await page.locator("#stop").boundingBox();
      const ways = [
        () => page.mouse.click(box.x + 5, box.y + 5),
        () => page.keyboard.press("Space"),
        () => page.keyboard.press("Escape"),
      ];
      const took = [];
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        for (const way of ways) took.push(await stopAndReset(page, session, way));
      }
      console.log(`stop acknowledged in ${took.join(", ")} ms`);
      areSoon(took);
      const viewer = await open(browser(), session);
      await shows(viewer, "#seat", /^looks on/);
      await viewer.keyboard.press("Space");
      await shows(page, "#standing", /^STOPPED/);
      // What happened is told in the words of the standing, by its time.
      await shows(page, "#events", /the robot is STOPPED; its last stop: the emergency stop/);
      const [first, events] = await page.evaluate(() => [document.querySelector("#events time").textContent, document.querySelector("#events").textContent]);
      assert.match(first, /^\d+\.\d s$/);
      assert.doesNotMatch(events, /ENABLED|FAULT|true|_/);
    }));

  test("a page that loses its person lets go, and what is still pressed does not count when it is back", () =>
    moving(browser(), 
      async (page, session) => {
        const dispatch = (what) => () => page.evaluate(`dispatchEvent(new Event("${what}"))`);
        const blur = await stops(page, session, dispatch("blur"), 50, /released/i);
        await page.evaluate(`dispatchEvent(new Event("focus"))`);
        await page.keyboard.down("KeyW"); // A repeat: it is still pressed.
        await wait(200);
        assert.equal(await page.getAttribute("body", "data-holds"), "false");
        const hide = await stops(
          page,
          session,
          () =>
            page.evaluate(() => {
              Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "hidden" });
              document.dispatchEvent(new Event("visibilitychange"));
              delete document.visibilityState;
            }),
          50,
          /released/i,
        );
        console.log(`stopped ${blur.toFixed(0)} ms after a blur, ${hide.toFixed(0)} ms after it was hidden`);
        assert.ok(blur <= 50 && hide <= 50, `${blur}, ${hide} ms`);
      },
      { robot: ["--hold-to-run"] },
    ));

  test("what is held when the robot is resumed does not count, and the page says so", () =>
    moving(browser(), async (page, session) => {
      await stopAndReset(page, session, () => page.keyboard.press("Space"));
      const holds = async (is) => (await page.getAttribute("body", "data-holds")) === String(is);
      await page.keyboard.down("KeyW");
      await until(() => holds(true), "it is held");
      await page.keyboard.press("KeyR");
      await until(() => holds(false), "it is let go");
      await shows(page, "#events", /what is held does not count any more/);
      await page.keyboard.down("KeyW"); // A repeat: it is still pressed.
      assert.ok(await holds(false));
    }));

  test("a gamepad that is lost lets go", async () => {
    const session = await Session.start({ robot: ["--hold-to-run"] });
    try {
      const page = await open(browser(), session);
      await page.evaluate(() => dispatchEvent(Object.assign(new Event("gamepadconnected"), { gamepad: { id: "odd pad", mapping: "" } })));
      await shows(page, "#events", /knows no layout of odd pad/);
      let least = Infinity;
      for (let attempt = 0; attempt < ATTEMPTS && least > 50; attempt++) {
        // Once more, where a busy machine held up the page meanwhile: what lapsed has to be let go first.
        await until(async () => {
          await gamepad(page, true, false);
          await wait(100);
          await gamepad(page, true, true);
          await until(async () => (await page.getAttribute("body", "data-holds")) === "true", "the gamepad is held");
          await page.keyboard.press("KeyR");
          await wait(100);
          return (await page.textContent("#standing")) === "MOVING";
        }, "the robot moves");
        const from = performance.now();
        await gamepad(page, false, false);
        const line = await session.robot.line((line) => line.event === "stopped", from);
        assert.match(line.why, /released/i);
        least = Math.min(least, line.at - from);
      }
      console.log(`stopped ${least.toFixed(0)} ms after the gamepad was lost`);
      assert.ok(least <= 50, `${least} ms`);
    } finally {
      await session.end();
    }
  });

  test("a browser or a gateway that is killed stops the robot within lease and watchdog", async () => {
    const took = {};
    for (const what of ["browser", "gateway"]) {
      const own = await browser().another();
      const session = await Session.start();
      try {
        const page = await open(own, session);
        await shows(page, "#seat", /^in control/);
        await hold(page, "KeyW", async () => (await position(page)) > -50, "-50 mm");
        const from = performance.now();
        if (what === "browser") own.crash();
        else session.console.process.kill("SIGKILL");
        const line = await session.robot.line((line) => line.event === "stopped", from);
        assert.match(line.why, /watchdog/i);
        took[what] = line.at - from;
      } finally {
        await own.end();
        await session.end();
      }
    }
    console.log(`stopped ${took.browser.toFixed(0)} ms after the browser was killed, ${took.gateway.toFixed(0)} ms after the gateway was`);
    assert.ok(Math.max(took.browser, took.gateway) <= 2 * LEASE + WATCHDOG + 200, JSON.stringify(took));
  });

  test("a gateway that goes silent without a word is told within 5 s, and spoken with again when it is back", () =>
    moving(browser(), async (page, session) => {
      const from = performance.now();
      session.console.process.kill("SIGSTOP");
      try {
        await shows(page, "#standing", /^NO LINK/);
      } finally {
        session.console.process.kill("SIGCONT");
      }
      const took = performance.now() - from;
      console.log(`a silent gateway is told after ${took.toFixed(0)} ms`);
      assert.ok(took <= 5_000, `${took} ms`);
      await shows(page, "#standing", /^(PAUSED|STOPPED)/);
    }));

  test("the acknowledgement of another page's stop is not taken for that of this one's, which is still on its way", async () => {
    const session = await Session.start();
    try {
      const page = await open(browser(), session, () => {
        const { send } = WebSocket.prototype;
        WebSocket.prototype.send = function (bytes) {
          if (!(globalThis.isMute && bytes[0] === 2 && bytes[1] === 0)) send.call(this, bytes);
        };
      });
      await shows(page, "#seat", /^in control/);
      const viewer = await open(browser(), session);
      await page.evaluate(() => (globalThis.isMute = true));
      await page.keyboard.press("Space");
      await viewer.keyboard.press("Space");
      await shows(viewer, "#acknowledged", /^robot acknowledged in/);
      await shows(page, "#events", /the robot has acknowledged the emergency stop/);
      assert.match(await page.textContent("#acknowledged"), /not acknowledged yet/);
      await page.evaluate(() => (globalThis.isMute = false));
      await shows(page, "#acknowledged", /^robot acknowledged in/);
    } finally {
      await session.end();
    }
  });

  test("how the robot stands is not known where the session says nothing for a second", async () => {
    const session = await Session.start();
    try {
      const page = await open(browser(), session, () => {
        const { get, set } = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
        globalThis.hangs = true;
        const isTold = ({ data }) => globalThis.hangs && /"event":"(status|robot)"/.test(new TextDecoder().decode(data));
        Object.defineProperty(WebSocket.prototype, "onmessage", {
          get,
          set(take) {
            set.call(this, take && ((message) => isTold(message) || take(message)));
          },
        });
      });
      // Nor where it has said nothing yet.
      await shows(page, "#standing", /^NOT KNOWN$/);
      await page.evaluate(() => (globalThis.hangs = false));
      await resume(page);
      await page.evaluate(() => (globalThis.hangs = true));
      await shows(page, "#standing", /^NOT KNOWN$/);
      await page.evaluate(() => (globalThis.hangs = false));
      await shows(page, "#standing", /^MOVING$/);
    } finally {
      await session.end();
    }
  });

  test("a robot that is killed is told, and a stop is not said to be acknowledged", () =>
    moving(browser(), async (page, session) => {
      await session.robot.end("SIGKILL");
      await shows(page, "#standing", /^(NO ANSWER|NO LINK)/);
      await page.keyboard.press("Space");
      await shows(page, "#acknowledged", /not acknowledged/);
    }));

  test("what comes late from the page moves nothing, however steadily it comes", async () => {
    const session = await Session.start();
    try {
      const page = await open(browser(), session, () => {
        const { send } = WebSocket.prototype;
        WebSocket.prototype.send = function (bytes) {
          // What is held: of anything else the page would know that it is so far away.
          setTimeout(() => this.readyState === WebSocket.OPEN && send.call(this, bytes), bytes[0] === 1 ? 200 : 0);
        };
      });
      await shows(page, "#seat", /^in control/);
      await resume(page);
      const at = await position(page);
      await page.keyboard.down("KeyW");
      await wait(1000);
      assert.equal(await page.getAttribute("body", "data-holds"), "true", "the page says that it is held");
      assert.ok(Math.abs((await position(page)) - at) < 0.5, "and the robot rests");
    } finally {
      await session.end();
    }
  });

  test("a page whose way to the gateway takes longer than what is held counts says so, and holds nothing", async () => {
    const session = await Session.start();
    try {
      const page = await open(browser(), session, () => {
        const { send } = WebSocket.prototype;
        WebSocket.prototype.send = function (bytes) {
          setTimeout(() => this.readyState === WebSocket.OPEN && send.call(this, bytes), 120);
        };
      });
      await shows(page, "#seat", /^in control; the gateway is \d+ ms away, there and back, and what is held counts for 120 ms: nothing moves$/);
      await page.keyboard.down("KeyW");
      await wait(200);
      assert.equal(await page.getAttribute("body", "data-holds"), "false");
      await page.keyboard.press("Space");
      await shows(page, "#standing", /^STOPPED/);
    } finally {
      await session.end();
    }
  });

  test("a key that takes others along lets go, and a stop that the gateway could not hear comes when it is back", async () => {
    const session = await Session.start();
    try {
      const page = await open(browser(), session, () => {
        globalThis.sockets = [];
        globalThis.WebSocket = class extends WebSocket {
          constructor(...all) {
            super(...all);
            globalThis.sockets.push(this);
          }
        };
      });
      await shows(page, "#seat", /^in control/);
      await resume(page);
      await page.keyboard.down("KeyW");
      await until(async () => (await page.getAttribute("body", "data-holds")) === "true", "it is held");
      await page.keyboard.down("Meta");
      assert.equal(await page.getAttribute("body", "data-holds"), "false");
      await page.keyboard.up("Meta");
      const from = performance.now();
      await page.evaluate(() => globalThis.sockets.at(-1).close());
      await page.keyboard.press("Space");
      await session.console.line((line) => line.event === "emergency_stopped", from);
      await shows(page, "#standing", /^STOPPED/);
    } finally {
      await session.end();
    }
  });

  test("no key leads the keyboard away: Space stops after each, and only stops where a button has the focus", () =>
    moving(browser(), async (page, session) => {
      await page.evaluate(() => {
        globalThis.led = [];
        for (const event of ["keydown", "keyup"])
          addEventListener(event, (one) => one.defaultPrevented || globalThis.led.push(`${event} ${one.key}`));
      });
      for (const key of ["Slash", "Quote", "Alt", "F3", "F6", "F7", "F10"]) {
        await page.keyboard.press(key);
        assert.ok(await page.evaluate(() => document.hasFocus()), key);
        await stopAndReset(page, session, () => page.keyboard.press("Space"));
      }
      // The browser's own: what opens something at its release.
      const led = await page.evaluate(() => globalThis.led);
      assert.deepEqual(led.filter((one) => /^keydown|Alt| $/.test(one)), []);
      await shows(page, "#keys", /^Space or Esc$/);
      // Of a keyboard on the screen, say, whose keys have no places.
      for (const key of [" ", "Escape"])
        await stopAndReset(page, session, () => page.evaluate((key) => dispatchEvent(new KeyboardEvent("keydown", { key, code: "" })), key));
      await page.focus("#resume");
      await page.keyboard.press("Space");
      await shows(page, "#standing", /^STOPPED/);
      await wait(600);
      await page.focus("#reset");
      await page.keyboard.press("Space");
      await wait(300);
      await shows(page, "#standing", /^STOPPED/);
    }));
});
