// What part of a Gantt is seen, and how it moves. Numbers in, numbers out: it must not draw, nor listen.

(() => {
  "use strict";

  /** Smallest visible range, in seconds and rows. */
  const LEAST_SECS = 1;
  const LEAST_ROWS = 2;

  function all(bars) {
    return { start: bars.start, end: Math.max(bars.end, bars.start + LEAST_SECS), top: 0, bottom: bars.rows };
  }

  /** Two ends in between two bounds, no nearer to each other than `least`, and as far as they were where there is room. */
  function kept(low, high, least, lowest, highest) {
    const length = Math.min(Math.max(high - low, least), highest - lowest);
    const begin = Math.min(Math.max(low, lowest), highest - length);
    return [begin, begin + length];
  }

  function within(bars, view) {
    const whole = all(bars);
    const [start, end] = kept(view.start, view.end, LEAST_SECS, whole.start, whole.end);
    const [top, bottom] = kept(view.top, view.bottom, Math.min(LEAST_ROWS, bars.rows), 0, bars.rows);
    return { start, end, top, bottom };
  }

  /** `factor` below 1 comes nearer; what lies at the shares `x` and `y` of the picture stays there. */
  function zoomed(bars, view, factor, x, rowFactor = 1, y = 0.5) {
    const time = view.start + (view.end - view.start) * x;
    const row = view.top + (view.bottom - view.top) * y;
    return within(bars, {
      start: time - (time - view.start) * factor,
      end: time + (view.end - time) * factor,
      top: row - (row - view.top) * rowFactor,
      bottom: row + (view.bottom - row) * rowFactor,
    });
  }

  /** By shares of the picture. */
  function moved(bars, view, x, y) {
    const secs = (view.end - view.start) * x;
    const rows = (view.bottom - view.top) * y;
    return within(bars, {
      start: view.start + secs,
      end: view.end + secs,
      top: view.top + rows,
      bottom: view.bottom + rows,
    });
  }

  muster.view = { all, zoomed, moved };
})();
