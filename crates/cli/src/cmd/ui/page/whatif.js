// What if: another number of nodes or another quota, and what `muster whatif` predicts for it. Changes nothing; all
// figures and their words are those of the server.

import { get } from "./api.js";
import { painted } from "./colours.js";
import { el, sentence, show } from "./dom.js";
import { clock, count, elapsed, milli } from "./words.js";

/** Pause after the last movement of a slider before its question is asked, in milliseconds. */
const DEBOUNCE = 350;
/** Least number of nodes that the slider can add; on larger sites as many as there are. */
const MIN_MORE = 8;
/** Most rows of the list of jobs. */
const MAX_ROWS = 100;

/** Assumptions of the forecast, as docs/whatif.md has them. */
const ASSUMPTIONS = [
  "No further jobs are submitted, and every job succeeds.",
  "A job runs for its time limit × the median fraction of the limit that this user's past jobs used. With fewer than five past jobs of the user those of all users count, and with fewer than five of all the whole limit.",
  "Services, and jobs of unknown length, do not end: a job that waits for one is “not known”. A notebook runs up to its limit. A held job is not waited for.",
  "A preempted job with checkpoints resumes where it was; a job stops at once when it is asked to.",
  "Added nodes are like most nodes here. Removed nodes are those with the least running work, and what runs there continues.",
  "Past jobs are replayed from an idle site, each as long as it ran, the same jobs without and with the change.",
];

export function whatif(_, query) {
  const wanted = { nodes: Number(query.get("nodes")) || 0, queue: query.get("queue"), model: query.get("model"), gpus: query.get("gpus") };
  const told = el("p", { class: "faint", role: "status" });
  const again = el("button", { type: "button", hidden: true, onclick: () => ask() }, "Ask again");
  const result = el("section", { class: "answer", "aria-label": "Answer" });
  const form = el("form", { class: "sliders", onsubmit: (event) => event.preventDefault() });
  const assumed = el("details", { class: "assumed" }, el("summary", {}, "Assumptions"), el("ul", {}, ASSUMPTIONS.map((each) => el("li", {}, each))));
  const node = el("div", { class: "whatif", "aria-busy": "true" }, el("h1", {}, "What if"),
    el("p", { class: "faint" }, "How a change of the site would move the jobs that wait now. Nothing is changed."),
    form, el("div", { class: "bar" }, told, again), result, assumed);
  let controls = null;
  let asking = null;
  let timer = null;
  let isLost = false;
  let isAsked = false;

  /** Asks when the sliders have rested. The question before ends, also on the server. */
  function soon() {
    asking?.abort();
    asking = null;
    result.setAttribute("aria-busy", "true");
    clearTimeout(timer);
    again.hidden = true;
    remember();
    timer = setTimeout(ask, DEBOUNCE);
  }

  function remember() {
    const given = Object.entries(controls.chosen()).filter(([, value]) => value);
    history.replaceState(null, "", `#/whatif${given.length ? `?${new URLSearchParams(given)}` : ""}`);
  }

  async function ask() {
    clearTimeout(timer);
    asking?.abort();
    again.hidden = true;
    const change = controls.change();
    isLost = false;
    isAsked = Object.keys(change).length > 0;
    if (!isAsked) {
      told.textContent = "Move a slider to ask.";
      show(result);
      result.removeAttribute("aria-busy");
      return;
    }
    const own = new AbortController();
    asking = own;
    told.textContent = "simulating";
    result.setAttribute("aria-busy", "true");
    try {
      const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
      const sheet = await get("/page/whatif", { ...change, zone }, own.signal);
      show(result, answer(sheet, change));
      told.textContent = `for the state of ${clock(sheet.answer.taken)}`;
    } catch (error) {
      if (own.signal.aborted) return;
      isLost = error.isLost;
      told.textContent = "no answer";
      again.hidden = false;
      show(result, el("div", { class: "empty", role: "alert" }, el("p", {}, sentence(error.message)), (error.hints ?? []).map((hint) => el("p", { class: "faint" }, sentence(hint)))));
    } finally {
      if (asking === own) { asking = null; result.removeAttribute("aria-busy"); }
    }
  }

  async function refresh() {
    if (!controls || isLost) {
      const site = await get("/page/whatif/site");
      const chosen = controls?.chosen() ?? wanted;
      controls = sliders(site, chosen, soon);
      show(form, controls.node);
      await ask();
      return;
    }
    // A simulation for every change of a busy site would never rest.
    if (!asking && isAsked && again.hidden) {
      told.textContent += "; jobs have changed since";
      again.hidden = false;
    }
  }
  return { title: "What if", node, refresh, end: () => { clearTimeout(timer); asking?.abort(); } };
}

