// One job: its state, why it waits or where it runs, its tasks, output, GPU loads and files; of an array or
// sweep its elements, of a service its addresses.

import { buttons } from "./actions.js";
import { get } from "./api.js";
import { painted } from "./colours.js";
import { cleanLines, el, show } from "./dom.js";
import { Elements } from "./elements.js";
import { Output } from "./output.js";
import { openPort } from "./ports.js";
import { FINAL, bytes, count, elapsed, milli, since, state, time } from "./words.js";

/** Milliseconds between two reads of the loads of GPUs. */
const LOAD_PAUSE = 2000;
const NEVER_ENDS = 8.64e15;

export function job(id, query, changed) {
  const index = query.get("index") ?? undefined;
  const parts = Object.fromEntries(["head", "facts", "address", "why", "tasks", "loads", "notices", "files"].map((name) => [name, el("section", { class: name })]));
  const output = new Output({
    onlink: (event, address) => reached(event, ownIndex, address),
    onfound: (address) => { found = address; if (latest) showAddress(); },
  });
  const ranks = el("select", { "aria-label": "Rank", onchange: () => read() });
  const written = el("section", { hidden: true }, el("div", { class: "bar" }, el("h2", {}, "Output"), ranks), output.node);
  const list = el("section", { hidden: true }, el("h2", {}, "Elements"));
  const node = el("div", { class: "job", "aria-busy": "true" }, parts.head, parts.facts, parts.address, list, parts.why, parts.tasks, written, parts.loads, parts.notices, parts.files);
  let elements = null;
  let latest = null;
  let ownIndex = null;
  let found = null;
  let followed = "";
  let held = [];

  /** Follows the output of the chosen rank, from its start again if it is another attempt. */
  function read(attempt) {
    written.dataset.attempt = attempt ?? written.dataset.attempt;
    const asked = `${ranks.value} ${written.dataset.attempt}`;
    if (asked === followed) return;
    followed = asked;
    found = null;
    output.follow(id, { index, rank: ranks.value });
  }

  /** Opens an address through the server of this page where that is possible; else the link is followed as it is. */
  function reached(event, at, address) {
    if (!latest.can_open || !address.startsWith("http:")) return;
    event.preventDefault();
    openPort(id, at, address);
  }

  function showAddress() {
    show(parts.address, addresses(latest, found, (at, address, word) => el("a", { href: address, target: "_blank", rel: "noopener noreferrer", "data-focus": `port-${at}`, onclick: (event) => reached(event, at, address) }, word)));
  }

  function showOutput(element) {
    written.hidden = !element || element.attempt === 0;
    if (written.hidden) return;
    const chosen = ranks.value;
    const many = Math.max(1, element.tasks.length);
    if (ranks.options.length !== many) {
      ranks.replaceChildren(...Array.from({ length: many }, (_, rank) => el("option", { value: rank }, `rank ${rank}`)));
      ranks.value = chosen && Number(chosen) < many ? chosen : "0";
      ranks.hidden = many < 2;
    }
    read(element.attempt);
  }

  async function explain(row) {
    if (FINAL.has(row.state) || (row.array && index === undefined && row.state !== "pending")) { show(parts.why); return; }
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const { text } = await get(`/page/jobs/${id}/explain`, { index, zone });
    show(parts.why, el("h2", {}, row.state === "pending" || row.state === "held" ? "Why it waits" : "Where it runs"), el("pre", { class: "explanation" }, document.createTextNode(cleanLines(text.trimEnd()))));
  }

  async function refresh() {
    latest = await get(`/page/jobs/${id}`, { index });
    const { row, detail, ends } = latest;
    const view = detail.job;
    ownIndex = view.service ? Number(index ?? 0) : index === undefined ? null : Number(index);
    const isWhole = Boolean(view.array) && index === undefined;
    const nth = view.array ? view.elements.findIndex((each) => String(each.element.index) === index) : 0;
    const element = view.service ? view.elements.find((each) => String(each.element.index) === (index ?? "0")) : isWhole ? undefined : view.elements[nth];
    const end = ends[view.elements.indexOf(element)];
    show(parts.head, heading(row, element, index, changed));
    show(parts.facts, facts(row, detail, element, end));
    showAddress();
    show(parts.tasks, element && tasks(element, end));
    show(parts.notices, notices(detail.notices ?? []));
    show(parts.files, files(detail, element));
    held = element && !FINAL.has(element.state) ? element.tasks.flatMap((task) => task.devices.map((device) => ({ node: task.node, index: device, rank: task.rank }))) : [];
    if (!held.length) show(parts.loads);
    showOutput(element);
    list.hidden = !isWhole;
    if (isWhole) {
      if (!elements) { elements = new Elements(id); list.append(elements.node); }
      await elements.refresh();
    }
    await explain(element ? { ...row, state: element.state } : row);
  }

  async function loads() {
    if (document.hidden || !held.length) return;
    const { gpus } = await get("/v1/gpus").catch(() => ({ gpus: [] }));
    const own = held.map((each) => ({ ...each, load: gpus.find((gpu) => gpu.node === each.node && gpu.index === each.index)?.load }));
    show(parts.loads, own.some((each) => each.load) && loadTable(own));
  }
  const timer = setInterval(loads, LOAD_PAUSE);
  // In the background the output is not read: browsers have few connections for all tabs.
  const turned = () => {
    if (written.hidden) return;
    followed = "";
    if (document.hidden) output.end();
    else read();
  };
  document.addEventListener("visibilitychange", turned);
  return { title: `Job ${id}`, node, refresh, end: () => { output.end(); elements?.end(); clearInterval(timer); document.removeEventListener("visibilitychange", turned); } };
}

