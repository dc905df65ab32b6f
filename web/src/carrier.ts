/**
 * What messages get to the gateway and back by: a WebSocket to where this page is from, or WebTransport straight to the gateway where it offers that and is
 * reached. What goes by what there: `crates/console/src/webtransport.rs`.
 */

import { isHeld, isOfStop, needsAnother } from "./wire";

export interface Carrier {
  /** False: it does not go there any more. */
  send(message: Uint8Array): boolean;
}

/** `open`: messages get there now. `close`: none do any more, or none did; nothing is told after that. */
export interface Listener {
  open(carrier: Carrier, what: string | null): void;
  message(bytes: Uint8Array): void;
  close(): void;
}

/** Where the gateway may be spoken with besides, and by which certificate it is known there. */
interface Elsewhere {
  url: string;
  certificate_sha256: number[];
}

/** A way that is not there after so long, ms, is closed to what goes over it; and a WebSocket by which nothing came for so long. */
const PATIENCE = 3000;
/** So often it is looked whether anything came meanwhile: a page that was held up itself has missed looks, but no messages. */
const LOOKS = 6;
/** What is held and waits for longer, ms, is said anew by then. */
const OLD = 100;

export async function connect(token: string, listener: Listener): Promise<void> {
  const elsewhere = await ask();
  if (elsewhere === undefined) return listener.close();
  if (!elsewhere) return socket(token, listener, null);
  const { host } = new URL(elsewhere.url);
  const way = await reach(elsewhere, token).catch(() => null);
  if (!way) return socket(token, listener, `WebTransport to ${host} does not get through: this page speaks with the gateway by a WebSocket`);
  return streams(way, listener, `this page speaks with ${host} by WebTransport`);
}

/**
 * Where else the gateway may be spoken with; `undefined`: it does not answer. No WebSocket is opened to one that does not: after some that failed a browser
 * holds up the next ones, for up to 5 s (Chromium) and a minute (Firefox), also once the gateway is back. It holds up no requests.
 */
async function ask(): Promise<Elsewhere | null | undefined> {
  const patience = new AbortController();
  const late = setTimeout(() => patience.abort(), PATIENCE);
  try {
    return await (await fetch("/elsewhere", { signal: patience.signal })).json();
  } catch {
    return undefined;
  } finally {
    clearTimeout(late);
  }
}

function webSocket(path: string, token: string): WebSocket {
  const socket = new WebSocket(`ws://${location.host}${path}`, ["taut.console.1", token]);
  socket.binaryType = "arraybuffer";
  return socket;
}

function socket(token: string, listener: Listener, what: string | null): void {
  const socket = webSocket("/session", token);
  let unheard = 0;
  // While it lives the answers to pings come; of one that died without a word nobody else tells.
  const watch = setInterval(() => ++unheard > LOOKS && close(), PATIENCE / LOOKS);
  const close = (): void => {
    clearInterval(watch);
    // A browser waits up to a minute for the other end to close it, too.
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    listener.close();
  };
  const send = (message: Uint8Array): boolean => {
    if (socket.readyState !== WebSocket.OPEN) return false;
    socket.send(message as Uint8Array<ArrayBuffer>);
    return true;
  };
  socket.onopen = () => listener.open({ send }, what);
  socket.onmessage = ({ data }) => {
    unheard = 0;
    listener.message(new Uint8Array(data as ArrayBuffer));
  };
  socket.onclose = close;
}

/** A connection that is there and let this page in, and the stream of what has to get there. */
interface Way {
  transport: WebTransport;
  control: WebTransportBidirectionalStream;
}

async function reach({ url, certificate_sha256 }: Elsewhere, token: string): Promise<Way> {
  const value = new Uint8Array(certificate_sha256);
  const transport = new WebTransport(url + token, { serverCertificateHashes: [{ algorithm: "sha-256", value }], congestionControl: "low-latency" });
  // Whoever waits for something else of it is told as well.
  transport.closed.catch(() => {});
  const late = setTimeout(() => transport.close(), PATIENCE);
  try {
    await transport.ready;
    return { transport, control: await transport.createBidirectionalStream() };
  } finally {
    clearTimeout(late);
  }
}

