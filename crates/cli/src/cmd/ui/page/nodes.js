// Nodes: state, what is in use, drains and reservations.

import { get } from "./api.js";
import { el, show } from "./dom.js";
import { bytes, milli, now, time } from "./words.js";

export function nodes() {
  const host = el("div", { class: "scrolls" });
  const node = el("div", { class: "nodes", "aria-busy": "true" }, el("h1", {}, "Nodes"), host);
  async function refresh() {
    show(host, table((await get("/v1/nodes")).nodes));
  }
  return { title: "Nodes", node, refresh };
}

function table(rows) {
  const heads = ["Node", "State", "GPUs in use", "Models", "CPUs", "Memory", "Notes"];
  return el("table", { class: "wide" }, el("caption", { class: "hidden" }, "Nodes"), el("thead", {}, el("tr", {}, heads.map((each) => el("th", { scope: "col" }, each)))), el("tbody", {}, rows.map(row)));
}

function row(node) {
  const used = node.devices.reduce((sum, device) => sum + device.used, 0);
  const by = new Map();
  for (const { model } of node.devices) by.set(model, (by.get(model) ?? 0) + 1);
  const state = !node.up ? ["lost", "bad"] : node.drained !== null ? ["drained", "wait"] : ["up", "good"];
  return el("tr", {}, el("th", { scope: "row" }, node.name), el("td", {}, el("span", { class: `tag ${state[1]}` }, state[0])),
    el("td", {}, meter(used, node.devices.length * 1000), `${milli(used)} of ${node.devices.length}`), el("td", {}, [...by].map(([model, number]) => `${number} ${model}`).join(", ")),
    el("td", {}, meter(node.cpus_used, node.cpus), `${milli(node.cpus_used)} of ${milli(node.cpus)}`), el("td", {}, meter(node.memory_used, node.memory), `${bytes(node.memory_used)} of ${bytes(node.memory)}`),
    el("td", { class: "words" }, notes(node)));
}

function meter(used, of) {
  return of > 0 && el("span", { class: "meter", "aria-hidden": "true" }, el("i", { vars: { "--part": `${(100 * used) / of}%` } }));
}

function notes(node) {
  const said = [];
  if (node.drain) said.push(drain("drained", node.drain));
  else if (node.drained) said.push(node.drained);
  for (const device of node.devices) {
    if (device.drain) said.push(drain(`GPU ${device.index} drained`, device.drain));
    else if (device.drained) said.push(`GPU ${device.index} is out of service`);
    if (device.foreign) said.push(`GPU ${device.index} is used by processes outside Muster`);
  }
  for (const each of node.windows) said.push([`reservation ${each.window}: `, time(each.begins), " to ", time(each.ends)]);
  return said.map((each) => el("p", {}, each));
}

function drain(word, { from, by, reason }) {
  return [word, from > now() && [" from ", time(from)], by && ` by ${by}`, reason && `: ${reason}`];
}
