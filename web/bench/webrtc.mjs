// Chromium's own WebRTC, in one page: a canvas with a number in its pixels, VP8 of 2 Mbit/s at most, the link, and a video element without a jitter
// buffer (as small a target as it takes).
import { execFileSync } from "node:child_process";
import { until } from "../test/session.mjs";
import { seen } from "./figures.mjs";
import { Glass, now } from "./framebuffer.mjs";
import { Network } from "./network.mjs";

/** In the page: both ends, joined but for where the receiver finds the sender. Gives the sender's port. */
async function begin() {
  const [width, height, block] = [640, 480, 16];
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const drawing = canvas.getContext("2d");
  const ground = Object.assign(document.createElement("canvas"), { width: 1024, height: 1024 });
  const noise = ground.getContext("2d");
  const pixels = noise.createImageData(1024, 1024);
  let state = 7;
  for (let at = 0; at < pixels.data.length; at += 4) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const [x, y] = [(at / 4) % 1024, at >> 12];
    const grey = 128 + 50 * Math.sin(x / 40) + 40 * Math.cos(y / 70) + 30 * Math.sin((x * y) / 900) + (state >>> 30);
    pixels.data.set([grey, grey, 255 - grey, 255], at);
  }
  noise.putImageData(pixels, 0, 0);
  const stream = canvas.captureStream(0);
  const [track] = stream.getVideoTracks();
  track.contentHint = "motion";
  const video = Object.assign(document.createElement("video"), { muted: true, autoplay: true, id: "screen", width, height });
  video.style.cssText = "position:absolute;left:0;top:0";
  document.body.append(video);
  const [sender, receiver] = [new RTCPeerConnection(), new RTCPeerConnection()];
  Object.assign(globalThis, { receiver, made: [], shown: 0 });
  const transceiver = sender.addTransceiver(track, { direction: "sendonly", sendEncodings: [{ maxBitrate: 2_000_000 }] });
  transceiver.setCodecPreferences(RTCRtpReceiver.getCapabilities("video").codecs.filter(({ mimeType }) => mimeType === "video/VP8"));
  const count = () => {
    globalThis.shown++;
    video.requestVideoFrameCallback(count);
  };
  video.requestVideoFrameCallback(count);
  receiver.ontrack = ({ receiver: end, track: came }) => {
    end.jitterBufferTarget = 0;
    video.srcObject = new MediaStream([came]);
  };
  const port = new Promise((resolve) => {
    sender.onicecandidate = ({ candidate }) => {
      if (candidate?.protocol === "udp") resolve(candidate.toJSON());
    };
  });
  const offer = await sender.createOffer();
  await sender.setLocalDescription(offer);
  await receiver.setRemoteDescription(offer);
  const answer = await receiver.createAnswer();
  await receiver.setLocalDescription(answer);
  await sender.setRemoteDescription(answer);
  let number = 0;
  const began = performance.now();
  const draw = () => {
    number++;
    globalThis.made.push([number, performance.timeOrigin + performance.now()]);
    drawing.drawImage(ground, -((2 * number) % 380), -((number >> 1) % 540));
    drawing.fillStyle = "#fff";
    drawing.beginPath();
    drawing.arc(320 + 200 * Math.sin(number * 0.11), 240, 48, 0, 7);
    drawing.fill();
    for (let at = 0; at < 40; at++) {
      for (let row = 0; row < 2; row++) {
        const bit = at < 4 ? at % 2 === 0 : at < 36 && (((row ? ~number : number) >>> (35 - at)) & 1) === 1;
        drawing.fillStyle = bit ? "#fff" : "#000";
        drawing.fillRect(at * block, row * block, block, block);
      }
    }
    track.requestFrame();
    setTimeout(draw, Math.max(0, began + (number * 1000) / 30 - performance.now()));
  };
  draw();
  return port;
}

let hasRoute = false;

/** Chromium asks the kernel for the address by which it would reach others, and has no end of its own without one: packets to that do not leave either. */
function giveRoute() {
  if (!process.env.TAUT_BENCH_NETNS || hasRoute) return;
  hasRoute = true;
  for (const words of ["link add own type veth peer name other", "link set other up", "addr add 10.8.0.1/24 dev own", "link set own up", "route add default via 10.8.0.2"]) {
    execFileSync("ip", words.split(" "));
  }
}

export async function run(settings) {
  giveRoute();
  const glass = await Glass.start();
  const browser = await glass.browser(["--allow-loopback-in-peer-connection", "--disable-features=WebRtcHideLocalIpsWithMdns"]);
  let network;
  try {
    const [page] = browser.pages();
    await page.setContent("<!doctype html><body style='margin:0;background:#000'>");
    const candidate = await page.evaluate(begin);
    const words = candidate.candidate.split(" ");
    const [from, own] = [words[4], words[5]];
    // Of several links it has the first: it knows no paths.
    network = await Network.start({ ...settings, link: settings.link.slice(0, 1) }, `${from}:${own}`, glass.folder);
    const [address, to] = network.address.split(":");
    Object.assign(words, { 4: address, 5: to });
    await page.evaluate((found) => globalThis.receiver.addIceCandidate(found), { ...candidate, candidate: words.join(" ") });
    const began = now();
    await until(() => page.evaluate(() => globalThis.shown > 0), "a picture", 60_000);
    const first = Math.round(now() - began);
    await until(() => page.evaluate(() => globalThis.shown > 30), "a second of pictures");
    await glass.look(page, "#screen", { width: 640, height: 480 });
    await until(() => glass.read() !== null, "a number on the glass");
    const shown = await glass.watch(settings.seconds);
    const made = new Map(await page.evaluate(() => globalThis.made));
    return { ...seen(shown, made, network.began), first_picture_ms: first, link_kbps: network.rate() };
  } finally {
    await browser.close();
    await network?.end();
    glass.end();
  }
}
