/** Events of the session in words, those that the operator's terminal has. Their fields: docs/json.md. */

const ms = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)} ms`;
const spaced = (name: unknown): string => String(name).replaceAll("_", " ");

/** What a robot that answers says of itself, in the words of the standing. */
const STATES: Record<string, string> = { ENABLED: "MOVING", FAULT: "STOPPED" };
export const standing = (state: string): string => STATES[state] ?? state;

/** Why the robot stopped. */
const CAUSES: Record<string, string> = {
  start: "its start",
  watchdog: "nothing fresh came in time (watchdog)",
  emergency: "the emergency stop",
  local_emergency: "the stop at the robot",
  operator_left: "the operator left",
  link_closed: "the link was closed",
  clock_stepped: "a clock was set",
  turned_apart: "hand and arm are more than a quarter turn apart: turn the hand to how the arm is turned, then resume",
  button_lost: "a button was lost",
  released: "the enabling input was let go",
  device: "its device failed",
  host: "its program was ended",
  restart: "from before its restart",
};

/** Why not. */
const ANSWERS: Record<string, string> = {
  superseded: "a newer stop or answer came before it",
  held_locally: "the stop at the robot itself is pressed: let go of it there",
  latched: "a stop is latched: reset it first",
  clock_unknown: "the clocks are not compared yet",
  too_late: "it came too late",
  path_too_slow: "the way to the robot is too slow for its watchdog",
};
const refused = (what: string, answer: string | null): string => `${what} ${answer === null ? "not answered" : `refused: ${ANSWERS[answer] ?? spaced(answer)}`}`;

const WORDS: Record<string, (event: any) => string | null> = {
  connected: (event) => `connected${event.watchdog_ms ? `; the robot stops ${ms(event.watchdog_ms)} after the last state was made` : ""}`,
  robot: (event) => `the robot is ${standing(event.state)}${event.state === "ENABLED" ? "" : `; its last stop: ${CAUSES[event.cause] ?? spaced(event.cause)}`}`,
  // The robot says so, too.
  resumed: () => null,
  resume_refused: (event) => refused("resume", event.answer),
  reset: () => "the stop is reset",
  reset_refused: (event) => refused("reset", event.answer),
  not_done: (event) => event.error,
  emergency_stopped: (event) => `the robot has acknowledged the emergency stop, after ${ms(event.after_ms)}${event.kept === false ? "; it is NOT KEPT there: it does not survive a restart" : ""}`,
  emergency_stop_unanswered: () => "the emergency stop is not answered, and goes on being sent",
  feedback_lost: () => "no fresh force from the robot",
  no_answer: (event) => `NO ANSWER for ${(event.silence_ms / 1000).toFixed(2)} s: a robot that hears nothing stops`,
  answers_again: (event) => `the robot answers again, after ${(event.silence_ms / 1000).toFixed(2)} s`,
  rate: (event) => `${Math.round(event.hz)} states a second now`,
  refused: (event) => `refused by the robot: ${spaced(event.reason)}`,
  incompatible: (event) => `no session with what answers there: ${event.error}`,
  path_there: (event) => `path ${event.path}, ${event.at}, is there`,
  path_missing: (event) => `path ${event.path}, ${event.at}, is missing: ${event.why}`,
  path_up: (event) => `path ${event.path} can be used`,
  path_down: (event) => `path ${event.path} cannot be used`,
  channel: (event) => (event.open ? `channel ${event.channel} is open` : `channel ${event.channel} stays closed: ${event.why}`),
  hold_lapsed: () => "what is held does not count any more: let go of it, and hold it anew",
  chosen: (event) => `the ${event.of} is ${event.name} now`,
  closed: () => "the link is closed",
};

/** What is worth a line; `null` is not. An event that nobody has put into words comes as it is. */
export function words(event: any): string | null {
  const known = WORDS[event.event];
  if (known) return known(event);
  const { event: name, t_s: _, ...more } = event;
  const values = Object.entries(more).filter(([, value]) => ["string", "number", "boolean"].includes(typeof value));
  const text = values.map(([key, value]) => `${spaced(key)} ${typeof value === "number" ? Number(value.toPrecision(4)) : value}`);
  return [spaced(name), ...text].join(", ");
}