function heading(row, element, index, changed) {
  const label = index === undefined ? row.label : `${row.label}[${index}]`;
  const target = { id: row.id, label, name: row.name, state: element && index !== undefined ? element.state : row.state, index: index === undefined ? undefined : Number(index) };
  return [el("p", { class: "path" }, el("a", { href: "#/jobs" }, "Jobs"), " / ", index === undefined ? null : [el("a", { href: `#/job/${row.id}` }, row.label), " / "], label),
    el("div", { class: "bar" }, el("h1", { vars: painted(row.id) }, el("i", { class: "swatch" }), row.name), state(target.state), el("div", { class: "actions" }, buttons(target, changed))),
    row.note && el("p", { class: "note" }, row.note)];
}

function facts(row, detail, element, end) {
  const view = detail.job;
  const limit = view.time_limit;
  const started = element ? element.started : view.started;
  const ended = element ? element.ended : view.ended;
  const per = (role) => [view.roles.length > 1 && `${role.name}: `, count(role.tasks, "task"), role.gpus > 0 && ` × ${count(role.gpus / 1000, "GPU")}`, role.models.length > 0 && ` (${role.models.join(" or ")})`,
    role.cpus > 0 && `, ${count(role.cpus / 1000, "CPU")}`, role.memory > 0 && `, ${bytes(role.memory)}`].filter(Boolean).join("");
  const fact = (word, ...value) => (value.flat().some((each) => each !== null && each !== undefined && each !== false && each !== "") ? el("div", {}, el("dt", {}, word), el("dd", {}, value)) : null);
  return el("dl", { class: "list" },
    fact("User", view.user), fact("Queue", view.queue, view.priority !== 0 && `, priority ${view.priority}`),
    fact("Needs", view.roles.map(per).join("; ") || (view.gpus > 0 ? `${milli(view.gpus)} GPUs` : "no GPU"), view.array && `, ${count(view.array.total, "element")}`),
    fact("Holds", FINAL.has(row.state) || row.state === "pending" ? null : row.held),
    fact("Submitted", time(view.submitted)), fact("Waited", since(view.submitted, started ?? ended)),
    fact("Started", time(started), element?.backfilled && " (backfilled)"), fact(ended === null ? "Running for" : "Ran", started === null ? null : since(started, ended)),
    fact(row.eta_predicted ? "Predicted start" : "Starts by", row.state === "pending" && row.eta !== null && time(row.eta)),
    fact("Ended", time(ended)), fact("Time limit", limit === null ? "none" : elapsed(limit)), fact("Ends by", ended === null && element?.ends_by < NEVER_ENDS && time(element?.ends_by)),
    fact("Predicted end", ended === null && element?.expected_end && time(element.expected_end)),
    fact("Outcome", end?.outcome), fact("Attempt", element?.attempt > 1 && element.attempt, element?.attempt > 1 && end?.last_end && `; the one before: ${end.last_end}`),
    fact("Idle GPUs", detail.idle_since && el("span", { class: "s-pending" }, "all under 5 % busy, since ", time(detail.idle_since))),
    fact("Checkpoint", element?.checkpoint && [element.checkpoint.label || "saved", ", ", time(element.checkpoint.at)]));
}

