// Queues: quota, what is in use and borrowed, shares, and what waits.

import { get } from "./api.js";
import { el, show } from "./dom.js";
import { count, elapsed, milli, time } from "./words.js";

export function queues() {
  const host = el("div", { class: "scrolls" });
  const node = el("div", { class: "queues", "aria-busy": "true" }, el("h1", {}, "Queues"), host);
  async function refresh() {
    show(host, table((await get("/v1/queues")).queues));
  }
  return { title: "Queues", node, refresh };
}

function table(rows) {
  const hasBudget = rows.some((queue) => queue.budget);
  const heads = ["Queue", "GPUs in use of quota", "Borrowed", "Running", "Pending", "Weight", "Share", "Usage", hasBudget && "Budget left"].filter(Boolean);
  return el("table", { class: "wide" }, el("caption", { class: "hidden" }, "Queues"), el("thead", {}, el("tr", {}, heads.map((each) => el("th", { scope: "col" }, each)))),
    el("tbody", {}, rows.map((queue) => row(queue, hasBudget))));
}

function row(queue, hasBudget) {
  const path = queue.name.split("/");
  const borrowed = queue.gpus.filter((each) => each.borrowed > 0);
  return el("tr", {}, el("th", { scope: "row", title: queue.name, vars: { "--depth": path.length - 1 }, class: "nested" }, el("a", { href: `#/jobs?queue=${encodeURIComponent(queue.name)}`, "data-focus": queue.name }, path.at(-1))),
    el("td", { class: "bars" }, queue.gpus.length ? queue.gpus.map(bar) : el("span", { class: "faint" }, "no quota, none in use")),
    el("td", {}, borrowed.map((each) => `${milli(each.borrowed)} ${each.model}`).join(", ")),
    el("td", {}, queue.running.toLocaleString("en")), el("td", {}, queue.waiting.toLocaleString("en")), el("td", {}, queue.weight),
    el("td", { title: "The queue with the lowest value among its siblings is next" }, (queue.share_ppm / 1e6).toFixed(3)),
    el("td", { title: "Decayed use, which counts for the fair share" }, `${(queue.usage_gpu_secs / 3600).toFixed(1)} GPU-h`),
    hasBudget && el("td", {}, budget(queue.budget)));
}

function bar({ model, nominal, used, borrowed }) {
  const most = Math.max(nominal ?? 0, used, 1);
  const own = used - borrowed;
  const text = nominal === null ? `${milli(used)} ${model}, no quota` : `${milli(used)} of ${milli(nominal)} ${model}`;
  return el("div", { class: "quota" }, el("span", { class: "meter", "aria-hidden": "true" }, el("i", { vars: { "--part": `${(100 * own) / most}%` } }), el("i", { class: "borrowed", vars: { "--part": `${(100 * borrowed) / most}%` } })), text);
}

function budget(view) {
  if (!view || view.gpu_secs === null) return view ? "per user" : "";
  const left = view.gpu_secs - view.used_gpu_secs - view.promised_gpu_secs;
  return [`${(left / 3600).toFixed(1)} of ${count(Math.round(view.gpu_secs / 3600), "GPU-hour")} per ${elapsed(view.every)}, again `, time(view.refills_at)];
}
