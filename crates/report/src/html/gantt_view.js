// Visible range of a Gantt chart, and how it zooms and moves. Numbers in, numbers out: it must not draw, nor handle events.

(() => {
  "use strict";

  /** Smallest visible range, in seconds and rows. */
  const LEAST_SECS = 1;
  const LEAST_ROWS = 2;

  function all(bars) {
    return { start: bars.start, end: Math.max(bars.end, bars.start + LEAST_SECS), top: 0, bottom: bars.rows };
  }

  /** Returns the interval moved within two bounds, with its length if possible, and at least `least` long. */
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

  /** Returns the zoomed view: a `factor` below 1 zooms in; the point at the fractions `x` and `y` of the picture stays in place. */
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

  /** Returns the view moved by fractions of the picture. */
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
