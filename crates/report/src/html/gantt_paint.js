// Bars into pixels, one number each. However many bars there are, a picture costs little more than its pixels: bars of many
// jobs in one pixel cost an assignment each. It must not touch the page, so that it runs, and is measured, without one.

(() => {
  "use strict";

  /** A stripe of what is hatched, and stripe and gap together, in pixels; a power of two. */
  const STRIPE = 3;
  const PERIOD = 8;
  /** Narrower than this, a bar has neither a gap behind it nor hatching. */
  const LEAST = 4;

  /** Where a bar lies in the picture: left, right, top, bottom; null where it is not in it. */
  function place(bars, bar, view, width, height) {
    const { start, end, top, bottom } = view;
    const across = width / (end - start);
    const down = height / (bottom - top);
    let left = Math.round((bars.from[bar] - start) * across);
    let right = Math.max(Math.round((bars.to[bar] - start) * across), left + 1);
    let high = Math.round((bars.first[bar] - top) * down);
    let low = Math.max(Math.round((bars.last[bar] + 1 - top) * down), high + 1);
    if (right <= 0 || left >= width || low <= 0 || high >= height) {
      return null;
    }
    // A gap, so that neighbours can be told apart.
    right -= right - left >= LEAST ? 1 : 0;
    low -= down >= LEAST ? 1 : 0;
    left = Math.max(left, 0);
    high = Math.max(high, 0);
    return [left, Math.min(right, width), high, Math.min(low, height)];
  }

  function fill(pixels, width, [left, right, high, low], colour) {
    for (let y = high; y < low; y += 1) {
      pixels.fill(colour, y * width + left, y * width + right);
    }
  }

  function hatch(pixels, width, [left, right, high, low], colours) {
    for (let y = high; y < low; y += 1) {
      for (let x = left; x < right; x += 1) {
        pixels[y * width + x] = ((x + y) & (PERIOD - 1)) < STRIPE ? colours.idle : colours.idleBack;
      }
    }
  }

  /** What did not run comes last: it is what one looks for, and must not be lost among what shares its pixels. */
  function paint(bars, view, pixels, width, height, colours) {
    pixels.fill(0);
    const [low, high] = muster.bars.between(bars, view.start, view.end);
    for (const runs of [1, 0]) {
      for (let bar = low; bar < high; bar += 1) {
        if (bars.runs[bar] !== runs || bars.to[bar] <= view.start) {
          continue;
        }
        const box = place(bars, bar, view, width, height);
        if (box === null) {
          continue;
        }
        if (runs) {
          fill(pixels, width, box, colours.of[bars.job[bar]]);
        } else if (box[1] - box[0] < LEAST || box[3] - box[2] < LEAST) {
          fill(pixels, width, box, colours.idle);
        } else {
          hatch(pixels, width, box, colours);
        }
      }
    }
  }

  muster.paint = { paint, place };
})();
