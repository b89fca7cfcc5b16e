// Output of a task, as it is written. It is data of users: escape sequences are left out, other control
// characters are shown as `?`, and only the newest lines are kept.

import { stream } from "./api.js";
import { cleanLines, el } from "./dom.js";

/** Lines that are fetched from the past, and lines that are kept. */
const TAIL = 1000;
const MAX_LINES = 5000;
/** Longest line, in characters; the rest of it is left out. */
const MAX_LINE = 4000;

// Sequences of terminals (ECMA-48): CSI, OSC with its end, and those of two characters.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;

/** Returns a line as a terminal shows it at last: a progress bar writes over itself. */
function last(line) {
  const plain = line.replace(ESCAPES, "").replace(/\r+$/, "");
  return cleanLines(plain.slice(plain.lastIndexOf("\r") + 1)).slice(0, MAX_LINE);
}

// Addresses of this machine, such as those of notebooks and dashboards: no other site becomes a link.
const LOCAL = /(https?:\/\/(?:127\.0\.0\.1|localhost)(?::\d+)?(?:\/[\w\-.~/?&=%+#]*)?)/;

/**
 * The output of a job; `follow` reads that of a task until another one is followed. `onlink(event, address)` is called
 * for a click on an address of this machine, `onfound(address)` for the first one in the output.
 */
export class Output {
  constructor({ onlink, onfound }) {
    Object.assign(this, { onlink, onfound });
    this.lines = el("pre", { class: "output", tabindex: 0, role: "log", "aria-label": "Output", "aria-live": "off" });
    this.told = el("p", { class: "faint", role: "status" });
    this.node = el("div", {}, this.lines, this.told);
  }

  /** Ends reading. */
  end() {
    this.reading?.abort();
  }

  /** Reads the output of a task from its last lines on, and goes on while it runs. */
  async follow(job, query) {
    this.end();
    const reading = new AbortController();
    this.reading = reading;
    this.lines.replaceChildren();
    this.told.textContent = "";
    this.rest = "";
    this.waiting = [];
    this.hasText = false;
    this.hasLink = false;
    try {
      await stream(`/v1/jobs/${job}/logs`, { ...query, tail: TAIL, follow: true }, reading.signal, (text) => this.#take(text));
      if (this.rest) { this.waiting.push(this.rest); this.rest = ""; }
      this.#soon();
      this.told.textContent = this.hasText ? "end of the output" : "it wrote nothing";
    } catch (error) {
      if (reading.signal.aborted) return;
      this.told.textContent = [error.message, ...(error.hints ?? [])].join("; ");
    }
  }

  /** Returns a line as an element. Of an unfinished one the address may be, too. */
  #line(line, isWhole) {
    const parts = last(line).split(LOCAL).map((part, nth) => {
      if (nth % 2 === 0) return document.createTextNode(part);
      if (isWhole && !this.hasLink) { this.hasLink = true; this.onfound(part); }
      return el("a", { href: part, target: "_blank", rel: "noopener noreferrer", onclick: (event) => this.onlink(event, part) }, part);
    });
    return el("span", { class: "line" }, parts, document.createTextNode("\n"));
  }

  #take(text) {
    this.hasText = true;
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop();
    // A line without an end must not grow for ever; of a progress bar the newest part is kept.
    if (this.rest.length > 4 * MAX_LINE) this.rest = this.rest.slice(-2 * MAX_LINE);
    this.waiting.push(...lines);
    if (this.waiting.length > MAX_LINES) this.waiting.splice(0, this.waiting.length - MAX_LINES);
    this.#soon();
  }

  #soon() {
    this.frame ??= requestAnimationFrame(() => { this.frame = undefined; this.#paint(); });
  }

  #paint() {
    const host = this.lines;
    const isAtEnd = host.scrollHeight - host.scrollTop - host.clientHeight < 30;
    this.open?.remove();
    host.append(...this.waiting.map((line) => this.#line(line, true)));
    this.waiting = [];
    this.open = this.rest ? this.#line(this.rest, false) : null;
    if (this.open) host.append(this.open);
    const over = host.childElementCount - MAX_LINES;
    for (let at = 0; at < over; at += 1) host.firstElementChild.remove();
    if (isAtEnd) host.scrollTop = host.scrollHeight;
  }
}
