// Jobs: a table with filters, order and actions, for any number of rows.

import { choose } from "./actions.js";
import { get } from "./api.js";
import { painted } from "./colours.js";
import { el, show } from "./dom.js";
import { Grid } from "./grid.js";
import { FINAL, STATES, count, plannedStart, since, state, time } from "./words.js";

const waited = (job) => since(job.submitted, job.started ?? job.ended);
const ran = (job) => (job.started === null ? null : since(job.started, job.ended));
const span = (from, to) => (from === null ? null : (to ?? Date.now()) - from);

export function jobs(_, query, changed) {
  let list = [];
  const columns = [
    { title: "Job", class: "c-id", sort: (job) => Number(job.id), cell: (job) => job.label },
    { title: "Name", class: "c-name", isFirst: true, sort: (job) => job.name, cell: (job) => [
      el("a", { href: `#/job/${job.id}`, "data-focus": "name", title: job.name, vars: painted(job.id) }, job.name),
      el("span", { class: "second" }, job.note)] },
    { title: "State", class: "c-state", sort: (job) => STATES.indexOf(job.state), cell: (job) => state(job.state) },
    { title: "User", class: "c-user", sort: (job) => job.user, cell: (job) => job.user },
    { title: "Queue", class: "c-queue", sort: (job) => job.queue, cell: (job) => el("span", { title: job.queue }, job.queue) },
    { title: "GPUs", class: "c-gpus", down: true, sort: (job) => job.gpus, cell: (job) => el("span", { title: job.held }, job.held) },
    { title: "Waited", class: "c-time", down: true, sort: (job) => span(job.submitted, job.started ?? job.ended), cell: waited },
    { title: "Ran", class: "c-time", down: true, sort: (job) => span(job.started, job.ended), cell: ran },
    { title: "Start", class: "c-when", sort: (job) => job.started ?? job.eta, cell: (job) => (job.started !== null ? time(job.started) : job.eta !== null ? plannedStart(job) : null) },
    { title: "Note", class: "c-note", cell: (job) => el("span", { title: job.note }, job.note) },
    { title: "Actions", class: "c-act", isUntitled: true, cell: (job) => el("button", { type: "button", class: "more", "data-focus": "act", "aria-label": `Actions for job ${job.label}`, onclick: () => choose(job, changed) }, "⋯") },
  ];
  const grid = new Grid({ caption: "Jobs", columns, id: (job) => job.id, isTall: true, sort: { title: "Job", down: true } });
  const told = el("p", { class: "faint", role: "status" });
  const text = el("input", { type: "search", placeholder: "name, number or note", "aria-label": "Text in name, number or note", value: query.get("text") ?? "", oninput: filter });
  const choice = (label, chosen) => el("select", { "aria-label": label, onchange: filter, "data-chosen": chosen ?? "" });
  const states = choice("State", query.get("state"));
  const users = choice("User", query.get("user"));
  const queues = choice("Queue", query.get("queue"));
  const ended = el("input", { type: "checkbox", onchange: () => { filter(); changed(); } });
  ended.checked = query.get("ended") === "1" || FINAL.has(query.get("state"));
  const node = el("div", { class: "jobs", "aria-busy": "true" }, el("h1", { class: "hidden" }, "Jobs"),
    el("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() }, text, states, users, queues, el("label", {}, ended, "ended jobs"), told),
    grid.node);

  /** Sets the options of a choice, the chosen one among them even if no job has it now. */
  function options(select, every, values) {
    const chosen = select.dataset.chosen;
    const all = [...new Set([...values, chosen].filter(Boolean))];
    show(select, el("option", { value: "" }, every), all.map((value) => el("option", { value }, value)));
    select.value = chosen;
  }

  function filter() {
    for (const select of [states, users, queues]) if (select.options.length) select.dataset.chosen = select.value;
    // A state that has ended is found among ended jobs only.
    if (FINAL.has(states.dataset.chosen) && !ended.checked) { ended.checked = true; changed(); }
    const wanted = { state: states.dataset.chosen, user: users.dataset.chosen, queue: queues.dataset.chosen };
    const given = Object.entries({ ...wanted, text: text.value, ended: ended.checked ? "1" : "" }).filter(([, value]) => value);
    history.replaceState(null, "", `#/jobs${given.length ? `?${new URLSearchParams(given)}` : ""}`);
    const word = text.value.trim().toLowerCase();
    const rows = list.filter((job) => (!wanted.state || job.state === wanted.state) && (!wanted.user || job.user === wanted.user)
      && (!wanted.queue || job.queue === wanted.queue || job.queue.startsWith(`${wanted.queue}/`))
      && (!word || job.name.toLowerCase().includes(word) || job.label.includes(word) || job.note.toLowerCase().includes(word)));
    const sum = rows.length === list.length ? count(rows.length, "job") : `${rows.length.toLocaleString("en")} of ${count(list.length, "job")}`;
    if (told.textContent !== sum) told.textContent = sum;
    grid.set(rows);
  }

  async function refresh() {
    list = (await get("/page/jobs", ended.checked ? { all: true } : {})).jobs;
    // Another view may have taken its place, and the address is that view's.
    if (!node.isConnected) return;
    const sorted = (of) => [...new Set(list.map(of))].sort();
    const found = new Set(list.map((job) => job.state));
    options(states, "every state", STATES.filter((each) => found.has(each) || FINAL.has(each) || each === "running" || each === "pending"));
    options(users, "every user", sorted((job) => job.user));
    options(queues, "every queue", sorted((job) => job.queue));
    node.classList.toggle("one-user", users.options.length <= 2);
    node.classList.toggle("one-queue", queues.options.length <= 2);
    filter();
  }
  return { title: "Jobs", node, refresh, end: () => grid.end() };
}
