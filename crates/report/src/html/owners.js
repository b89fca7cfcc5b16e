// Bars that compare users, or queues, under each run. It must not insert names other than as text.

(() => {
  "use strict";
  const { amount, count, element, label, span } = muster.words;

  /** Returns every owner (user or queue) of any run, in order of first appearance. */
  function gathered(runs, kind) {
    const owners = new Map();
    runs.forEach((run, at) => {
      for (const owner of run[kind]) {
        const known = owners.get(owner.name) ?? { name: owner.name, jobs: owner.jobs, hours: owner.hours, by: [] };
        known.by[at] = owner;
        owners.set(owner.name, known);
      }
    });
    return [...owners.values()];
  }

  function bar(run, at, share, text) {
    const filled = element("i");
    filled.style.width = (share * 100).toFixed(2) + "%";
    filled.style.background = muster.colour(at);
    return element("div", { className: "bar" }, element("span", { title: label(run) }, label(run)), filled, element("span", {}, text));
  }

  /** Draws the bars. `figure` is `stretch` or a duration in seconds; `isShown(run number)` selects the runs. */
  function owners(host, comparison, kind, figure, isShown) {
    const { runs } = comparison;
    const unit = comparison.unit === "gpu" ? "GPU" : "CPU";
    const all = gathered(runs, kind);
    const values = all.flatMap((owner) => runs.map((_, at) => (isShown(at) && owner.by[at] ? owner.by[at][figure] : 0)));
    const most = Math.max(...values, 1e-9);
    const words = figure === "stretch" ? (value) => value.toFixed(2) : span;
    const blocks = all.map((owner) => {
      const facts = ", " + count(owner.jobs, "job") + ", " + amount(owner.hours) + " " + unit + "-hours";
      const title = element("div", {}, element("b", {}, owner.name), element("span", { className: "faint" }, facts));
      const block = element("div", { className: "owner" }, title);
      runs.forEach((run, at) => {
        const known = owner.by[at];
        if (isShown(at) && known) {
          block.append(bar(run, at, known[figure] / most, words(known[figure])));
        }
      });
      return block;
    });
    host.replaceChildren(...blocks);
  }

  muster.owners = owners;
})();
