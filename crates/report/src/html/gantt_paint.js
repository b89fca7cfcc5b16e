// Bars into pixels, one number each. However many bars there are, a picture costs little more than its pixels, and an assignment
// for each bar that shares one with others. It must not touch the page, so that it runs, and is measured, without one; nor make
// anything per bar, which would have to be thrown away again with every frame.

(() => {
  "use strict";

  /** A stripe of what is hatched, and stripe and gap together, in pixels; a power of two. */
  const STRIPE = 3;
  const PERIOD = 8;
  /** Narrower than this, a bar has neither a gap behind it nor hatching. */
  const LEAST = 4;
  /** From here on the fill of the browser is faster than a loop. */
  const WIDE = 24;

  /** A picture of a view, and where its bars lie in it. `box` is the place of the last one: left, right, top, bottom. */
  function frame(bars, view, width, height) {
    const across = width / (view.end - view.start);
    const down = height / (view.bottom - view.top);
    return { bars, start: view.start, end: view.end, top: view.top, across, down, width, height, box: new Int32Array(4) };
  }

  /** Puts the place of a bar into `box`; false where it is not in the picture. */
  function place(picture, bar) {
    const { bars, start, top, across, down, width, height, box } = picture;
    const left = Math.round((bars.from[bar] - start) * across);
    const high = Math.round((bars.first[bar] - top) * down);
    let right = Math.max(Math.round((bars.to[bar] - start) * across), left + 1);
    let low = Math.max(Math.round((bars.last[bar] + 1 - top) * down), high + 1);
    if (right <= 0 || left >= width || low <= 0 || high >= height) {
      return false;
    }
    // A gap, so that neighbours can be told apart.
    right -= right - left >= LEAST ? 1 : 0;
    low -= down >= LEAST ? 1 : 0;
    box[0] = Math.max(left, 0);
    box[1] = Math.min(right, width);
    box[2] = Math.max(high, 0);
    box[3] = Math.min(low, height);
    return true;
  }

  function fill(pixels, { width, box }, colour) {
    const [left, right, high, low] = [box[0], box[1], box[2], box[3]];
    for (let y = high; y < low; y += 1) {
      const end = y * width + right;
      if (right - left >= WIDE) {
        pixels.fill(colour, y * width + left, end);
        continue;
      }
      for (let at = y * width + left; at < end; at += 1) {
        pixels[at] = colour;
      }
    }
  }

  function hatch(pixels, { width, box }, stripe, gap) {
    for (let y = box[2]; y < box[3]; y += 1) {
      for (let x = box[0]; x < box[1]; x += 1) {
        pixels[y * width + x] = ((x + y) & (PERIOD - 1)) < STRIPE ? stripe : gap;
      }
    }
  }

  /** What did not run comes last: it is what one looks for, and must not be lost among what shares its pixels. */
  function paint(bars, view, pixels, width, height, colours) {
    const picture = frame(bars, view, width, height);
    const { box } = picture;
    const [low, high] = muster.bars.between(bars, view.start, view.end);
    pixels.fill(0);
    for (let runs = 1; runs >= 0; runs -= 1) {
      for (let bar = low; bar < high; bar += 1) {
        if (bars.runs[bar] !== runs || bars.to[bar] <= view.start || !place(picture, bar)) {
          continue;
        }
        if (runs) {
          fill(pixels, picture, colours.of[bars.job[bar]]);
        } else if (box[1] - box[0] < LEAST || box[3] - box[2] < LEAST) {
          fill(pixels, picture, colours.idle);
        } else {
          hatch(pixels, picture, colours.idle, colours.idleBack);
        }
      }
    }
  }

  muster.paint = { frame, place, paint };
})();
