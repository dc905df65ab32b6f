// What gets to the gateway, and when, beside WebSockets and requests that do as they are told.
import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { build } from "esbuild";

const { outputFiles } = await build({ entryPoints: [new URL("../src/carrier.ts", import.meta.url).pathname], bundle: true, format: "esm", write: false });
const { aside, connect } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

class Socket {
  static OPEN = 1;
  static CLOSING = 2;
  readyState = 0;
  sent = [];
  constructor(_, [, token]) {
    this.token = token;
    sockets.push(this);
  }
  open() {
    this.readyState = 1;
    this.onopen();
  }
  close() {
    if (this.readyState >= 2) return;
    this.readyState = 3;
    this.onclose?.();
  }
  send(bytes) {
    this.sent.push(bytes[0]);
  }
}

let sockets;
/** How the gateway answers requests: `null` is that it speaks nowhere else. */
let answer;
let asked;
beforeEach(() => {
  [sockets, asked, answer] = [[], 0, () => Promise.reject(new TypeError("refused"))];
  Object.assign(globalThis, {
    location: { host: "localhost:1" },
    WebSocket: Socket,
    fetch: (_, { signal } = {}) => {
      asked += 1;
      return new Promise((resolve, reject) => {
        signal?.addEventListener("abort", () => reject(signal.reason));
        Promise.resolve(answer()).then((value) => resolve({ json: async () => value }), reject);
      });
    },
  });
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
});

/** What has happened is told. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

/** What a page is told of its way. */
function listener() {
  const told = [];
  return { told, open: () => told.push("open"), message: () => {}, close: () => told.push("close") };
}

test("no WebSocket is opened to a gateway that answers no request, or none within 3 s", async () => {
  const refused = listener();
  void connect("x", refused);
  await settle();
  assert.deepEqual([refused.told, sockets.length], [["close"], 0]);

  answer = () => new Promise(() => {});
  const swallowed = listener();
  void connect("x", swallowed);
  mock.timers.tick(2900);
  await settle();
  assert.deepEqual(swallowed.told, []);
  mock.timers.tick(200);
  await settle();
  assert.deepEqual([swallowed.told, sockets.length], [["close"], 0]);

  answer = () => null;
  const there = listener();
  void connect("x", there);
  await settle();
  sockets[0].open();
  assert.deepEqual(there.told, ["open"]);
});

test("a stop by another way is one WebSocket until the gateway answers, and then there at once", async () => {
  const { send } = aside(() => "x", () => {});
  for (let again = 0; again < 20; again++) {
    send([again]);
    await settle();
    sockets.at(-1).close();
    mock.timers.tick(100);
  }
  assert.deepEqual([sockets.length, asked], [1, 19]);
  answer = () => null;
  send([20]);
  await settle();
  assert.equal(sockets.length, 2);
  sockets[1].open();
  assert.deepEqual(sockets[1].sent, [20]);
});

test("a stop that was acknowledged meanwhile goes no other way any more", async () => {
  const { send, over } = aside(() => "x", () => {});
  send([1]);
  over();
  assert.equal(sockets[0].readyState, 3);
  // As a browser does that had opened it by then.
  sockets[0].onopen();
  assert.deepEqual(sockets[0].sent, []);
  // Nor once the gateway answers.
  send([2]);
  sockets[1].close();
  answer = () => null;
  send([2]);
  over();
  await settle();
  assert.equal(sockets.length, 2);
  send([3]);
  sockets[2].open();
  assert.deepEqual(sockets[2].sent, [3]);
});

test("a stop goes another way by the token that the page's address has by then", () => {
  let token = "x";
  const { send, over } = aside(() => token, () => {});
  send([1]);
  over();
  token = "y";
  send([2]);
  assert.deepEqual(sockets.map((socket) => socket.token), ["x", "y"]);
});

test("a stop goes again by another way that is open, as often as it is said", () => {
  const { send } = aside(() => "x", () => {});
  assert.equal(send([1]), false);
  sockets[0].open();
  assert.equal(send([2]), true);
  assert.equal(send([3]), true);
  assert.deepEqual(sockets[0].sent, [1, 2, 3]);
});
