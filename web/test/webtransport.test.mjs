// The console by WebTransport, in each browser: the same page drives the same robot.
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { test } from "node:test";
import { inEachBrowser } from "./browsers.mjs";
import { ATTEMPTS, areSoon, hold, moving, open, position, shows, stopAndReset } from "./page.mjs";
import { Session, WATCHDOG, until } from "./session.mjs";

const LEASE = 120;
const STRAIGHT = ["--webtransport", "127.0.0.1:0"];

const has = (page) => page.evaluate(() => typeof WebTransport === "function");
const isStraight = (page) => shows(page, "#events", /this page speaks with 127\.0\.0\.1:\d+ by WebTransport/);

inEachBrowser((browser) => {
  test("by WebTransport pictures come", (context) =>
    moving(
      browser(),
      async (page) => {
        if (!(await has(page))) return context.skip("this browser has no WebTransport");
        await isStraight(page);
        await page.evaluate(() => {
          globalThis.numbers = [];
          addEventListener("picture", ({ detail }) => globalThis.numbers.push(detail.number));
        });
        await until(() => page.evaluate(() => globalThis.numbers.length >= 60), "pictures of two seconds");
        const numbers = await page.evaluate(() => globalThis.numbers);
        assert.ok(numbers.every((number, place) => place === 0 || number > numbers[place - 1]), `${numbers}`);
      },
      { robot: ["--video", "front=test"], more: ["--video", "front", ...STRAIGHT] },
    ));

  test("by WebTransport keys drive the arm, a stop is acknowledged, and a gateway that is killed stops the robot", (context) =>
    moving(
      browser(),
      async (page, session) => {
        if (!(await has(page))) return context.skip("this browser has no WebTransport");
        await isStraight(page);
        await hold(page, "KeyW", async () => (await position(page)) > -20, "-20 mm");
        await page.keyboard.up("KeyW");
        const took = [];
        for (let attempt = 0; attempt < 3 * ATTEMPTS; attempt++) took.push(await stopAndReset(page, session, () => page.keyboard.press("Space")));
        console.log(`stop acknowledged in ${took.join(", ")} ms by WebTransport`);
        areSoon(took);
        await hold(page, "KeyS", async () => (await position(page)) < -30, "-30 mm");
        const from = performance.now();
        session.console.process.kill("SIGKILL");
        const line = await session.robot.line((line) => line.event === "stopped", from);
        assert.match(line.why, /watchdog/i);
        assert.ok(line.at - from <= 2 * LEASE + WATCHDOG + 200, `${line.at - from}`);
      },
      { more: STRAIGHT },
    ));

  test("a stop gets there by the tunnel where WebTransport died without a word", async (context) => {
    const session = await Session.start({ console: STRAIGHT });
    const relay = createSocket("udp4");
    try {
      const page = await browser().page();
      const told = await (await fetch(new URL("/elsewhere", session.url))).json();
      const gateway = Number(new URL(told.url).port);
      await new Promise((resolve) => relay.bind(0, "127.0.0.1", resolve));
      const { port } = relay.address();
      let [near, isDead] = [null, false];
      relay.on("message", (packet, from) => {
        if (isDead) return;
        if (from.port !== gateway) near = from.port;
        relay.send(packet, from.port === gateway ? near : gateway, "127.0.0.1");
      });
      const there = (text) => text.replaceAll(`:${gateway}`, `:${port}`);
      // To Chromium a page that a test made up is from nowhere, and what is from there asks before it speaks with this host.
      await page.context?.().grantPermissions(["local-network-access"]);
      await page.route("**/elsewhere", (route) => route.fulfill({ json: { ...told, url: there(told.url) } }));
      await page.route(new URL("/", session.url).href, async (route) => {
        const response = await route.fetch();
        const headers = response.headers();
        await route.fulfill({ response, headers: { ...headers, "content-security-policy": there(headers["content-security-policy"]) } });
      });
      await page.goto(session.url);
      if (!(await has(page))) return context.skip("this browser has no WebTransport");
      await isStraight(page);
      await shows(page, "#seat", /^in control/);
      isDead = true;
      const from = performance.now();
      await page.keyboard.press("Space");
      const line = await session.console.line((line) => line.event === "emergency_stopped", from);
      await shows(page, "#acknowledged", /^robot acknowledged in \d+ ms/);
      console.log(`stop there after ${Math.round(line.at - from)} ms, by the tunnel`);
      assert.ok(line.at - from <= 1500, `${line.at - from}`);
      await page.close();
    } finally {
      relay.close();
      await session.end();
    }
  });

  test("where WebTransport does not get through the page goes on by its WebSocket", async (context) => {
    const session = await Session.start({ console: STRAIGHT });
    try {
      const page = await browser().page();
      // Another start's certificate.
      await page.route("**/elsewhere", async (route) => {
        const told = await (await route.fetch()).json();
        await route.fulfill({ json: { ...told, certificate_sha256: told.certificate_sha256.map((byte) => byte ^ 1) } });
      });
      await page.goto(session.url);
      if (!(await has(page))) return context.skip("this browser has no WebTransport");
      await shows(page, "#events", /does not get through: this page speaks with the gateway by a WebSocket/);
      await shows(page, "#seat", /^in control/);
      assert.deepEqual(page.errors, []);
      await page.close();
    } finally {
      await session.end();
    }
  });

  test("a page that knows another start's token is let in by neither", async () => {
    const session = await Session.start({ console: STRAIGHT });
    try {
      const page = await browser().page();
      await page.goto(session.url.replace(/#.*/, `#${"0".repeat(32)}`));
      await shows(page, "#seat", /this page's address is another start's/);
      await page.close();
      const viewer = await open(browser(), session);
      await shows(viewer, "#seat", /^in control/);
      await viewer.close();
    } finally {
      await session.end();
    }
  });
});
