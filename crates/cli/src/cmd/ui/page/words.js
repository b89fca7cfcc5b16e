// Words for times, lengths of time, amounts and states, as the commands have them; times in the zone of
// the browser, with the full instant as their title.

import { el } from "./dom.js";

/** States in the order of the lists. */
export const STATES = ["running", "starting", "stopping", "suspended", "pending", "held", "done", "failed", "cancelled", "preempted", "unknown"];

/** States after which nothing changes. */
export const FINAL = new Set(["done", "failed", "cancelled", "preempted", "unknown"]);

/** Instants from here on mean never. */
const NEVER = 8.64e15;

/** Returns a state with its sign and colour. */
export function state(word) {
  return el("span", { class: `state s-${word}` }, word);
}

/** Returns a length in milliseconds: `12s`, `3m20s`, `2h5m`, `3d4h`. */
export function elapsed(ms) {
  const secs = Math.max(0, Math.round(ms / 1000));
  const parts = [[Math.floor(secs / 86400), "d"], [Math.floor(secs / 3600) % 24, "h"], [Math.floor(secs / 60) % 60, "m"], [secs % 60, "s"]];
  const first = parts.findIndex(([amount]) => amount > 0);
  if (first < 0) return "0s";
  return parts.slice(first, first + 2).filter(([amount]) => amount > 0).map(([amount, unit]) => amount + unit).join("");
}

const pad = (number) => String(number).padStart(2, "0");

/** Returns an instant as a time of day, with the day unless it is today. */
export function clock(ms) {
  if (ms >= NEVER) return "never";
  const at = new Date(ms);
  const day = at.toDateString() === new Date().toDateString() ? "" : `${at.toLocaleDateString(undefined, { month: "short", day: "numeric" })} `;
  return `${day}${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** Returns the element of an instant; empty without one. */
export function time(ms) {
  if (ms === null || ms === undefined) return null;
  if (ms >= NEVER) return "never";
  return el("time", { datetime: new Date(ms).toISOString(), title: new Date(ms).toString() }, clock(ms));
}

/** Returns the planned start of a job: the latest one, or a predicted one that may come later. */
export function plannedStart(job) {
  return [job.eta_predicted ? "predicted " : "by ", time(job.eta)];
}

let offset = 0;

/** Sets the clock to that of the server, so that lengths do not depend on this machine's. */
export function setNow(ms) {
  offset = ms - Date.now();
}

/** Returns the present instant of the server. */
export function now() {
  return Date.now() + offset;
}

/** Returns the time since an instant; it goes on by itself unless `until` is given. */
export function since(from, until) {
  if (from === null || from === undefined) return null;
  if (until !== null && until !== undefined) return elapsed(until - from);
  return el("span", { "data-since": from }, elapsed(now() - from));
}

setInterval(() => {
  if (document.hidden) return;
  for (const each of document.querySelectorAll("[data-since]")) each.textContent = elapsed(now() - Number(each.dataset.since));
}, 1000);

/** Returns GPUs in thousandths as a number: `5`, `0.5`. */
export function milli(amount) {
  return String(Math.round(amount) / 1000);
}

/** Returns a number with its noun: `1 GPU`, `3 GPUs`. */
export function count(number, noun) {
  return `${Number(number).toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** Returns bytes: `1.5 GiB`. */
export function bytes(amount) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  let left = amount;
  while (left >= 1024 && at < units.length - 1) { left /= 1024; at += 1; }
  return `${left >= 100 || at === 0 ? Math.round(left) : left.toFixed(1)} ${units[at]}`;
}

/** Returns a job element's id as the commands take it: `3`, `3[7]`. */
export function elementId(id, isArray) {
  return isArray || id.index > 0 ? `${id.job}[${id.index}]` : `${id.job}`;
}
