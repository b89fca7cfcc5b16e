// Bars in columns of numbers, and which of them lie where. Plain arithmetic on arrays: it must not touch the page, so that it
// runs, and is measured, without one.

(() => {
  "use strict";

  /** Bars by `from`. `until[i]` is when the last of the bars 0 to i ends, so that it grows and can be searched, too. */
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

  /** How many values of a growing array are at most `bound`. */
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

  /** Bars from the first to before the second of these numbers may lie between two times; no others do. */
  function between(bars, start, end) {
    return [below(bars.until, start), below(bars.from, end)];
  }

  /** Bars at one instant on one row. */
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
