// Draws bars into an array of pixels, one number each. The cost is that of the pixels, plus an assignment for each bar that shares
// a pixel with others. It must not access the page, so that it can be tested and measured without one, nor allocate per bar,
// which would be garbage after every frame.

(() => {
  "use strict";

  /** Width of a stripe of the hatching, and of stripe and gap together (a power of two), in pixels. */
  const STRIPE = 3;
  const PERIOD = 8;
  /** Minimum width, in pixels, of a bar with hatching and a gap after it. */
  const LEAST = 4;
  /** Width, in pixels, from which `fill` of the browser is faster than a loop. */
  const WIDE = 24;

  /** Returns the scales of a view. `box` receives the rectangle of a bar from `place`: left, right, top, bottom. */
  function frame(bars, view, width, height) {
    const across = width / (view.end - view.start);
    const down = height / (view.bottom - view.top);
    return { bars, start: view.start, end: view.end, top: view.top, across, down, width, height, box: new Int32Array(4) };
  }

  /** Writes the rectangle of a bar into `box`; returns false if the bar is outside the picture. */
  function place(picture, bar) {
    const { bars, start, top, across, down, width, height, box } = picture;
    const left = Math.round((bars.from[bar] - start) * across);
    const high = Math.round((bars.first[bar] - top) * down);
    let right = Math.max(Math.round((bars.to[bar] - start) * across), left + 1);
    let low = Math.max(Math.round((bars.last[bar] + 1 - top) * down), high + 1);
    if (right <= 0 || left >= width || low <= 0 || high >= height) {
      return false;
    }
    // A gap, so that neighbours can be distinguished.
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

  /** Draws all bars. Those that did not run are drawn last, so that no other bar hides them: they are what users look for. */
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
