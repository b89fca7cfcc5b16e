// Actions on a job, each after a question. What may be done depends on the state; the server decides.

import { ApiError, post } from "./api.js";
import { el, tell } from "./dom.js";
import { FINAL } from "./words.js";

const ACTIONS = {
  cancel: { word: "Cancel", yes: "Cancel the job", kind: "danger", says: "It ends now. What it has not saved is lost." },
  hold: { word: "Hold", yes: "Hold it", kind: "", says: "It does not start until it is released." },
  release: { word: "Release", yes: "Release it", kind: "", says: "It may start as soon as it has its turn." },
  requeue: { word: "Run again", yes: "Run it again", kind: "", says: "It runs again from the beginning." },
};

/** Returns the names of the actions that a job in a state may take. */
function actionsFor(state) {
  if (state === "held") return ["release", "cancel"];
  if (state === "pending") return ["hold", "cancel"];
  return FINAL.has(state) ? ["requeue"] : ["requeue", "cancel"];
}

/** Returns a button for each action. `target` has id, label, name, state, and the index of an element. */
export function buttons(target, done) {
  return actionsFor(target.state).map((name) =>
    el("button", { type: "button", class: ACTIONS[name].kind, "data-focus": `act-${name}`, onclick: () => ask(target, name, done) }, ACTIONS[name].word));
}

/** Opens a list of the actions of a job. */
export function choose(target, done) {
  const dialog = frame(`Job ${target.label}`, target.name);
  dialog.append(el("div", { class: "choices" }, actionsFor(target.state).map((name) =>
    el("button", { type: "button", class: ACTIONS[name].kind, onclick: () => { dialog.close(); ask(target, name, done); } }, ACTIONS[name].word)),
    el("button", { type: "button", onclick: () => dialog.close() }, "Close")));
  dialog.showModal();
}

function frame(heading, name) {
  const dialog = el("dialog", { "aria-labelledby": "dialog-heading" },
    el("h2", { id: "dialog-heading" }, heading), name && el("p", { class: "faint" }, name));
  dialog.addEventListener("close", () => dialog.remove());
  // A click beside it closes it.
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  return dialog;
}

function ask(target, name, done) {
  const { word, yes: agreed, kind, says } = ACTIONS[name];
  const dialog = frame(`${word}: job ${target.label}?`, target.name);
  const yes = el("button", { type: "button", class: kind || "primary", id: "confirm", onclick: () => act(dialog, yes, target, name, done) }, agreed);
  dialog.append(el("p", {}, says), el("div", { class: "choices" }, yes,
    el("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Back")));
  dialog.showModal();
}

async function act(dialog, button, target, name, done) {
  button.disabled = true;
  try {
    const answer = await post(`/v1/jobs/${target.id}/${name}`, { index: target.index ?? null });
    tell(`job ${target.label}: ${answer.message}`);
    dialog.close();
    await done();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    dialog.close();
    tell([`job ${target.label}: ${error.message}`, ...error.hints].join("; "), "bad");
  }
}
