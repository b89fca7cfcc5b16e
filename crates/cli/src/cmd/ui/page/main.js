// Start of the page: access, the view that the address names, and the refreshes.

import { get, open } from "./api.js";
import { el, sentence, show } from "./dom.js";
import { follow } from "./live.js";
import { job } from "./job.js";
import { jobs } from "./jobs.js";
import { nodes } from "./nodes.js";
import { overview } from "./overview.js";
import { queues } from "./queues.js";
import { timeline } from "./timeline.js";
import { whatif } from "./whatif.js";

// Each makes a view `{ title, node, refresh, end }` from the rest of the address. `refresh` reads and shows
// the present state; `end` is called when another view replaces it.
const VIEWS = { overview, jobs, job, timeline, queues, nodes, whatif };

const main = document.getElementById("main");
const trouble = el("div", {});
let view = null;

/** Returns view, argument and options of an address: `#/job/3?index=7`. */
function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, argument] = path.split("/");
  return { name: VIEWS[name] ? name : "overview", argument, query: new URLSearchParams(query ?? "") };
}

function turn() {
  const { name, argument, query } = route();
  view?.end?.();
  view = VIEWS[name](argument, query, again);
  const of = name === "job" ? "jobs" : name;
  for (const link of document.querySelectorAll("#views a")) {
    if (link.dataset.view === of) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  document.title = `${view.title} · Muster`;
  trouble.replaceChildren();
  main.replaceChildren(trouble, view.node);
  main.dataset.view = name;
  window.scrollTo(0, 0);
}

async function refresh() {
  const asked = view;
  try {
    await asked.refresh();
    if (asked !== view) return;
    view.node.removeAttribute("aria-busy");
    show(trouble);
  } catch (error) {
    if (asked !== view || error.name === "AbortError") return;
    if (error.isNoAccess || error.isLost) throw error;
    asked.node.removeAttribute("aria-busy");
    show(trouble, problem(error));
  }
}

function problem(error) {
  return el("div", { class: "empty" }, el("p", {}, sentence(error.message)), (error.hints ?? []).map((hint) => el("p", { class: "faint" }, sentence(hint))));
}

/** Refreshes what a user has changed. */
async function again() {
  try {
    await refresh();
  } catch (error) {
    if (error.isNoAccess) noAccess(error);
    else tell("lost", error);
  }
}

const WORDS = { live: "live", paused: "paused", lost: "connection lost" };

function tell(state, error) {
  const link = document.getElementById("link");
  if (link.dataset.state !== state) {
    link.dataset.state = state;
    link.textContent = WORDS[state];
  }
  const banner = document.getElementById("banner");
  banner.hidden = state !== "lost";
  if (error) show(banner, el("strong", {}, "Not up to date: "), sentence([error.message, ...error.hints].join("; ")));
}

function noAccess(error) {
  document.getElementById("link").dataset.state = "lost";
  const word = error.isNoAccess ? "no access" : "connection lost";
  document.getElementById("link").textContent = word;
  document.getElementById("views").hidden = true;
  main.replaceChildren(el("h1", {}, word[0].toUpperCase() + word.slice(1)), problem(error));
}

async function about() {
  const { cluster, host, user, version, virtual_gpus: simulated, warnings } = await get("/page/about");
  // Snapshots for it come from the daemon of this machine only.
  document.querySelector("#views a[data-view=whatif]").hidden = cluster !== "local";
  const place = cluster === "local" ? host : `${cluster}, from ${host}`;
  show(document.getElementById("place"), el("span", { title: `Muster ${version}` }, `${user} on ${place}`),
    simulated > 0 && el("span", { class: "tag", title: "These GPUs are simulated; jobs run without one" }, "simulated GPUs"));
  document.getElementById("place").after(...warnings.map((text) => el("p", { class: "warning" }, text)));
}

async function start() {
  try {
    await open();
    await about();
    turn();
    addEventListener("hashchange", () => {
      turn();
      main.focus({ preventScroll: true });
      again();
    });
    await follow(refresh, tell);
  } catch (error) {
    if (!error.isNoAccess && !error.isLost) throw error;
    noAccess(error);
  }
}

start();
