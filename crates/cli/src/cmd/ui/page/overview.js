// Overview: GPUs and who holds them, jobs by state, and the jobs that wait.

import { get } from "./api.js";
import { painted } from "./colours.js";
import { el, show } from "./dom.js";
import { STATES, count, elementId, now, plannedStart, since, time } from "./words.js";

/** Most rows of the list of jobs that wait, and of the legend. */
const MAX_WAITING = 30;
const MAX_LEGEND = 40;

export function overview() {
  const tiles = el("dl", { class: "tiles" });
  const gpus = el("section", { "aria-label": "GPUs" });
  const waiting = el("section", { "aria-label": "Jobs that wait" });
  const node = el("div", { class: "overview", "aria-busy": "true" }, el("h1", { class: "hidden" }, "Overview"), tiles,
    el("div", { class: "halves" }, gpus, waiting));
  async function refresh() {
    const [jobs, { nodes, problem }, { idle }] = await Promise.all([get("/page/jobs"), get("/v1/nodes").catch(withoutNodes), get("/v1/gpus").catch(withoutLoads)]);
    const byId = new Map(jobs.jobs.map((job) => [job.id, job]));
    show(tiles, summary(jobs.jobs, nodes, idle ?? []));
    show(gpus, el("h2", {}, "GPUs"), problem && el("p", { class: "faint" }, problem), nodes.map((each) => place(each, byId)), legend(nodes, byId, idle ?? []));
    show(waiting, el("h2", {}, "Waiting"), queue(jobs.jobs));
  }
  return { title: "Overview", node, refresh };
}

/** Not every user of an external scheduler may list its nodes; the jobs are shown all the same. */
function withoutNodes(error) {
  if (error.isNoAccess || error.isLost) throw error;
  return { nodes: [], problem: error.message };
}

/** Other schedulers do not know the loads of their GPUs. */
function withoutLoads(error) {
  if (error.isNoAccess) throw error;
  return {};
}

function tile(word, figure, more, href) {
  return el("div", { class: "tile" }, el("dt", {}, href ? el("a", { href }, word) : word), el("dd", {}, el("strong", {}, figure), more && el("span", { class: "faint" }, ` ${more}`)));
}

function summary(jobs, nodes, unused) {
  const devices = nodes.flatMap((each) => each.devices.map((device) => ({ device, node: each })));
  const usable = devices.filter(({ device, node }) => node.up && (!isOut(node, device) || device.used > 0));
  const used = devices.reduce((sum, { device }) => sum + device.used, 0) / 1000;
  const out = devices.length - usable.length;
  const idle = usable.filter(({ device, node }) => device.used === 0 && !device.foreign && !isOut(node, device)).length;
  const by = new Map();
  for (const job of jobs) by.set(job.state, (by.get(job.state) ?? 0) + 1);
  const states = STATES.filter((state) => by.has(state) || state === "running" || state === "pending");
  const queued = jobs.filter((job) => job.state === "pending").reduce((sum, job) => sum + job.gpus * (job.array ? job.array.waiting : 1), 0);
  return [
    tile("GPUs in use", `${Math.round(used * 10) / 10}`, `of ${devices.length}${out ? `, ${out} out of service` : ""}`),
    tile("idle", idle, idle === 1 ? "GPU" : "GPUs"),
    unused.length > 0 && tile("held but idle", unused.reduce((sum, each) => sum + each.gpus, 0), "longer than their queue allows"),
    states.map((state) => tile(state, (by.get(state) ?? 0).toLocaleString("en"), state === "pending" && queued ? `for ${(Math.round(queued / 100) / 10).toLocaleString("en")} GPUs` : null, `#/jobs?state=${state}`)),
  ];
}

function isOut(node, device) {
  return device.drained || node.drained !== null;
}