/** Returns the addresses of a notebook or service. `link` makes a link to an address of an element. */
function addresses({ row, detail: { job: view } }, found, link) {
  const { service } = view;
  if (view.is_notebook && view.state === "running" && found) return el("p", {}, link(null, found, "Open the notebook"), el("span", { class: "faint" }, ` at port ${new URL(found).port || 80} of its machine`));
  if (view.is_notebook && !FINAL.has(view.state)) return el("p", { class: "faint" }, "The address of the notebook, with its token, is in its output.");
  if (!service) return null;
  const replica = (each) => {
    const task = each.tasks[0];
    const port = service.port === null ? null : service.port + each.element.index;
    // Services of a daemon listen on its machine, which is this one or the other end of the tunnel.
    const url = `http://127.0.0.1:${port}/`;
    return el("tr", {}, el("th", { scope: "row" }, el("a", { href: `#/job/${row.id}?index=${each.element.index}` }, `[${each.element.index}]`)), el("td", {}, state(each.state)),
      el("td", {}, task ? (task.ready ? "ready" : "not ready") : ""),
      el("td", {}, port !== null && task && (view.native ? `port ${port}` : link(each.element.index, url, `port ${port}`))), el("td", {}, task?.node ?? ""));
  };
  return [el("h2", {}, "Replicas"), el("div", { class: "scrolls" }, el("table", {}, el("thead", {}, el("tr", {}, ["Replica", "State", "Answers", "Address", "Node"].map((each) => el("th", { scope: "col" }, each)))),
    el("tbody", {}, view.elements.map(replica))))];
}

function tasks(element, end) {
  if (!element.tasks.length) return null;
  const row = (task, at) => el("tr", {}, el("th", { scope: "row" }, task.rank), el("td", {}, task.group), el("td", {}, task.node),
    el("td", {}, task.devices.join(","), task.share > 0 && task.share < 1000 && ` (${milli(task.share)})`), el("td", {}, task.stage), el("td", {}, end?.exits[at] ?? ""));
  return [el("h2", {}, "Tasks"), el("div", { class: "scrolls tall" }, el("table", {}, el("thead", {}, el("tr", {}, ["Rank", "Group", "Node", "GPUs", "Stage", "End"].map((each) => el("th", { scope: "col" }, each)))),
    el("tbody", {}, element.tasks.map(row))))];
}

function loadTable(gpus) {
  const meter = (part, text) => el("td", {}, el("span", { class: "meter" }, el("i", { vars: { "--part": `${Math.min(100, part)}%` } })), text);
  const row = ({ node, index, rank, load }) => el("tr", {}, el("th", { scope: "row" }, `${node}:${index}`), el("td", {}, rank),
    load?.busy_percent == null ? el("td", {}, "") : meter(load.busy_percent, `${load.busy_percent} %`),
    el("td", {}, load?.memory_used == null ? "" : bytes(load.memory_used)),
    el("td", {}, load?.power_watts == null ? "" : `${load.power_watts} W`, load?.power_limit_watts == null ? "" : ` of ${load.power_limit_watts} W`));
  return [el("h2", {}, "GPU loads"), el("div", { class: "scrolls tall" }, el("table", {}, el("thead", {}, el("tr", {}, ["GPU", "Rank", "Busy", "Memory", "Power"].map((each) => el("th", { scope: "col" }, each)))), el("tbody", {}, gpus.map(row))))];
}

function notices(rows) {
  const progress = ({ state: word, at, next, error, tries }) => {
    if (word === "sent") return ["sent ", time(at)];
    if (word === "given_up") return `given up after ${tries === 1 ? "1 try" : `${tries} tries`}: ${error}`;
    return error ? ["not sent yet, next try ", time(next), `: ${error}`] : "to be sent";
  };
  const row = (each) => el("tr", {}, el("th", { scope: "row" }, each.event, each.count > 1 && ` (${each.count} times)`), el("td", {}, time(each.at)), el("td", {}, each.to), el("td", {}, progress(each.state)));
  return rows.length ? [el("h2", {}, "Notices"), el("div", { class: "scrolls tall" }, el("table", {}, el("thead", {}, el("tr", {}, ["Event", "At", "To", "Progress"].map((each) => el("th", { scope: "col" }, each)))), el("tbody", {}, rows.map(row))))] : null;
}

function files(detail, element) {
  const made = [];
  const row = (word, value, isCode = true) => made.push(el("div", {}, el("dt", {}, word), el("dd", {}, isCode ? el("code", {}, document.createTextNode(cleanLines(value))) : value)));
  for (const [group, command] of Object.entries(detail.commands ?? {})) row(Object.keys(detail.commands).length > 1 ? `Command of ${group}` : "Command", command);
  if (detail.workdir) row("Directory", detail.workdir);
  if (detail.files?.output) row("Output file", detail.files.output);
  if (detail.files?.error) row("Error file", detail.files.error);
  if (element) detail.logs.slice(0, 8).forEach((log, rank) => row(detail.logs.length > 1 ? `Log of rank ${rank}` : "Log", log));
  if (detail.logs.length > 8) row("Further logs", `of ${detail.logs.length - 8} more ranks, beside these`, false);
  if (detail.enforcement.length) row("Limits", detail.enforcement.map((each) => el("p", {}, each)), false);
  return made.length ? [el("h2", {}, "Command and files"), el("dl", { class: "list wide" }, made)] : null;
}
