// The robot in three dimensions, where there are joints, a model and WebGL; and all else as before where there is not.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { inEachBrowser } from "./browsers.mjs";
import { enter, wear } from "./headset.mjs";
import { hold, moving, position, resume, shows } from "./page.mjs";
import { until } from "./session.mjs";

const CHANNELS = `[[channel]]
name = "arm/measured_js"
kind = "telemetry"
`;
/** An arm of as many joints as the simulated one tells, or of others. */
const urdf = (joints) => {
  const bar = `<visual><origin xyz="0.1 0 0"/><geometry><box size="0.2 0.04 0.04"/></geometry></visual>`;
  const link = (name) => `<link name="${name}">${bar}</link>`;
  const joint = (number) => `<joint name="j${number}" type="continuous"><parent link="l${number}"/><child link="l${number + 1}"/><origin xyz="0.2 0 0"/><axis xyz="0 0 1"/></joint>`;
  return `<robot name="bars">${link("l0")}${Array.from({ length: joints }, (_, number) => joint(number) + link(`l${number + 1}`)).join("")}</robot>`;
};

/** A session with such a model, which moves. */
async function modelled(browser, joints, work) {
  const folder = mkdtempSync(join(tmpdir(), "taut-model-"));
  const [channels, model] = [join(folder, "channels.toml"), join(folder, "arm.urdf")];
  writeFileSync(channels, CHANNELS);
  writeFileSync(model, urdf(joints));
  try {
    await moving(browser, work, { robot: ["--channels", channels], more: ["--channels", channels, "--model", model] });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const hasWebGl = (page) => page.evaluate(() => document.createElement("canvas").getContext("webgl2") !== null);
const asked = (page) => page.evaluate(() => performance.getEntriesByType("resource").map(({ name }) => new URL(name)).filter(({ pathname }) => pathname === "/model.js").length);
const drives = (page) =>
  position(page).then((from) => hold(page, "KeyW", async () => Math.abs((await position(page)) - from) > 2, "it moves")).then(() => page.keyboard.up("KeyW"));

async function stops(page) {
  await page.keyboard.press("Space");
  await shows(page, "#standing", /^STOPPED/);
  await shows(page, "#acknowledged", /acknowledged in/);
}

inEachBrowser((browser) => {
  test("the robot is shown as its joints are once somebody asks, and driven and stopped meanwhile", async (context) => {
    const drawing = await browser().drawing();
    try {
      await modelled(drawing, 3, async (page) => {
        if (!(await hasWebGl(page))) return context.skip("this browser has no WebGL here");
        await page.waitForSelector("#in-depth", { state: "visible" });
        assert.equal(await asked(page), 0, "nothing is loaded before");
        await page.click("#in-depth");
        await page.waitForSelector("#model", { state: "visible" });
        assert.equal(await page.isVisible("#pose"), false);
        const picture = () => page.locator("#model").screenshot();
        const before = await picture();
        await drives(page);
        await until(async () => !before.equals(await picture()), "it is drawn elsewhere");
        await stops(page);
        await page.click("#in-depth");
        await page.waitForSelector("#pose", { state: "visible" });
        assert.equal(await asked(page), 1);
        // A browser that loses its graphics goes on without.
        await page.click("#in-depth");
        await page.evaluate(() => document.getElementById("model").getContext("webgl2").getExtension("WEBGL_lose_context").loseContext());
        await page.waitForSelector("#pose", { state: "visible" });
        await shows(page, "#events", /draws no more in three dimensions/);
        assert.equal(await page.isVisible("#in-depth"), false);
      });
    } finally {
      await drawing.end();
    }
  });

  test("a headset shows the robot's hand as it is, also while the page shows the robot", async (context) => {
    const drawing = await browser().drawing();
    try {
      await modelled(drawing, 3, async (page) => {
        if (!(await hasWebGl(page))) return context.skip("this browser has no WebGL here");
        await wear(page);
        await page.reload();
        await shows(page, "#seat", /^in control/);
        await page.click("#in-depth");
        await page.waitForSelector("#model", { state: "visible" });
        await enter(page);
        await page.waitForSelector("#pose", { state: "visible" });
        const hand = () => page.evaluate(() => document.getElementById("pose").toDataURL());
        await resume(page);
        const before = await hand();
        await drives(page);
        assert.notEqual(await hand(), before);
      });
    } finally {
      await drawing.end();
    }
  });

  test("without WebGL, and with a model of other joints, the hand is shown as ever", async () => {
    const session = (joints, prepare, work) =>
      modelled(browser(), joints, async (page) => {
        await page.addInitScript(prepare);
        await page.reload();
        await shows(page, "#seat", /^in control/);
        await resume(page);
        await work(page);
        assert.equal(await page.isVisible("#in-depth"), false);
        assert.ok(await page.isVisible("#pose"));
        await drives(page);
        await stops(page);
        assert.equal(await asked(page), 0);
      });
    const without = () => {
      const getContext = HTMLCanvasElement.prototype.getContext;
      HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
        return kind.startsWith("webgl") ? null : getContext.call(this, kind, ...more);
      };
    };
    await session(3, without, () => wait(500));
    const pretends = () => {
      const getContext = HTMLCanvasElement.prototype.getContext;
      HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
        return kind.startsWith("webgl") ? {} : getContext.call(this, kind, ...more);
      };
    };
    await session(2, pretends, (page) => shows(page, "#events", /the robot tells of 3 joints, and its model has 2/));
  });
});
