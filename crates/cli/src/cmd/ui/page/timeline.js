// Timeline: which job held which GPU when, until when what runs may go on, and the planned starts; the
// same as a table.

import { get } from "./api.js";
import { clean, el, show } from "./dom.js";
import { Gantt } from "./gantt.js";
import { clock, count, elapsed, elementId, milli, now, time } from "./words.js";

const HOUR = 3600000;
const PERIODS = [["15 minutes", HOUR / 4], ["1 hour", HOUR], ["6 hours", 6 * HOUR], ["1 day", 24 * HOUR], ["1 week", 168 * HOUR]];
/** Part of the width for the time to come. */
const AHEAD = 0.3;
/** Most jobs of one request. */
const MAX_IDS = 500;
/** Most rows of the table. */
const MAX_ROWS = 500;

export function timeline(_, query) {
  let data = null;
  const jobs = new Map();
  const period = el("select", { "aria-label": "Period", onchange: () => refresh() }, PERIODS.map(([word, ms]) => el("option", { value: ms }, `last ${word}`)));
  period.value = PERIODS.some(([, ms]) => String(ms) === query.get("period")) ? query.get("period") : String(HOUR);
  const canvas = el("canvas", { role: "img", "aria-describedby": "timeline-table" });
  const tip = el("div", { class: "tip", hidden: true });
  const chart = el("div", { class: "chart" }, canvas, tip);
  const rows = el("div", { class: "scrolls tall" });
  const told = el("p", { class: "faint", role: "status" });
  const gantt = new Gantt(canvas);
  const node = el("div", { class: "timeline", "aria-busy": "true" },
    el("div", { class: "bar" }, el("h1", {}, "Timeline"), period, told), chart,
    el("details", { id: "timeline-table" }, el("summary", {}, "The same as a table"), rows));

  function draw() {
    if (data && node.isConnected) gantt.draw(data);
  }
  const watcher = new ResizeObserver(draw);
  watcher.observe(chart);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", draw);
  const ticks = setInterval(() => {
    if (document.hidden || !data) return;
    const moved = now() - data.now;
    data = { ...data, now: data.now + moved, from: data.from + moved, to: data.to + moved };
    draw();
  }, 2000);

  canvas.addEventListener("mousemove", (event) => point(event));
  canvas.addEventListener("mouseleave", () => { tip.hidden = true; });
  canvas.addEventListener("click", (event) => {
    const box = gantt.at(event.offsetX, event.offsetY);
    if (box) location.hash = `#/job/${(box.bar ?? box.plan).element.job}`;
  });

  function point(event) {
    const box = gantt.at(event.offsetX, event.offsetY);
    tip.hidden = !box;
    canvas.classList.toggle("hit", Boolean(box));
    if (!box) return;
    const { bar, plan } = box;
    tip.textContent = clean(plan ? `${plan.label}, ${plan.predicted ? "predicted" : "by"} ${clock(plan.start)}`
      : `${bar.name} (${bar.id}) on ${bar.node} GPU ${bar.device}: ${clock(bar.from)} to ${bar.to === null ? `now${bar.endsBy ? `, by ${clock(bar.endsBy)} at the latest` : ""}${bar.expectedEnd ? `, predicted ${clock(bar.expectedEnd)}` : ""}` : clock(bar.to)}, ${elapsed((bar.to ?? now()) - bar.from)}`);
    tip.style.left = `${Math.min(event.offsetX + 12, chart.clientWidth - tip.offsetWidth - 4)}px`;
    tip.style.top = `${event.offsetY + 16}px`;
  }

  /** Reads the jobs of bars: those that hold GPUs, and those that are not known yet. */
  async function known(bars) {
    const wanted = [...new Set(bars.filter((bar) => bar.to === null || !jobs.has(bar.element.job)).map((bar) => bar.element.job))];
    for (let at = 0; at < wanted.length; at += MAX_IDS) {
      const list = await get("/v1/jobs", { ids: wanted.slice(at, at + MAX_IDS).join(",") });
      for (const job of list.jobs) jobs.set(job.job, job);
    }
  }

  async function refresh() {
    const length = Number(period.value);
    const from = now() - length;
    const line = await get("/v1/timeline", { since: Math.max(0, Math.round(from)) });
    await known(line.bars);
    const bars = line.bars.map((bar) => {
      const job = jobs.get(bar.element.job);
      const element = bar.to === null ? job?.elements.find((each) => each.element.index === bar.element.index) : undefined;
      const endsBy = element?.ends_by ?? null;
      const expectedEnd = element?.expected_end ?? null;
      return { ...bar, name: clean(job?.name ?? `job ${bar.element.job}`), id: elementId(bar.element, job?.array ?? job?.service), endsBy, expectedEnd };
    });
    const plans = line.reservations.map((plan) => ({ ...plan, label: clean(`${plan.name} (${elementId(plan.element)}): ${milli(plan.gpus)} GPUs`) }));
    const latest = Math.max(line.now + 60000, ...plans.map((plan) => plan.start + 60000), ...bars.map((bar) => (bar.endsBy < 8.64e15 ? bar.endsBy : 0)));
    const ahead = Math.min(latest - line.now, (length * AHEAD) / (1 - AHEAD));
    data = { from: line.now - length, to: line.now + ahead, now: line.now, devices: line.devices, bars, plans };
    const held = new Set(bars.filter((bar) => bar.to === null).map((bar) => `${bar.node} ${bar.device}`)).size;
    told.textContent = `${held} of ${count(line.devices.length, "GPU")} held now, ${count(plans.length, "planned start")}`;
    canvas.setAttribute("aria-label", `Timeline of ${count(line.devices.length, "GPU")}: ${told.textContent}`);
    draw();
    show(rows, table(bars, plans));
  }
  return { title: "Timeline", node, refresh, end: () => { watcher.disconnect(); dark.removeEventListener("change", draw); clearInterval(ticks); } };
}

function table(bars, plans) {
  const newest = [...bars].sort((a, b) => b.from - a.from);
  const link = (element, name, id) => el("th", { scope: "row" }, el("a", { href: `#/job/${element.job}` }, name), ` (${id})`);
  const held = (bar) => el("tr", {}, link(bar.element, bar.name, bar.id), el("td", {}, `${bar.node}:${bar.device}`), el("td", {}, time(bar.from)), el("td", {}, bar.to === null ? ["now", bar.endsBy && [", by ", time(bar.endsBy)], bar.expectedEnd && [", predicted ", time(bar.expectedEnd)]] : time(bar.to)));
  const planned = (plan) => el("tr", {}, link(plan.element, plan.name, elementId(plan.element)), el("td", {}, `planned, ${milli(plan.gpus)} GPUs`), el("td", {}, plan.predicted ? "predicted " : "by ", time(plan.start)), el("td", {}));
  return [el("table", {}, el("thead", {}, el("tr", {}, ["Job", "GPU", "From", "To"].map((each) => el("th", { scope: "col" }, each)))), el("tbody", {}, plans.map(planned), newest.slice(0, MAX_ROWS).map(held))),
    newest.length > MAX_ROWS && el("p", { class: "faint" }, `the newest ${MAX_ROWS} of ${newest.length.toLocaleString("en")}`)];
}
