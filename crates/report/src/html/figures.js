// The table of figures, sortable by its headings. It must not compute figures: the data of the page contains them.

(() => {
  "use strict";
  const { amount, element, grouped, label, percent, span } = muster.words;

  const plain = (number) => number.toFixed(2);
  /** Heading, path of the figure in a run (also the name of its interval), and formatting function. */
  const COLUMNS = [
    ["turnaround, mean", "turnaround_secs.mean", span],
    ["half", "turnaround_secs.p50", span],
    ["95\u202f%", "turnaround_secs.p95", span],
    ["waited, mean", "waited_secs.mean", span],
    ["half", "waited_secs.p50", span],
    ["95\u202f%", "waited_secs.p95", span],
    ["99\u202f%", "waited_secs.p99", span],
    ["most", "waited_secs.max", span],
    ["slowdown", "bounded_slowdown.mean", plain],
    ["used", "used_share", percent],
    ["held idle", "hours.held_idle", amount],
    ["stranded", "hours.stranded", amount],
    ["lost", "hours.lost", amount],
    ["out of service", "hours.down", amount],
    ["fair to users", "user_fairness", plain],
    ["fair to queues", "queue_fairness", plain],
    ["nodes ÷ fewest", "node_spread", plain],
    ["domains ÷ fewest", "domain_spread", plain],
    ["first start after", "first_start_secs.mean", span],
    ["evictions", "evictions", grouped],
    ["failures", "breakdowns", grouped],
    ["ended", "ended", grouped],
    ["refused", "refused", grouped],
    ["left", "left", grouped],
    ["stuck", "left_holding", grouped],
    ["first to last", "makespan_secs", span],
  ];

  /** Figures over all admitted jobs. */
  const OF_JOBS = ["turnaround_secs", "waited_secs", "first_start_secs", "bounded_slowdown"];

  function value(run, path) {
    const interval = run.intervals.find((known) => known.figure === path);
    if (interval) {
      return interval.mean;
    }
    if (path === "used_share") {
      return run.hours.all > 0 ? run.hours.ran / run.hours.all : 0;
    }
    if (path === "domain_spread") {
      return run.domain_spread.length > 0 ? run.domain_spread[run.domain_spread.length - 1].spread : 1;
    }
    return path.split(".").reduce((part, key) => part[key], run);
  }

  function cell(run, [, path, words]) {
    const isOfJobs = OF_JOBS.some((name) => path.startsWith(name));
    if ((isOfJobs && run.sizes.length === 0) || (run.is_partial && path.startsWith("left"))) {
      return "–";
    }
    const interval = run.intervals.find((known) => known.figure === path);
    // Jobs that never end count only up to the horizon.
    const atLeast = isOfJobs && !run.is_partial && value(run, "left") > 0 ? "≥ " : "";
    const text = atLeast + words(value(run, path));
    // The mean of counts over several seeds has decimals.
    const rough = words === grouped ? amount : words;
    return interval && interval.margin > 0 ? atLeast + rough(interval.mean) + " ± " + rough(interval.margin) : text;
  }

  function decidedBy(run) {
    if (run.model_of !== null) {
      return "a model of " + run.model_of;
    }
    return run.is_engine ? "the engine" : run.scheduler.startsWith("exec:") ? "a program" : "a model";
  }

  function row(run, at) {
    const name = element("th", { scope: "row" }, muster.swatch(at), " " + label(run) + (run.is_partial ? "*" : ""));
    const by = element("td", { className: "words" }, decidedBy(run));
    return element("tr", {}, name, by, ...COLUMNS.map((column) => element("td", {}, cell(run, column))));
  }

  /** Draws the table. Rows are in the order of the runs; a click on a heading sorts by it, a second click in reverse. */
  function figures(host, runs) {
    const body = element("tbody");
    const heads = [];
    const rows = runs.map((run, at) => ({ run, row: row(run, at) }));
    const sort = (of, head) => {
      const isUp = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
      const before = (one, other) => (of(one) < of(other) ? -1 : of(one) > of(other) ? 1 : 0);
      const sorted = [...rows].sort((one, other) => (isUp ? before(one.run, other.run) : before(other.run, one.run)));
      body.replaceChildren(...sorted.map((entry) => entry.row));
    };
    const head = (text, of) => {
      const button = element("button", { type: "button" }, text);
      const made = element("th", { scope: "col" }, button);
      button.addEventListener("click", () => sort(of, made));
      heads.push(made);
      return made;
    };
    const headings = element("tr", {}, head("scheduler", label), head("by", (run) => Number(!run.is_engine)));
    headings.append(...COLUMNS.map(([text, path]) => head(text, (run) => value(run, path))));
    body.append(...rows.map((entry) => entry.row));
    host.replaceChildren(element("table", {}, element("thead", {}, headings), body));
  }

  muster.figures = figures;
})();
