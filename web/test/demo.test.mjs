// `taut demo --console`: one command, and whoever opens its page sees the arm and drives it over an emulated network.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { inEachBrowser } from "./browsers.mjs";
import { TAUT, until } from "./session.mjs";

inEachBrowser((browser) => {
  for (const network of ["wifi", "lte"]) {
    test(`the demonstration over ${network} shows the arm, moves it against the spring, and stops it`, async () => {
      const began = performance.now();
      const demo = spawn(TAUT, ["demo", "--console", "--network", network], { stdio: ["ignore", "pipe", "pipe"] });
      const ended = new Promise((resolve) => demo.on("exit", resolve));
      let said = "";
      demo.stdout.on("data", (text) => (said += text));
      demo.stderr.on("data", (text) => (said += text));
      const page = await browser().page();
      try {
        const url = await until(() => said.match(/http:\/\/\S+/)?.[0], `an address: ${said}`);
        await page.goto(url);
        const number = async (id) => Number.parseFloat(await page.textContent(id));
        await until(async () => (await number("#age")) >= 0, "a picture");
        console.log(`the first picture after ${((performance.now() - began) / 1000).toFixed(1)} s`);
        // What is drawn is more than one colour, and is no test picture.
        await until(() => page.isHidden("#stale"), "a fresh picture");
        await until(async () => {
          await page.keyboard.press("KeyR");
          return (await page.textContent("#standing")) === "MOVING";
        }, "it may move");
        // A network that stalls lets go, and an old picture: press again.
        await until(async () => {
          await page.keyboard.up("KeyW");
          if ((await page.textContent("#standing")) !== "MOVING") await page.keyboard.press("KeyR");
          await page.keyboard.down("KeyW");
          await new Promise((resolve) => setTimeout(resolve, 500));
          return (await number("#force")) > 1;
        }, "it presses with 1 N");
        await page.keyboard.up("KeyW");
        // What is chosen is what there is in between: 150 ms there and back and a stall of what was fresh, then 1.
        for (const [network, is] of [["far", (trip) => trip > 145], ["direct", (trip) => trip < 20]]) {
          await page.click(`[data-network=${network}]`);
          await until(async () => is(await number("#trip")), `the round trip is that of ${network}`);
          assert.equal(await page.getAttribute(`[data-network=${network}]`, "aria-pressed"), "true");
          assert.equal(await page.locator("#networks [aria-pressed=true]").count(), 1);
          assert.match(await page.textContent("#events"), new RegExp(`the network is ${network} now`));
        }
        await page.keyboard.press("Space");
        await until(async () => (await page.textContent("#standing")).startsWith("STOPPED"), "it is stopped");
        await until(async () => /acknowledged in/.test(await page.textContent("#acknowledged")), "it says so");
      } finally {
        await page.close();
        demo.kill("SIGINT");
      }
      assert.equal(await ended, 0, said);
      assert.match(said, /the network carried \d+ packets to the robot/);
    });
  }
});
