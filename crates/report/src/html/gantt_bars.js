// Bars as arrays of numbers, and searches in them. It must not access the page, so that it can be tested and measured without
// one.

(() => {
  "use strict";

  /** Returns the bars ordered by `from`. `until[i]` is the latest end of bars 0 to i: it never decreases, so it can be searched. */
  function load(gantt) {
    const count = gantt.bars.length;
    const bars = {
      count,
      job: new Uint32Array(count),
      first: new Uint32Array(count),
      last: new Uint32Array(count),
      from: new Float64Array(count),
      to: new Float64Array(count),
      until: new Float64Array(count),
      runs: new Uint8Array(count),
      rows: gantt.nodes.reduce((most, node) => Math.max(most, node.first_row + node.rows), 1),
    };
    let until = -Infinity;
    gantt.bars.forEach(([job, first, last, from, to, runs], at) => {
      until = Math.max(until, to);
      bars.job[at] = job;
      bars.first[at] = first;
      bars.last[at] = last;
      bars.from[at] = from / 1000;
      bars.to[at] = to / 1000;
      bars.until[at] = until / 1000;
      bars.runs[at] = runs;
    });
    bars.start = count ? bars.from[0] : 0;
    bars.end = count ? bars.until[count - 1] : 1;
    return bars;
  }

  /** Returns how many values of an ascending array are at most `bound`. */
  function below(values, bound) {
    let low = 0;
    let high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] <= bound) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /** Returns the range of indices (end excluded) of the bars that may overlap an interval; no others do. */
  function between(bars, start, end) {
    return [below(bars.until, start), below(bars.from, end)];
  }

  /** Returns the bars on a row at an instant. */
  function at(bars, time, row) {
    const [low, high] = between(bars, time, time);
    const found = [];
    for (let bar = low; bar < high; bar += 1) {
      if (bars.to[bar] > time && bars.first[bar] <= row && bars.last[bar] >= row) {
        found.push(bar);
      }
    }
    return found;
  }

  muster.bars = { load, between, at };
})();
