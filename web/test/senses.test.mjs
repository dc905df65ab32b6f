// What the console shows and plays of a robot's cameras and microphones, in each browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { inEachBrowser } from "./browsers.mjs";
import { moving, open, shows } from "./page.mjs";
import { Session, until } from "./session.mjs";

inEachBrowser((browser) => {
  test("a tone is heard once it is asked for, by what the browser plays", async (context) => {
    await moving(
      browser(),
      async (page, session) => {
        await page.evaluate(() => addEventListener("sound", ({ detail }) => ((globalThis.told ??= []).push(detail))));
        await page.click("#sound");
        // The first is of before anything came.
        const plays = () => page.evaluate(() => globalThis.told?.length > 5 && globalThis.told.at(-1));
        const isRefused = async () => browser().needsOutput && /no sound:/.test(await page.textContent("#events"));
        const told = await until(async () => (await plays()) || ((await isRefused()) && "refused"), "it plays");
        if (told === "refused") {
          assert.equal(await page.getAttribute("#sound", "aria-pressed"), "false");
          return context.skip("there is no sound card, and the page says so");
        }
        // A sine of a quarter of the height.
        assert.ok(told.loudness > 0.1 && told.loudness < 0.25, JSON.stringify(told));
        assert.ok(told.age > 20 && told.age < 2_000, JSON.stringify(told));
        await page.click("#sound");
        const was = await page.evaluate(() => globalThis.told.length);
        await wait(1_500);
        assert.ok((await page.evaluate(() => globalThis.told.length)) <= was + 1, "it is silent when it is asked to be");
      },
      { robot: ["--microphone", "cell=tone"], more: ["--speaker", "cell=page"] },
    );
  });

  test("pictures are shown, and when they stay out what is held is let go", async () => {
    const session = await Session.start({ robot: ["--video", "front=test"], console: ["--video", "front"] });
    try {
      const page = await open(browser(), session);
      await page.evaluate(() => {
        globalThis.numbers = [];
        globalThis.ages = [];
        addEventListener("picture", ({ detail }) => {
          globalThis.numbers.push(detail.number);
          globalThis.ages.push(performance.timeOrigin + performance.now() - detail.made);
        });
      });
      await until(() => page.evaluate(() => globalThis.numbers.length >= 120), "pictures of four seconds");
      const ages = (await page.evaluate(() => globalThis.ages.slice(30))).sort((a, b) => a - b);
      console.log(`pictures are drawn ${ages[ages.length >> 1].toFixed(1)} ms old (p95 ${ages[Math.floor(ages.length * 0.95)].toFixed(1)} ms)`);
      const numbers = await page.evaluate(() => globalThis.numbers);
      assert.ok(numbers.every((number, place) => place === 0 || number > numbers[place - 1]), `${numbers}`);
      await until(async () => {
        await page.keyboard.up("KeyW");
        await page.keyboard.down("KeyW");
        return (await page.getAttribute("body", "data-holds")) === "true";
      }, "something is held");
      session.robot.process.kill("SIGSTOP");
      await page.waitForSelector("#stale", { state: "visible" });
      await until(async () => (await page.getAttribute("body", "data-holds")) === "false", "it is let go");
      // A press says nothing either, not even once.
      await page.evaluate(() => {
        globalThis.held = 0;
        const { send } = WebSocket.prototype;
        WebSocket.prototype.send = function (bytes) {
          globalThis.held += Number(bytes[0] === 1 && bytes[1] !== 0);
          send.call(this, bytes);
        };
      });
      await page.keyboard.up("KeyA");
      await page.keyboard.down("KeyA");
      await wait(100);
      assert.equal(await page.evaluate(() => globalThis.held), 0);
      await page.keyboard.up("KeyA");
      session.robot.process.kill("SIGCONT");
      await page.waitForSelector("#stale", { state: "hidden" });
      await page.keyboard.down("KeyW"); // A repeat.
      await wait(200);
      assert.equal(await page.getAttribute("body", "data-holds"), "false");
      assert.deepEqual(page.errors, []);
    } finally {
      session.robot.process.kill("SIGCONT");
      await session.end();
    }
  });

  test("a page that looks on says, too, that no picture comes, and how old the one is that it shows", async () => {
    const session = await Session.start({ robot: ["--video", "front=test"], console: ["--video", "front"] });
    try {
      const page = await open(browser(), session);
      await shows(page, "#seat", /^in control/);
      const viewer = await open(browser(), session);
      await shows(viewer, "#seat", /^looks on/);
      await viewer.waitForSelector("#stale", { state: "hidden" });
      session.robot.process.kill("SIGSTOP");
      await viewer.waitForSelector("#stale", { state: "visible" });
      const age = await viewer.textContent("#age");
      assert.ok(Number.parseFloat(age) > 250, `it is ${age} old`);
    } finally {
      session.robot.process.kill("SIGCONT");
      await session.end();
    }
  });

  test("a page that cannot show pictures moves nothing, and says why", async () => {
    const session = await Session.start({ robot: ["--video", "front=test"], console: ["--video", "front"] });
    try {
      const page = await open(browser(), session, () => delete globalThis.VideoDecoder);
      await shows(page, "#seat", /^in control/);
      await page.keyboard.down("KeyW");
      await wait(200);
      assert.equal(await page.getAttribute("body", "data-holds"), "false");
      await page.waitForSelector("#stale", { state: "visible" });
      await shows(page, "#stale", /^This browser cannot show the pictures/);
    } finally {
      await session.end();
    }
  });
});