/** Makes the sliders for a site. `chosen` are texts for the address, `change` are the options of the command. */
function sliders(site, wanted, moved) {
  const nodes = nodeSlider(site, Number(wanted.nodes) || 0, moved);
  const quota = quotaSlider(site, wanted, moved);
  const reset = el("button", { type: "button", onclick: () => { nodes.reset(); quota.reset(); moved(); } }, "As it is");
  return {
    node: [nodes.node, quota.node, el("div", { class: "actions" }, reset)],
    chosen: () => ({ nodes: nodes.value() ? String(nodes.value()) : "", ...quota.chosen() }),
    change: () => ({ ...nodes.change(), ...quota.change() }),
  };
}

function nodeSlider({ nodes }, start, moved) {
  if (!nodes) return { node: el("p", { class: "faint" }, "No node is in service."), value: () => 0, change: () => ({}), reset: () => {} };
  const said = el("output", { for: "whatif-nodes" });
  const range = el("input", { type: "range", id: "whatif-nodes", min: -nodes.count, max: Math.max(MIN_MORE, nodes.count), step: 1, value: start, oninput: () => { tell(); moved(); } });
  const value = () => Number(range.value);
  const kind = `${count(nodes.gpus, "GPU")}${nodes.model ? ` (${nodes.model})` : ""}`;
  function tell() {
    const by = value();
    const change = by === 0 ? "as it is" : by > 0 ? `${by} more` : `${-by} fewer`;
    said.textContent = `${count(nodes.count + by, "node")} with ${kind} each, ${change}`;
    range.setAttribute("aria-valuetext", said.textContent);
  }
  tell();
  return {
    node: el("fieldset", {}, el("legend", {}, "Nodes"), el("label", { for: "whatif-nodes" }, "Number of nodes"), range, said), value,
    change: () => (value() > 0 ? { add_nodes: String(value()) } : value() < 0 ? { remove_nodes: String(-value()) } : {}),
    reset: () => { range.value = "0"; tell(); },
  };
}

function quotaSlider({ queues, models }, wanted, moved) {
  const choice = (id, values) => el("select", { id, onchange: () => { fill(); moved(); } }, values.map((value) => el("option", { value }, value)));
  const queue = choice("whatif-queue", queues.map((each) => each.name));
  const model = choice("whatif-model", [...new Set([...Object.keys(models), ...queues.flatMap((each) => Object.keys(each.quota))])].sort());
  const said = el("output", { for: "whatif-quota" });
  const range = el("input", { type: "range", id: "whatif-quota", min: 0, step: 1, oninput: () => { none.checked = false; tell(); moved(); } });
  const none = el("input", { type: "checkbox", onchange: () => { tell(); moved(); } });
  const isHere = (select, value) => [...select.options].some((each) => each.value === value);
  if (!queue.options.length || !model.options.length) return { node: null, chosen: () => ({}), change: () => ({}), reset: () => {} };
  if (isHere(queue, wanted.queue)) queue.value = wanted.queue;
  if (isHere(model, wanted.model)) model.value = wanted.model;

  /** Quota as it is; `null` without one. */
  const present = () => queues.find((each) => each.name === queue.value).quota[model.value] ?? null;
  const value = () => (none.checked ? null : Number(range.value));
  function fill() {
    const now = present();
    const there = models[model.value] ?? 0;
    range.max = String(Math.max(2 * there, 2 * (now ?? 0), 8));
    range.value = String(now ?? there);
    none.checked = now === null;
    tell();
  }
  function tell() {
    const is = (gpus) => (gpus === null ? "no quota" : `${gpus} ${model.value} ${gpus === 1 ? "GPU" : "GPUs"}`);
    said.textContent = value() === present() ? `${is(value())}, as it is` : `${is(value())}, now ${is(present())}`;
    range.setAttribute("aria-valuetext", said.textContent);
  }
  fill();
  if (wanted.gpus === "none") none.checked = true;
  else if (/^\d+$/.test(wanted.gpus ?? "")) { none.checked = false; range.value = wanted.gpus; }
  tell();
  const text = () => (value() === null ? "none" : String(value()));
  return {
    node: el("fieldset", {}, el("legend", {}, "Quota of a queue"),
      el("div", { class: "which" }, el("label", { for: "whatif-queue" }, "Queue"), queue,
        el("label", { for: "whatif-model", hidden: model.options.length < 2 }, "Model"), el("span", { hidden: model.options.length < 2 }, model)),
      el("label", { for: "whatif-quota" }, "GPUs of its quota"), range, said, el("label", { class: "check" }, none, "no quota")),
    chosen: () => (value() === present() ? {} : { queue: queue.value, model: model.value, gpus: text() }),
    change: () => (value() === present() ? {} : { quota: `${queue.value}=${model.value}:${text()}` }),
    reset: fill,
  };
}

