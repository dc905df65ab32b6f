// A session with a picture, from the robot's camera to the page of `taut console`.
import { readFileSync } from "node:fs";
import { Session, until } from "../test/session.mjs";
import { Elsewhere } from "./elsewhere.mjs";
import { seen } from "./figures.mjs";
import { Glass, now } from "./framebuffer.mjs";
import { Network } from "./network.mjs";

/** Time of a processor that a process took, ms (proc(5): clock ticks of 10 ms). */
const cpu = ({ process: { pid } }) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return 10 * (Number(fields[11]) + Number(fields[12]));
};

/** The round trip from the page to the gateway and back, ms, as the page says. */
const gateway = async (page) => Number.parseFloat((await page.textContent("#age")).split("gateway")[1]);

export async function run(settings) {
  const glass = await Glass.start();
  const elsewhere = settings.page ? await Elsewhere.start(settings, glass.folder) : null;
  const relay = (robot) => Network.start(elsewhere ? {} : settings, robot, glass.folder);
  const straight = settings.page === "webtransport" ? ["--webtransport", `${elsewhere.address}:0`] : [];
  const listen = settings.link.length > 1 ? "0.0.0.0:0" : "127.0.0.1:0";
  const policy = settings.policy ? ["--policy", settings.policy] : [];
  const session = await Session.start({ transport: settings.transport, listen, robot: ["--video", "front=test", ...policy], console: ["--video", "front", ...straight, ...policy], relay, by: elsewhere?.gateway });
  await elsewhere?.tunnel(new URL(session.url).port);
  const browser = await glass.browser([], elsewhere?.chromium());
  try {
    const [page] = browser.pages();
    await page.addInitScript(() => {
      globalThis.pictures = [];
      addEventListener("picture", ({ detail }) => globalThis.pictures.push([detail.number, detail.made]));
    });
    await page.goto(session.url);
    if (straight.length > 0) await until(async () => /by WebTransport/.test(await page.textContent("#events")), "WebTransport");
    await page.waitForSelector("#screen:visible");
    const began = now();
    await until(() => page.evaluate(() => globalThis.pictures.length > 0), "a picture", 60_000);
    const first = Math.round(now() - began);
    await until(() => page.evaluate(() => globalThis.pictures.length > 30), "a second of pictures");
    await glass.look(page, "#screen", { width: 640, height: 480 });
    await until(() => glass.read() !== null, "a number on the glass");
    const parts = { robot: session.robot, gateway: session.console };
    const before = Object.entries(parts).map(([name, part]) => [name, cpu(part)]);
    const trips = [];
    const asks = setInterval(async () => trips.push(await gateway(page)), 1000);
    const shown = await glass.watch(settings.seconds);
    clearInterval(asks);
    const share = before.map(([name, ms]) => [name, Math.round((cpu(parts[name]) - ms) / 10 / settings.seconds)]);
    const hop = await gateway(page);
    // The page takes a picture for older than it is by the way to the gateway: half of the shortest round trip, which counts where the page is elsewhere.
    const way = elsewhere ? Math.min(...trips) / 2 : 0;
    const made = new Map((await page.evaluate(() => globalThis.pictures)).map(([number, at]) => [number, at + way]));
    const network = elsewhere ? { page: settings.page } : { link_kbps: session.relay.rate() };
    return { ...seen(shown, made, session.relay.began), first_picture_ms: first, ...network, gateway_ms: hop, cpu_percent: Object.fromEntries(share) };
  } finally {
    await browser.close();
    await session.end();
    await elsewhere?.end();
    glass.end();
  }
}
