// Table of many rows, of which only those on the screen are elements. Rows have one height, so that
// scrolling needs no measuring; for screen readers each says its place among all.

import { el } from "./dom.js";

/** Rows above and below the screen that exist as well. */
const MARGIN = 12;
const NARROW = matchMedia("(max-width: 760px)");
/** Heights of a row in pixels; on a narrow screen it has a second line. As in the style. */
const rowHeight = (isTall) => (isTall && NARROW.matches ? 58 : 38);

/**
 * A table whose columns have `title`, `cell(row)`, and optionally `sort(row)`, `class`, `isFirst`, and `isUntitled`
 * when only screen readers tell its title.
 * `id(row)` tells rows apart; `isTall` when its rows have a second line on a narrow screen.
 */
export class Grid {
  constructor({ caption, columns, id, sort, isTall }) {
    Object.assign(this, { columns, id, isTall });
    this.order = sort ?? null;
    this.rows = [];
    this.body = el("tbody", {});
    this.heads = columns.map((column) => this.#head(column));
    this.table = el("table", { class: `grid${isTall ? " tall" : ""}` }, el("caption", { class: "hidden" }, caption),
      el("thead", {}, el("tr", { "aria-rowindex": 1 }, this.heads)), this.body);
    this.node = el("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": caption }, this.table);
    this.above = el("tr", { class: "space", "aria-hidden": "true" }, el("td"));
    this.below = this.above.cloneNode(true);
    this.node.addEventListener("scroll", () => this.#soon(), { passive: true });
    this.watcher = new ResizeObserver(() => this.#soon());
    this.watcher.observe(this.node);
  }

  /** Ends its observation of the screen. */
  end() {
    this.watcher.disconnect();
  }

  /** Shows these rows, in the chosen order. */
  set(rows) {
    this.rows = rows;
    this.#sorted();
    this.#paint(true);
  }

  #head(column) {
    if (!column.sort) return el("th", { scope: "col", class: column.class }, el("span", { class: column.isUntitled && "hidden" }, column.title));
    const turn = () => {
      const is = this.order?.title === column.title;
      this.order = { title: column.title, down: is ? !this.order.down : Boolean(column.down) };
      this.#sorted();
      this.node.scrollTop = 0;
      this.#paint(true);
    };
    return el("th", { scope: "col", class: column.class }, el("button", { type: "button", onclick: turn }, column.title));
  }

  #sorted() {
    const column = this.columns.find((each) => each.title === this.order?.title && each.sort);
    this.columns.forEach((each, at) => {
      const is = each === column;
      if (each.sort) this.heads[at].setAttribute("aria-sort", is ? (this.order.down ? "descending" : "ascending") : "none");
    });
    if (!column) { this.ordered = this.rows; return; }
    const sign = this.order.down ? -1 : 1;
    const keyed = this.rows.map((row) => [column.sort(row), row]);
    // Rows without a value come last in both directions.
    keyed.sort(([a], [b]) => {
      const lacks = (value) => value === null || value === undefined || Number.isNaN(value);
      if (lacks(a) || lacks(b)) return Number(lacks(a)) - Number(lacks(b));
      if (a === b) return 0;
      return a < b ? -sign : sign;
    });
    this.ordered = keyed.map(([, row]) => row);
  }

  #soon() {
    this.frame ??= requestAnimationFrame(() => { this.frame = undefined; this.#paint(false); });
  }

  #paint(isNew) {
    const rows = this.ordered ?? [];
    const height = rowHeight(this.isTall);
    const first = Math.floor(this.node.scrollTop / height);
    const last = Math.min(rows.length, first + Math.ceil(this.node.clientHeight / height));
    // While what is on the screen exists, scrolling makes nothing.
    if (!isNew && first >= this.from && last <= this.to && height === this.height) return;
    const from = Math.max(0, first - MARGIN);
    const to = Math.min(rows.length, last + MARGIN);
    Object.assign(this, { from, to, height });
    this.table.setAttribute("aria-rowcount", rows.length + 1);
    const focused = this.#focused();
    const made = rows.slice(from, to).map((row, at) => this.#row(row, from + at));
    this.above.firstChild.style.height = `${from * height}px`;
    this.below.firstChild.style.height = `${Math.max(0, rows.length - to) * height}px`;
    this.body.replaceChildren(this.above, ...made, this.below);
    if (focused) this.body.querySelector(`[data-row="${CSS.escape(focused.row)}"] [data-focus="${focused.part}"]`)?.focus({ preventScroll: true });
  }

  #focused() {
    const active = document.activeElement;
    const row = this.body.contains(active) ? active.closest("tr")?.dataset.row : undefined;
    return row === undefined ? null : { row, part: active.dataset.focus };
  }

  #row(row, at) {
    const cells = this.columns.map((column) =>
      el(column.isFirst ? "th" : "td", { class: column.class, scope: column.isFirst ? "row" : null }, column.cell(row)));
    return el("tr", { "aria-rowindex": at + 2, "data-row": this.id(row) }, cells);
  }
}