function place(node, byId) {
  const models = [...new Set(node.devices.map((device) => device.model))].join(", ");
  const busy = node.devices.filter((device) => device.used > 0).length;
  const note = [!node.up && "lost", node.drained !== null && (node.drained ? `drained: ${node.drained}` : "drained")].filter(Boolean).join(", ");
  return el("div", { class: "node" },
    el("h3", {}, node.name, el("span", { class: "faint" }, ` ${busy} of ${count(node.devices.length, "GPU")}${models ? `, ${models}` : ""}`), note && el("span", { class: "tag bad" }, note)),
    el("ul", { class: "squares" }, node.devices.map((device) => square(node, device, byId))));
}

function square(node, device, byId) {
  const holders = device.elements.map((id) => ({ id, job: byId.get(String(id.job)) }));
  const names = holders.map(({ id, job }) => `${job?.name ?? "job"} (${elementId(id, job?.array ?? job?.service)})`);
  const held = names.length ? names.join(", ") : device.foreign ? "used by processes outside Muster" : "idle";
  const out = isOut(node, device) ? ", out of service" : "";
  const share = device.used > 0 && device.used < 1000 ? `, ${device.used / 10} % held` : "";
  const label = `GPU ${device.index}: ${held}${share}${out}`;
  const kind = ["gpu", names.length && "held", share && "part", !names.length && device.foreign && "foreign", out && "out", !node.up && "lost"].filter(Boolean).join(" ");
  const number = el("span", { "aria-hidden": "true" }, device.index);
  if (!names.length) return el("li", {}, el("span", { class: kind, title: label, role: "img", "aria-label": label }, number));
  const vars = { ...painted(holders[0].id.job), "--held": `${device.used / 10}%` };
  const key = `gpu-${node.name}-${device.index}`;
  return el("li", {}, el("a", { class: kind, href: `#/job/${holders[0].id.job}`, title: label, "aria-label": label, vars, "data-focus": key }, number));
}

function legend(nodes, byId, unused) {
  const idle = new Set(unused.map((each) => each.element.job));
  const held = new Map();
  for (const device of nodes.flatMap((each) => each.devices)) {
    for (const id of new Set(device.elements.map((each) => each.job))) held.set(id, (held.get(id) ?? 0) + 1);
  }
  const most = [...held].sort(([, a], [, b]) => b - a);
  if (!most.length) return el("p", { class: "faint" }, "No job holds a GPU.");
  return [el("ul", { class: "legend", "aria-label": "Jobs that hold GPUs" }, most.slice(0, MAX_LEGEND).map(([id, gpus]) => el("li", {},
    el("i", { class: "swatch", vars: painted(id) }), el("a", { href: `#/job/${id}`, "data-focus": `legend-${id}` }, byId.get(String(id))?.name ?? `job ${id}`),
    el("span", { class: "faint" }, ` ${id} · ${count(gpus, "GPU")}`), idle.has(id) && el("span", { class: "tag wait" }, "idle")))),
  most.length > MAX_LEGEND && el("p", { class: "faint" }, `and ${count(most.length - MAX_LEGEND, "job")} more`)];
}

function queue(jobs) {
  const pending = jobs.filter((job) => job.state === "pending");
  if (!pending.length) return el("p", { class: "faint" }, "No job waits.");
  pending.sort((a, b) => (a.eta ?? Infinity) - (b.eta ?? Infinity) || b.priority - a.priority || a.submitted - b.submitted);
  return [el("ol", { class: "waiting" }, pending.slice(0, MAX_WAITING).map((job) => el("li", {},
    el("div", { class: "who" }, el("a", { href: `#/job/${job.id}`, "data-focus": `wait-${job.id}` }, job.name), el("span", { class: "faint" }, ` ${job.label} · ${job.user} · ${job.queue}`)),
    el("div", { class: "when" }, job.eta !== null && job.eta > now() - 60000 ? plannedStart(job) : null, el("span", { class: "faint" }, job.eta !== null ? ", waited " : "waited ", since(job.submitted))),
    el("div", { class: "why" }, job.note)))),
  pending.length > MAX_WAITING && el("p", {}, el("a", { href: "#/jobs?state=pending" }, `all ${pending.length.toLocaleString("en")} pending jobs`))];
}