/** Returns the answer, with the words of the command. */
function answer({ answer: given, words }, change) {
  const options = Object.entries(change).map(([name, value]) => ` --${name.replace("_", "-")} ${value}`).join("");
  return [el("p", { class: "lead sentence" }, given.changes.join("; ")),
    given.is_partial && el("p", { class: "warning" }, "The simulation was stopped after its time: the figures cover what it had reached by then. ", el("code", {}, "muster whatif"), " has no limit of time."),
    el("h2", {}, "Pending jobs"),
    given.waiting.length ? [el("p", { class: "sentence" }, words.sums), el("div", { class: "scrolls" }, pending(given, words))] : el("p", { class: "faint" }, "No job waits now."),
    given.waiting.length > MAX_ROWS && el("p", { class: "faint" }, `and ${(given.waiting.length - MAX_ROWS).toLocaleString("en")} more`),
    el("h2", {}, "Past jobs"), past(words.past),
    el("p", { class: "faint" }, "The same in a terminal: ", el("code", {}, `muster whatif${options}`))];
}

const EFFECTS = { sooner: ["sooner", "good"], later: ["later", "bad"] };

function pending({ waiting, taken }, words) {
  // On a narrow screen the reason is below the name, and the rest is left out.
  const heads = [["Job"], ["Queue", "more-room"], ["GPUs", "more-room"], ["Waited", "more-room"], ["Starts in"], ["With the change"], ["Then waits for", "more-room"]];
  const row = (job, nth) => {
    const { as_it_is: now, changed, still, effect } = words.waiting[nth];
    const [word, kind] = EFFECTS[effect] ?? [];
    return el("tr", { "data-job": job.job }, el("th", { scope: "row" }, el("a", { href: `#/job/${job.job}`, vars: painted(job.job), "data-focus": `job-${job.job}` }, job.name || `job ${job.job}`), el("span", { class: "faint" }, ` ${job.job} · ${job.user}`), el("span", { class: "second" }, still)),
      el("td", { class: "more-room" }, job.queue), el("td", { class: "more-room" }, milli(job.gpus), job.elements > 1 && ` × ${job.elements.toLocaleString("en")}`), el("td", { class: "more-room" }, elapsed(taken - job.submitted)),
      el("td", { class: "now" }, now), el("td", { class: "then" }, changed, word && el("span", { class: `tag ${kind}` }, word)), el("td", { class: "words more-room" }, still));
  };
  return el("table", { class: "wide" }, el("caption", { class: "hidden" }, "Pending jobs, without and with the change"),
    el("thead", {}, el("tr", {}, heads.map(([each, kind]) => el("th", { scope: "col", class: kind }, each)))), el("tbody", {}, waiting.slice(0, MAX_ROWS).map(row)));
}

function past(words) {
  if (!words) return el("p", { class: "faint" }, "No job has run in the last 30 days.");
  if (!words.rows.length) return el("p", { class: "faint sentence" }, words.sentence);
  const row = ([name, fact, now, then]) => el("tr", {}, el("th", { scope: "row" }, name), [fact, now, then].map((each) => el("td", { class: "figure" }, each)));
  return [el("p", { class: "sentence" }, words.sentence), el("div", { class: "scrolls" }, el("table", {}, el("caption", { class: "hidden" }, "Past jobs, replayed without and with the change"),
    el("thead", {}, el("tr", {}, ["", "In fact", "As it is", "With the change"].map((each) => el("th", { scope: "col" }, each)))), el("tbody", {}, words.rows.map(row))))];
}
