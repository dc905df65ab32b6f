// What was seen, in figures.

const quantile = (sorted, at) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * at))];
const tenth = (number) => (Number.isFinite(number) ? Number(number.toFixed(1)) : null);

/** p50, p95 and p99 of a list. */
export function summary(list) {
  const sorted = [...list].sort((a, b) => a - b);
  return Object.fromEntries([["p50", 0.5], ["p95", 0.95], ["p99", 0.99]].map(([name, at]) => [name, tenth(quantile(sorted, at))]));
}

/** A picture that stands for longer than this, ms, is a person's standstill: three periods of 30 a second. */
const STANDS = 100;

/** Of pairs of a number and when it was on the glass, and of when each was made, by a clock by which the network began at `began`; so many a second. */
export function seen(shown, made, began, rate = 30) {
  const first = new Map();
  for (const [number, at] of shown) if (number !== null && !first.has(number)) first.set(number, at);
  const numbers = [...first.keys()].filter((number) => made.has(number)).sort((a, b) => a - b).slice(1);
  const delays = numbers.map((number) => first.get(number) - made.get(number));
  const ages = shown.filter(([number]) => made.has(number)).map(([number, at]) => at - made.get(number));
  const wanted = numbers.at(-1) - numbers[0] + 1;
  const gap = Math.max(...numbers.slice(1).map((number, place) => number - numbers[place] - 1));
  const changes = [shown[0][1], ...numbers.map((number) => first.get(number)), shown.at(-1)[1]].sort((a, b) => a - b);
  const stands = changes.slice(1).map((at, place) => ({ at_s: tenth((changes[place] - began) / 1000), ms: Math.round(at - changes[place]) }));
  const frozen = stands.reduce((sum, { ms }) => sum + Math.max(0, ms - STANDS), 0);
  const longest = stands.sort((a, b) => b.ms - a.ms).slice(0, 5);
  return {
    frame_to_glass_ms: summary(delays),
    age_ms: summary(ages),
    missing: Number((1 - numbers.length / wanted).toFixed(4)),
    longest_gap_ms: tenth((1000 * gap) / rate),
    frozen_percent: Number(((100 * frozen) / (shown.at(-1)[1] - shown[0][1])).toFixed(2)),
    longest_stand_ms: longest[0].ms,
    stands: longest,
    frames: wanted,
  };
}

/** Key by key: the medians of numbers, what is no number in all of them left out. */
export function medians(results) {
  const of = {};
  for (const key of Object.keys(results[0])) {
    const values = results.map((one) => one[key]).filter((value) => value !== null && value !== undefined);
    if (values.length === 0) continue;
    if (Array.isArray(values[0])) continue;
    if (typeof values[0] === "object") of[key] = medians(values);
    else if (typeof values[0] === "number") of[key] = values.sort((a, b) => a - b)[values.length >> 1];
  }
  return of;
}