async function streams({ transport, control }: Way, listener: Listener, what: string): Promise<void> {
  const [said, held] = [control.writable.getWriter(), transport.datagrams.writable.getWriter()];
  transport.datagrams.outgoingMaxAge = OLD;
  let [number, isOpen] = [0, true];
  const send = (message: Uint8Array): boolean => {
    const sent = isHeld(message) ? held.write(behind(++number, message)) : said.write(behind(message.length, message));
    // That it does not get there is told by the end of all of it.
    sent.catch(() => {});
    return isOpen;
  };
  listener.open({ send }, what);
  // What one message does wrong, as by a WebSocket, ends nothing.
  const give = (message: Uint8Array): void => {
    try {
      listener.message(message);
    } catch (error) {
      reportError(error);
    }
  };
  // A page that hears nothing more does not drive either.
  each(control.readable, messages(give)).catch(() => {}).finally(() => transport.close());
  each(transport.datagrams.readable, give).catch(() => {});
  each(transport.incomingUnidirectionalStreams, inOrder(give)).catch(() => {});
  await transport.closed.catch(() => {});
  isOpen = false;
  listener.close();
}

/** `over`: the stop is acknowledged, whatever way it went: it is not said here any more. */
export interface Aside {
  /** False: it goes there once there is a way. */
  send(stop: Uint8Array): boolean;
  over(): void;
}

/**
 * Sends a stop by a WebSocket for that alone, where this page is from: a way that died without a word is noticed after seconds only, and one that is not there
 * yet takes as long. Of what the gateway tells there, what became of stops is all that is news here.
 */
export function aside(token: () => string, tell: (message: Uint8Array) => void): Aside {
  /** The newest that nobody has acknowledged. */
  let stop: Uint8Array | null = null;
  let other: WebSocket | null = null;
  let [hasFailed, isAsking] = [false, false];
  const open = (): void => {
    const socket = (other = webSocket("/stop", token()));
    const late = setTimeout(() => socket.close(), PATIENCE);
    hasFailed = true;
    socket.onopen = () => {
      hasFailed = false;
      if (stop) socket.send(stop as Uint8Array<ArrayBuffer>);
    };
    socket.onclose = () => clearTimeout(late);
    socket.onmessage = ({ data }) => {
      const bytes = new Uint8Array(data as ArrayBuffer);
      if (isOfStop(bytes)) tell(bytes);
    };
  };
  return {
    send(message) {
      stop = message;
      if (other?.readyState === WebSocket.OPEN) {
        // What the gateway said of the one before may not count any more.
        other.send(stop as Uint8Array<ArrayBuffer>);
        return true;
      }
      if (isAsking || (other && other.readyState < WebSocket.CLOSING)) return false;
      // The first at once; after one that failed, when the gateway answers.
      if (!hasFailed) {
        open();
        return false;
      }
      isAsking = true;
      void ask().then((answer) => {
        isAsking = false;
        if (stop && answer !== undefined) open();
      });
      return false;
    },
    over() {
      stop = null;
      hasFailed = false;
      other?.close();
    },
  };
}

/** A message behind a number (u32). */
function behind(number: number, message: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(4 + message.length);
  new DataView(bytes.buffer).setUint32(0, number);
  bytes.set(message, 4);
  return bytes;
}

async function each<T>(stream: ReadableStream<T>, take: (one: T) => void): Promise<void> {
  const reader = stream.getReader();
  for (let next; !(next = await reader.read()).done; ) take(next.value);
}

/** Takes streams as they begin, and gives their messages: a picture that needs the one before it behind that, or once that is taken back. */
function inOrder(give: (message: Uint8Array) => void): (stream: ReadableStream<Uint8Array>) => void {
  let last = Promise.resolve();
  return (stream) => {
    const before = last;
    last = new Promise((over) => {
      const take = (message: Uint8Array): void => {
        if (needsAnother(message)) return void before.then(() => give(message)).then(over);
        give(message);
        over();
      };
      each(stream, messages(take)).catch(() => before.then(over));
    });
  };
}

/** Takes the bytes of a stream as they come, and gives its messages, each behind its length there (u32). */
export function messages(give: (message: Uint8Array) => void): (bytes: Uint8Array) => void {
  let rest = new Uint8Array(0);
  return (bytes) => {
    const all = new Uint8Array(rest.length + bytes.length);
    all.set(rest);
    all.set(bytes, rest.length);
    let at = 0;
    while (all.length >= at + 4) {
      const end = at + 4 + new DataView(all.buffer).getUint32(at);
      if (end > all.length) break;
      give(all.slice(at + 4, end));
      at = end;
    }
    rest = all.subarray(at);
  };
}
