// Elements of an array or sweep: a table, and for a sweep with a metric a plot.

import { get } from "./api.js";
import { el, show } from "./dom.js";
import { Grid } from "./grid.js";
import { parallel } from "./parallel.js";
import { STATES, since, state } from "./words.js";

/** Returns the index of the element with the best report. */
function bestOf({ metric, elements }) {
  const sign = metric?.goal === "max" ? -1 : 1;
  const reported = elements.filter((row) => row.report !== null);
  reported.sort((a, b) => sign * (a.report[1] - b.report[1]));
  return metric && reported.length ? reported[0].index : null;
}

const comparable = (value) => (value !== "" && Number.isFinite(Number(value)) ? Number(value) : value);

/** The elements of a job; `refresh` reads them anew. */
export class Elements {
  constructor(job) {
    this.job = job;
    this.plot = el("div", { class: "plot" });
    this.table = el("div", {});
    this.node = el("div", {}, this.plot, this.table);
  }

  /** Ends the observation of the screen. */
  end() {
    this.grid?.end();
  }

  async refresh() {
    const list = await get(`/page/jobs/${this.job}/elements`);
    this.grid ??= this.#grid(list);
    this.best = bestOf(list);
    this.grid.set(list.elements);
    show(this.plot, parallel(list, this.best));
  }

  #grid({ params, metric }) {
    const columns = [
      { title: "Index", class: "c-id", isFirst: true, sort: (row) => row.index, cell: (row) => el("a", { href: `#/job/${this.job}?index=${row.index}`, "data-focus": "name" }, `[${row.index}]`) },
      { title: "State", class: "c-state", sort: (row) => STATES.indexOf(row.state), cell: (row) => state(row.state) },
      metric && { title: metric.name, class: "c-param", down: metric.goal === "max", sort: (row) => row.report?.[1], cell: (row) => row.report && [el("span", {}, Number(row.report[1].toPrecision(6))), row.index === this.best && el("span", { class: "tag good" }, "best")] },
      metric && { title: "Step", class: "c-id", down: true, sort: (row) => row.report?.[0], cell: (row) => row.report?.[0] },
      ...params.map((name, nth) => ({ title: name, class: "c-param", sort: (row) => comparable(row.values[nth] ?? ""), cell: (row) => row.values[nth] ?? "" })),
      { title: "Ran", class: "c-time", down: true, sort: (row) => row.started && (row.ended ?? Date.now()) - row.started, cell: (row) => since(row.started, row.ended) },
      { title: "Outcome", class: "c-note", cell: (row) => row.outcome && el("span", { title: row.outcome }, row.outcome) },
    ].filter(Boolean);
    const sort = metric ? { title: metric.name, down: metric.goal === "max" } : { title: "Index" };
    const grid = new Grid({ caption: "Elements", columns, id: (row) => row.index, sort });
    this.table.replaceChildren(grid.node);
    return grid;
  }
}
