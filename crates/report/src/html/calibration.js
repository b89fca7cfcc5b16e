// The table of recorded and simulated waits. It must not compute figures: the data of the page contains them.

(() => {
  "use strict";
  const { byId, element, grouped, percent, span } = muster.words;

  const HEADINGS = ["scheduler", "jobs", "recorded, mean", "half", "95\u202f%", "simulated, mean", "half", "95\u202f%", "error", "near"];

  function row(name, of) {
    const spreads = [of.recorded_secs, of.simulated_secs].flatMap((secs) => [secs.mean, secs.p50, secs.p95]);
    const cells = [grouped(of.jobs), ...spreads.map(span), span(of.median_error_secs), percent(of.near)];
    return element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((text) => element("td", {}, text)));
  }

  /** Shows the section: the sentences, a row per scheduler, and below it one per size of job if there are several. */
  function calibration(comparison, sentences) {
    const unit = comparison.unit === "gpu" ? "GPU" : "CPU";
    const rows = comparison.calibration.flatMap((of) => {
      const sizes = of.sizes.length > 1 ? of.sizes : [];
      return [row(of.scheduler + (of.is_partial ? "*" : ""), of), ...sizes.map((size) => row(size.size + " " + unit + "s", size))];
    });
    const head = element("tr", {}, ...HEADINGS.map((text) => element("th", { scope: "col" }, text)));
    byId("calibration").hidden = false;
    byId("calibration-said").replaceChildren(...sentences.map((text) => element("li", {}, text)));
    byId("calibration-table").replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
  }

  muster.calibration = calibration;
})();
