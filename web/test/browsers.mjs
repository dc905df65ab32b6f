// The browsers that the console is tested in, by one interface: Playwright drives Chromium by its DevTools protocol, and Firefox as it is released
// by WebDriver BiDi. Playwright 1.65 asks for emulation.setMediaFeaturesOverride, which Firefox 153 has not; so it is 1.64.
import { existsSync } from "node:fs";
import { after, before, describe } from "node:test";
import { chromium, firefox } from "playwright-core";

/** A name that DNS has pointed to this machine. */
export const REBOUND = "rebound.example";

const KINDS = [
  {
    name: "Chromium",
    type: chromium,
    options: {
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox", `--host-resolver-rules=MAP ${REBOUND} 127.0.0.1`],
    },
    draws: { args: ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"] },
  },
  {
    name: "Firefox",
    type: firefox,
    // Chromium plays to nobody where there is no sound card.
    needsOutput: true,
    options: {
      executablePath: process.env.FIREFOX ?? "/usr/bin/firefox-esr",
      channel: "moz-firefox",
      firefoxUserPrefs: { "network.dns.localDomains": REBOUND },
    },
  },
];

/** One that runs. */
export class Browser {
  static async start(kind, more = {}) {
    const server = await kind.type.launchServer({ ...kind.options, ...more });
    return Object.assign(new Browser(), { kind, server, inside: await kind.type.connect(server.wsEndpoint()) });
  }

  /** Another of its kind. */
  another(more) {
    return Browser.start(this.kind, more);
  }

  /** Another of its kind that draws in three dimensions, by this machine's processor. */
  drawing() {
    return this.another(this.kind.draws);
  }

  /** Does it play nothing where there is no sound card? */
  get needsOutput() {
    return this.kind.needsOutput ?? false;
  }

  /** A window whose uncaught errors are kept. */
  async page(options = {}) {
    const page = await this.inside.newPage(options);
    page.errors = [];
    page.on("pageerror", (error) => page.errors.push(error.message));
    return page;
  }

  /** As a crash does, at once. */
  crash() {
    this.server.process().kill("SIGKILL");
  }

  async end() {
    await this.server.kill().catch(() => {});
  }
}

/** Makes the same tests of each browser, one after the other; `make` is given what gives the browser that runs. */
export function inEachBrowser(make) {
  for (const kind of KINDS) {
    const skip = existsSync(kind.options.executablePath) ? false : `${kind.options.executablePath} is missing`;
    if (skip) console.log(`skipped: ${kind.name}, ${skip}`);
    describe(kind.name, { skip }, () => {
      let browser;
      before(async () => (browser = await Browser.start(kind)));
      after(() => browser?.end());
      make(() => browser);
    });
  }
}
