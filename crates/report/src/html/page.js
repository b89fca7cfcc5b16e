// Builds the page from its data. It must not insert strings of a trace other than as text.

(() => {
  "use strict";
  const { THIN, byId, count, element, grouped, label, span } = muster.words;

  const HEIGHT = 190;
  const data = JSON.parse(byId("data").textContent);
  const { comparison } = data;
  const { runs } = comparison;
  /** Arrival of the first job; all times of the page are relative to it. */
  const origin = Math.min(...runs.map((run) => run.curve.start_secs));
  const shown = new Set(runs.keys());
  const redraws = [];

  const whole = (share) => Math.round(share * 100) + THIN + "%";
  const visible = () => [...shown].sort((one, other) => one - other);

  /** Replaces the thousands separators of a sentence by those of the page. */
  const thin = (sentence) => sentence.replace(/(\d),(?=\d{3})/g, "$1" + THIN);

  function head() {
    const unit = comparison.unit === "gpu" ? "GPU" : "CPU";
    const variants = comparison.variants.length;
    const where = variants > 0 ? count(variants, "variant") : comparison.cluster;
    document.title = comparison.trace + " on " + where + " · muster simulate";
    byId("title").textContent = comparison.trace + " on " + where;
    const parts = [count(comparison.jobs, "job")];
    if (variants === 0) {
      parts.push(count(comparison.nodes, "node"), count(comparison.size, unit));
      parts.push(comparison.queues === null ? "one queue" : "queues of " + comparison.queues);
    }
    parts.push(comparison.seeds.length > 1 ? "seeds " + comparison.seeds.join(", ") : "seed " + comparison.seeds.join());
    byId("load").textContent = parts.join(" · ");
    const left = [
      [comparison.never_ran, "left out: ", " without a known runtime"],
      [comparison.too_large, "left out: ", " that do not fit the idle cluster" + (variants > 0 ? " of every variant" : "")],
      [comparison.bad_rows, "left out: ", " that cannot be read"],
      [variants > 0 ? 0 : comparison.strangers, "in the default queue: ", " whose queue does not exist"],
    ];
    const items = left.filter(([number]) => number > 0).map(([number, before, after]) => element("li", {}, before + grouped(number) + after));
    const sites = data.variants.map((sentence) => element("li", {}, thin(sentence)));
    byId("left-out").replaceChildren(...sites, ...items);
    byId("findings").replaceChildren(...data.findings.map((finding) => element("li", {}, thin(finding))));
    byId("caveat").hidden = data.caveat === null;
    byId("caveat").textContent = thin(data.caveat ?? "");
    document.querySelectorAll(".unit").forEach((place) => (place.textContent = unit));
    byId("seeds").hidden = comparison.seeds.length < 2;
    byId("seeds").textContent =
      "± is the half-width of the 95 % confidence interval of a mean over the seeds. Figures without ±, and all plots, are of the first seed.";
  }

  function legend() {
    runs.forEach((run, at) => {
      const box = element("input", { type: "checkbox", checked: true });
      box.addEventListener("change", () => {
        shown[box.checked ? "add" : "delete"](at);
        redraws.forEach((redraw) => redraw());
      });
      byId("legend").append(element("label", {}, box, muster.swatch(at), label(run) + (run.is_partial ? "*" : "")));
    });
  }

  /** Returns the points of a step function whose values are means over equal intervals. */
  function steps(run, values) {
    const { start_secs: start, width_secs: width } = run.curve;
    return values.flatMap((value, at) => [0, 1].map((end) => [start - origin + (at + end) * width, value]));
  }

  function valueAt(run, values, secs) {
    return values[Math.floor((secs + origin - run.curve.start_secs) / run.curve.width_secs)];
  }

  /** Returns the name of a position and the value of every visible run there. */
  function telling(place, of) {
    const parts = visible().map((at) => [label(runs[at]), of(runs[at])]).filter(([, text]) => text !== null);
    return place + ": " + parts.map(([name, text]) => name + " " + text).join(", ");
  }

  function overTime() {
    const ends = runs.map((run) => run.curve.start_secs - origin + run.curve.width_secs * run.curve.running.length);
    const x = { min: 0, max: Math.max(...ends, 1), words: span, ticks: (most) => muster.axis.time(0, Math.max(...ends, 1), most) };
    const most = Math.max(...runs.flatMap((run) => run.curve.waiting), 1);
    const held = (run) => run.curve.held.some((share, at) => share - run.curve.running[at] > 0.005);
    const said = (secs, key, words) => (run) => {
      const value = valueAt(run, run.curve[key], secs);
      return value === undefined ? null : words(value);
    };
    const charts = [];
    const both = (secs) => charts.forEach((chart) => chart.point(secs));
    const used = {
      label: "share of the cluster that runs jobs, over time",
      height: HEIGHT,
      x,
      y: { max: 1, ticks: [0, 0.25, 0.5, 0.75, 1], words: whole },
      lines: () => visible().flatMap((at) => {
        const dotted = { colour: at, isSecond: true, points: steps(runs[at], runs[at].curve.held) };
        return [{ colour: at, points: steps(runs[at], runs[at].curve.running) }, ...(held(runs[at]) ? [dotted] : [])];
      }),
      tell: (secs) => telling("at " + span(secs), said(secs, "running", whole)),
    };
    const queue = {
      label: "pending jobs, over time",
      height: HEIGHT,
      x,
      y: { max: most, ticks: muster.axis.counts(most, 4), words: grouped },
      lines: () => visible().map((at) => ({ colour: at, points: steps(runs[at], runs[at].curve.waiting) })),
      tell: (secs) => telling("at " + span(secs), said(secs, "waiting", grouped)),
    };
    charts.push(muster.chart(byId("used"), used, both), muster.chart(byId("queue"), queue, both));
    byId("used").before(element("p", { className: "faint", hidden: !runs.some(held) }, "Dotted: held, running or not."));
    redraws.push(...charts.map((chart) => chart.draw));
  }

  /** Returns the size of job whose mean waits differ most between runs, weighted by the number of jobs. */
  function telltale(sizes) {
    const differs = (size) => {
      const found = runs.map((run) => run.sizes.find((known) => known.size === size)).filter(Boolean);
      const means = found.map((known) => known.waited_secs.mean);
      return (Math.max(...means) - Math.min(...means)) * Math.max(...found.map((known) => known.jobs));
    };
    return sizes.reduce((best, size) => (differs(size) > differs(best) ? size : best), sizes[0]);
  }

  function waits() {
    const sizes = [...new Set(runs.flatMap((run) => run.sizes.map((known) => known.size)))];
    if (sizes.length === 0) {
      byId("waits").textContent = "No job was admitted.";
      return;
    }
    const choice = byId("size");
    choice.append(...sizes.map((size) => element("option", { value: size }, size)));
    choice.value = telltale(sizes);
    const of = (run) => run.sizes.find((known) => known.size === choice.value)?.waited_quantiles;
    const longest = () => Math.max(...runs.map((run) => of(run)?.at(-1) ?? 0), 10);
    const x = { min: 1, max: longest(), words: span, ticks: (most) => muster.axis.logTime(1, x.max, most) };
    const spec = {
      label: "share of jobs that waited at most this long in total",
      height: HEIGHT,
      log: true,
      x,
      y: { max: 1, ticks: [0, 0.25, 0.5, 0.75, 1], words: whole },
      lines: () => visible().filter((at) => of(runs[at])).map((at) => {
        const points = of(runs[at]).map((secs, percent) => [secs, percent / 100]);
        return { colour: at, points: [...points, [x.max, 1]] };
      }),
      tell: (secs) => telling("within " + span(secs), (run) => {
        const within = of(run)?.findLastIndex((wait) => wait <= secs);
        return within === undefined ? null : Math.max(within, 0) + THIN + "%";
      }),
    };
    const chart = muster.chart(byId("waits"), spec, (secs) => chart.point(secs));
    const show = () => {
      x.max = longest();
      chart.draw();
    };
    choice.addEventListener("change", show);
    redraws.push(chart.draw);
  }

  function fairness() {
    const show = () => {
      const [kind, figure] = [byId("owners-kind").value, byId("owners-figure").value];
      muster.owners(byId("owners"), comparison, kind, figure, (at) => shown.has(at));
    };
    byId("owners-kind").addEventListener("change", show);
    byId("owners-figure").addEventListener("change", show);
    redraws.push(show);
    show();
  }

  function command() {
    byId("command").textContent = comparison.command;
    byId("copy").addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(comparison.command);
        byId("copy").textContent = "copied";
      } catch {
        // Some browsers do not let a local file write to the clipboard: select the command instead.
        getSelection().selectAllChildren(byId("command"));
        byId("copy").textContent = "selected";
      }
    });
  }

  head();
  if (comparison.calibration.length > 0) {
    muster.calibration(comparison, data.calibration.map(thin));
  }
  muster.figures(byId("figures"), runs);
  legend();
  overTime();
  waits();
  if (data.gantts.length > 0) {
    muster.gantt(data, origin);
  }
  fairness();
  command();
})();
