// Drawing of devices over time on a canvas: a line for each device, a bar for each allocation, a lighter bar
// up to the time limit of what runs, and the planned starts below. Draws only; the view decides what.

import { colour } from "./colours.js";

/** Height of a line in pixels, by the number of devices. */
const lineHeight = (devices) => (devices <= 64 ? 20 : devices <= 256 ? 12 : devices <= 1024 ? 6 : 3);
const PLAN_HEIGHT = 20;
const AXIS = 26;
/** Steps of the axis in milliseconds. */
const STEPS = [10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, 43200, 86400, 604800, 2592000].map((secs) => secs * 1000);

const pad = (number) => String(number).padStart(2, "0");

function tickWord(ms, step) {
  const at = new Date(ms);
  if (step >= 86400000) return at.toLocaleDateString(undefined, { month: "short", day: "numeric" });
  return `${pad(at.getHours())}:${pad(at.getMinutes())}${step < 60000 ? `:${pad(at.getSeconds())}` : ""}`;
}

/** Returns the first tick at or after an instant, on whole hours and days of the browser's zone. */
function firstTick(from, step) {
  const shift = new Date(from).getTimezoneOffset() * 60000;
  return Math.ceil((from - shift) / step) * step + shift;
}

/** The canvas. `draw` shows `{ from, to, now, devices, bars, plans }`; `at` says what is below a point. */
export class Gantt {
  constructor(canvas) {
    this.canvas = canvas;
    this.boxes = [];
  }

  draw(data) {
    const { canvas } = this;
    const style = getComputedStyle(document.documentElement);
    const ink = (name) => style.getPropertyValue(name).trim();
    const { from, to, devices, bars, plans, now } = data;
    const width = canvas.parentElement.clientWidth;
    const line = lineHeight(devices.length);
    const names = width < 600 ? 64 : 130;
    const height = AXIS + devices.length * line + (plans.length ? 8 + Math.min(plans.length, 12) * PLAN_HEIGHT : 0) + 4;
    const ratio = Math.min(devicePixelRatio || 1, 16000 / height);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const x = (ms) => names + ((ms - from) / (to - from)) * (width - names);
    this.boxes = [];
    this.#axis(pen, { x, from, to, width, height, names, ink });
    devices.forEach(([node, index], at) => {
      const y = AXIS + at * line;
      const isFirst = at === 0 || devices[at - 1][0] !== node;
      if (isFirst) { pen.strokeStyle = ink("--line"); pen.beginPath(); pen.moveTo(0, y); pen.lineTo(width, y); pen.stroke(); }
      pen.fillStyle = ink("--faint");
      if (line >= 12) pen.fillText(width < 600 || !isFirst ? `GPU ${index}` : `${node} ${index}`.slice(0, 18), 0, y + line / 2, names - 6);
      else if (isFirst) pen.fillText(node.slice(0, 18), 0, y + 6, names - 6);
    });
    const lineOf = new Map(devices.map(([node, index], at) => [`${node} ${index}`, AXIS + at * line]));
    for (const bar of bars) {
      const y = lineOf.get(`${bar.node} ${bar.device}`);
      if (y === undefined) continue;
      const left = Math.max(names, x(bar.from));
      const right = Math.min(width, x(bar.to ?? now));
      pen.fillStyle = ink(colour(bar.element.job));
      if (bar.to === null && bar.endsBy > now) {
        pen.globalAlpha = 0.3;
        pen.fillRect(left, y + 1, Math.min(width, x(bar.endsBy)) - left, line - 2);
        pen.globalAlpha = 1;
      }
      if (right <= names) continue;
      pen.fillRect(left, y + 1, Math.max(1, right - left - 0.5), Math.max(1, line - 2));
      this.#label(pen, bar.name, left, y + line / 2, right - left, line, ink("--on-job"));
      this.boxes.push({ left, right: Math.max(right, bar.to === null && bar.endsBy > now ? Math.min(width, x(bar.endsBy)) : left + 3), top: y, bottom: y + line, bar });
    }
    this.#plans(pen, { plans, x, width, names, top: AXIS + devices.length * line + 8, ink });
    const at = x(now);
    pen.strokeStyle = ink("--ink");
    pen.beginPath(); pen.moveTo(at, AXIS - 6); pen.lineTo(at, height); pen.stroke();
  }

  #axis(pen, { x, from, to, width, height, names, ink }) {
    const step = STEPS.find((each) => ((width - names) * each) / (to - from) >= 70) ?? STEPS.at(-1);
    pen.fillStyle = ink("--faint");
    pen.strokeStyle = ink("--line");
    pen.textAlign = "center";
    for (let at = firstTick(from, step); at < to; at += step) {
      pen.beginPath(); pen.moveTo(x(at), AXIS - 6); pen.lineTo(x(at), height); pen.stroke();
      pen.fillText(tickWord(at, step), x(at), 9);
    }
    pen.textAlign = "left";
  }

  #label(pen, text, left, middle, room, line, ink) {
    if (line < 12 || room < 26) return;
    pen.save();
    pen.beginPath(); pen.rect(left, middle - line / 2, room - 4, line); pen.clip();
    pen.fillStyle = ink;
    pen.fillText(text, left + 4, middle);
    pen.restore();
  }

  #plans(pen, { plans, x, width, names, top, ink }) {
    plans.slice(0, 12).forEach((plan, at) => {
      const y = top + at * PLAN_HEIGHT;
      const left = Math.min(width - 12, Math.max(names, x(plan.start)));
      const right = width;
      pen.fillStyle = ink("--faint");
      pen.fillText("planned", 0, y + PLAN_HEIGHT / 2, names - 6);
      pen.strokeStyle = ink(colour(plan.element.job));
      pen.setLineDash([4, 3]);
      pen.strokeRect(left + 0.5, y + 2.5, Math.max(8, right - left - 2), PLAN_HEIGHT - 5);
      pen.setLineDash([]);
      // Without room for it, its label stands before it.
      const room = pen.measureText(plan.label).width + 10;
      const isRoomy = right - left > room;
      this.#label(pen, plan.label, isRoomy ? left : Math.max(names, left - room), y + PLAN_HEIGHT / 2, room, PLAN_HEIGHT, ink("--ink"));
      this.boxes.push({ left: isRoomy ? left : Math.max(names, left - room), right, top: y, bottom: y + PLAN_HEIGHT, plan });
    });
  }

  /** Returns what is drawn at a point of the canvas, the last drawn first. */
  at(left, top) {
    return this.boxes.findLast((box) => left >= box.left && left <= box.right && top >= box.top && top < box.bottom);
  }
}
