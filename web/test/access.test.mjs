// Who may drive: one page at a time, of this start's address alone.
import assert from "node:assert/strict";
import { createServer, get } from "node:http";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { REBOUND, inEachBrowser } from "./browsers.mjs";
import { moving, open, position, shows } from "./page.mjs";
import { Session } from "./session.mjs";

inEachBrowser((browser) => {
  test("a second page looks on: it moves nothing until the seat is free", () =>
    moving(browser(), async (page, session) => {
      const viewer = await open(browser(), session);
      await shows(viewer, "#seat", /^looks on/);
      const at = await position(page);
      await viewer.keyboard.down("KeyW");
      await wait(300);
      assert.ok(Math.abs((await position(page)) - at) < 0.5, "nothing moves");
      await viewer.keyboard.up("KeyW");
      await page.goto("about:blank");
      await shows(viewer, "#seat", /^nobody is in control/);
      await viewer.click("#control");
      await shows(viewer, "#seat", /^in control/);
    }));

  test("a page that is hidden keeps nobody from the seat, and looks on when it is back", () =>
    moving(browser(), async (page, session) => {
      const viewer = await open(browser(), session);
      await shows(page, "#seat", /^in control, 1 other page$/);
      await page.evaluate(() => Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "hidden" }));
      await shows(viewer, "#seat", /^nobody is in control/);
      await page.evaluate(() => delete document.visibilityState);
      await shows(viewer, "#seat", /^looks on/);
      await page.evaluate(() => Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "hidden" }));
      await shows(viewer, "#seat", /^nobody is in control/);
      await viewer.click("#control");
      await shows(viewer, "#seat", /^in control/);
      await page.evaluate(() => delete document.visibilityState);
      await shows(page, "#seat", /^looks on/);
      await page.close();
      await shows(viewer, "#seat", /^in control$/);
    }));

  test("a page of another address, and one that DNS pointed here, reach nothing, not even with the token", async () => {
    const session = await Session.start();
    const other = createServer((_, answer) => answer.setHeader("Content-Type", "text/html").end("<title>another site</title>"));
    try {
      await new Promise((resolve) => other.listen(0, "127.0.0.1", resolve));
      const { port, hash, host } = new URL(session.url);
      const page = await open(browser(), session);
      /** How it ends when the page asks to speak with the session of that address. */
      const speak = (address, token = hash.slice(1)) =>
        page.evaluate(
          ([address, token]) =>
            new Promise((resolve) => {
              const socket = new WebSocket(`ws://${address}/session`, ["taut.console.1", token]);
              socket.onmessage = () => resolve("it speaks") ?? socket.close();
              socket.onclose = () => resolve("refused");
            }),
          [address, token],
        );
      assert.equal(await speak(host), "it speaks");
      assert.equal(await speak(host, "0".repeat(32)), "refused");

      await page.goto(`http://127.0.0.1:${other.address().port}/`);
      assert.equal(await speak(host), "refused");
      const loads = (tag, source) =>
        page.evaluate(
          ([tag, source]) =>
            new Promise((resolve) => {
              const element = Object.assign(document.createElement(tag), { src: source });
              element.onload = () => resolve("loaded");
              element.onerror = () => resolve("refused");
              document.head.append(element);
            }),
          [tag, source],
        );
      assert.equal(await loads("script", `http://${host}/console.js`), "refused");

      // The browser believes that the name is this machine's, as a name server of its owner's told it.
      const answer = await page.goto(`http://${REBOUND}:${other.address().port}/`);
      assert.equal(answer.status(), 200);
      assert.equal(await speak(`${REBOUND}:${port}`), "refused");
      assert.equal((await page.goto(`http://${REBOUND}:${port}/${hash}`)).status(), 421);
      await page.close();
    } finally {
      other.close();
      await session.end();
    }
  });

  test("a page that knows another start's token says so and moves nothing", async () => {
    const session = await Session.start();
    try {
      const page = await browser().page();
      await page.goto(session.url.replace(/#.*/, `#${"0".repeat(32)}`));
      await shows(page, "#seat", /this page's address is another start's/);
      await shows(page, "#standing", /^NO LINK/);
      await page.close();
    } finally {
      await session.end();
    }
  });
});

test("foreign origins, other tokens and names that DNS was made to point here are refused", async () => {
  const session = await Session.start();
  try {
    const { port, hash, host } = new URL(session.url);
    const ask = (headers, path = "/session") =>
      new Promise((resolve, reject) => {
        const request = get({ host: "127.0.0.1", port, path, headers }, (answer) => resolve(answer.resume() && answer.statusCode));
        request.on("upgrade", (answer, socket) => resolve(socket.destroy() && answer.statusCode));
        request.on("error", reject);
      });
    const session13 = (more) => ({
      Host: host,
      Origin: `http://${host}`,
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
      "Sec-WebSocket-Protocol": `taut.console.1, ${hash.slice(1)}`,
      ...more,
    });
    assert.equal(await ask(session13({})), 101);
    assert.equal(await ask(session13({ Origin: "http://evil.example" })), 403);
    assert.equal(await ask(session13({ Host: "evil.example" })), 421);
    assert.equal(await ask(session13({ "Sec-WebSocket-Protocol": `taut.console.1, ${"0".repeat(32)}` })), 403);
    assert.equal(await ask({ Host: host }, "/"), 200);
    assert.equal(await ask({ Host: `evil.example:${port}` }, "/"), 421);
    assert.equal(await ask({ Host: host, Origin: "http://evil.example" }, "/console.js"), 403);
  } finally {
    await session.end();
  }
});
