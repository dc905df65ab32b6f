// A session with a picture, from the robot's camera to the page of `taut console`.
import { readFileSync } from "node:fs";
import { Session, until } from "../test/session.mjs";
import { seen } from "./figures.mjs";
import { Glass, now } from "./framebuffer.mjs";
import { Network } from "./network.mjs";

/** Time of a processor that a process took, ms (proc(5): clock ticks of 10 ms). */
const cpu = ({ process: { pid } }) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return 10 * (Number(fields[11]) + Number(fields[12]));
};

export async function run(settings) {
  const glass = await Glass.start();
  const relay = (robot) => Network.start(settings, robot, glass.folder);
  const listen = settings.link.length > 1 ? "0.0.0.0:0" : "127.0.0.1:0";
  const policy = settings.policy ? ["--policy", settings.policy] : [];
  const session = await Session.start({ transport: settings.transport, listen, robot: ["--video", "front=test", ...policy], console: ["--video", "front", ...policy], relay });
  const browser = await glass.browser();
  try {
    const [page] = browser.pages();
    await page.addInitScript(() => {
      globalThis.pictures = [];
      addEventListener("picture", ({ detail }) => globalThis.pictures.push([detail.number, detail.made]));
    });
    await page.goto(session.url);
    await page.waitForSelector("#screen:visible");
    const began = now();
    await until(() => page.evaluate(() => globalThis.pictures.length > 0), "a picture", 60_000);
    const first = Math.round(now() - began);
    await until(() => page.evaluate(() => globalThis.pictures.length > 30), "a second of pictures");
    await glass.look(page, "#screen", { width: 640, height: 480 });
    await until(() => glass.read() !== null, "a number on the glass");
    const parts = { robot: session.robot, gateway: session.console };
    const before = Object.entries(parts).map(([name, part]) => [name, cpu(part)]);
    const shown = await glass.watch(settings.seconds);
    const share = before.map(([name, ms]) => [name, Math.round((cpu(parts[name]) - ms) / 10 / settings.seconds)]);
    const hop = Number.parseFloat((await page.textContent("#age")).split("gateway")[1]);
    const made = new Map(await page.evaluate(() => globalThis.pictures));
    return { ...seen(shown, made, session.relay.began), first_picture_ms: first, link_kbps: session.relay.rate(), gateway_ms: hop, cpu_percent: Object.fromEntries(share) };
  } finally {
    await browser.close();
    await session.end();
    glass.end();
  }
}
