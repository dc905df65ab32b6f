// From a frame to the glass: the number in the pixels of a camera, read from the framebuffer of an X server once a millisecond.
//
//     TAUT=target/release/taut node bench/glass.mjs [--runs 5] [--seconds 20] [--scenario FILE.toml [--link NAME | --link A --link B]]
//                                                   [--transport udp] [--policy all] [--of taut,webrtc] [--page tunnel|webtransport]
//
// Prints one line of JSON for each run, and their medians: ms from when a frame was made until it is on the glass, the age of the picture shown
// sampled every millisecond, the share of frames that were never seen and the longest time of which none was, the share of time in which a picture stood
// for more than 100 ms and the longest that ones did, with when after the network's begin that was, ms from the page's begin to its first picture, how long the gateway held a picture, and how much of
// a core each process of taut took. With a scenario, its link is between robot and console; two links are two paths, each behind a relay in a network
// namespace of its own. With `--page` (as root) it is between gateway and browser, robot and gateway on one host: the page is served through a tunnel over TCP,
// and speaks through that, or by WebTransport. `webrtc` is Chromium's own, one page to itself over the same link, in turn with taut.
//
// As root it runs in a network namespace of its own.
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { setTimeout as wait } from "node:timers/promises";
import { isolate } from "./network.mjs";
import { medians } from "./figures.mjs";

isolate();
const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "5" },
    seconds: { type: "string", default: "20" },
    scenario: { type: "string" },
    link: { type: "string", multiple: true, default: [] },
    transport: { type: "string", default: "udp" },
    policy: { type: "string" },
    of: { type: "string", default: "taut" },
    page: { type: "string" },
  },
});
if (values.scenario) values.scenario = resolve(values.scenario);
const systems = {
  taut: (await import("./console.mjs")).run,
  webrtc: (await import("./webrtc.mjs")).run,
};
const results = {};
for (let count = 0; count < Number(values.runs); count++) {
  for (const of of values.of.split(",")) {
    const one = await systems[of]({ ...values, seconds: Number(values.seconds) });
    (results[of] ??= []).push(one);
    console.log(JSON.stringify({ of, ...one }));
    await wait(500);
  }
}
for (const [of, all] of Object.entries(results)) {
  console.log(JSON.stringify({ of, medians: medians(all), runs: all.length, scenario: values.scenario ?? null, link: values.link }));
}
