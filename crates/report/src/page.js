"use strict";
// Without a script the page is whole; with it, tables can be copied and figures tell their values.
// Neither of the two characters that XML would want escaped is used, so that the page stays well-formed.
function offerCopy(place, text) {
  const button = document.createElement("button");
  button.className = "copy";
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    const area = document.createElement("textarea");
    area.value = text();
    try {
      await navigator.clipboard.writeText(area.value);
    } catch {
      // A page opened from a file may not use the clipboard; the old way still works there.
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  place.append(button);
}
function cellTexts(cell) {
  return [cell.textContent.trim().replace(/\s+/g, " "), ...Array(cell.colSpan - 1).fill("")];
}
for (const box of document.querySelectorAll(".table")) {
  const rows = () => [...box.querySelectorAll("tr")];
  offerCopy(box, () => rows().map((row) => [...row.cells].flatMap(cellTexts).join("\t")).join("\n"));
}
for (const box of document.querySelectorAll(".replay")) {
  offerCopy(box, () => box.querySelector("code").textContent);
}

const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
document.body.append(tip);
function valueAt(axis, fraction) {
  const [lo, hi, kind] = axis.split(" ");
  const [from, to] = [Number(lo), Number(hi)];
  const value = kind === "log" ? from * (to / from) ** fraction : from + (to - from) * fraction;
  return String(Number(value.toPrecision(4)));
}
function nearest(line, x) {
  let best = null;
  for (const point of line.points) {
    const distance = Math.abs(point.x - x);
    if (best === null || best.distance > distance) best = { distance, x: point.x, y: point.y };
  }
  return best;
}
for (const plot of document.querySelectorAll(".plot")) {
  const lines = [...plot.querySelectorAll("polyline")];
  if (lines.length === 0) continue;
  const [width, height] = [plot.width.baseVal.value, plot.height.baseVal.value];
  const [xs, ys] = [plot.dataset.x, plot.dataset.y];
  const probe = document.createElementNS("http://www.w3.org/2000/svg", "path");
  probe.setAttribute("class", "probe");
  const hide = () => { tip.hidden = true; probe.remove(); };
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("pointermove", (event) => {
    const box = plot.querySelector(".area").getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * width;
    const found = new Map();
    for (const line of lines) {
      const point = nearest(line, x);
      const known = found.get(line.dataset.name);
      if (!known || known.distance > point.distance) found.set(line.dataset.name, point);
    }
    const texts = [...found].map(([name, point]) => name + ": " + valueAt(ys, 1 - point.y / height));
    tip.textContent = valueAt(xs, x / width) + "\n" + texts.join("\n");
    tip.hidden = false;
    const room = Math.max(0, document.documentElement.clientWidth - tip.offsetWidth - 4);
    tip.style.left = Math.min(event.clientX + 14, room) + "px";
    tip.style.top = event.clientY + 14 + "px";
    probe.setAttribute("d", "M" + x + " 0V" + height);
    plot.append(probe);
  });
}
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
