// Draws many bars per pixel as shades: the held part of the pixel, and which part of that did not run. Drawn one over the other,
// the last bar would hide all others. It must not access the page, so that it can be tested and measured without one.

(() => {
  "use strict";

  /** Rows per pixel above which bars are drawn as shades, as with more bars than pixels: single bars cannot be distinguished. */
  const ROWS = 2;

  function isDense(bars, view, width, height) {
    const [low, high] = muster.bars.between(bars, view.start, view.end);
    const rows = view.bottom - view.top;
    return rows > ROWS * height || high - low > width * Math.min(rows, height);
  }

  /** Returns cleared buffers for sums, reused by frames of the same size. A row has two more entries, for steps after its end. */
  function sums(width, height) {
    const length = (width + 2) * height;
    if (sums.kept?.[0].length !== length) {
      sums.kept = [new Float32Array(length), new Float32Array(length)];
    }
    sums.kept.forEach((kept) => kept.fill(0));
    return sums.kept;
  }

  /** Adds a range of a row as differences between neighbouring pixels: their prefix sums are the covered part of each pixel. */
  function step(steps, row, from, to, weight) {
    const first = Math.floor(from);
    const last = Math.floor(to);
    if (first === last) {
      steps[row + first] += (to - from) * weight;
      steps[row + first + 1] -= (to - from) * weight;
      return;
    }
    const head = (first + 1 - from) * weight;
    const tail = (to - last) * weight;
    steps[row + first] += head;
    steps[row + first + 1] += weight - head;
    steps[row + last] += tail - weight;
    steps[row + last + 1] -= tail;
  }

  function add(bars, view, width, height, [held, ran]) {
    const across = width / (view.end - view.start);
    const down = height / (view.bottom - view.top);
    const [low, high] = muster.bars.between(bars, view.start, view.end);
    for (let bar = low; bar < high; bar += 1) {
      const from = Math.max((bars.from[bar] - view.start) * across, 0);
      const to = Math.min((bars.to[bar] - view.start) * across, width);
      const above = Math.max((bars.first[bar] - view.top) * down, 0);
      const below = Math.min((bars.last[bar] + 1 - view.top) * down, height);
      if (to <= from || below <= above) {
        continue;
      }
      for (let y = Math.floor(above); y < below; y += 1) {
        const weight = Math.min(below, y + 1) - Math.max(above, y);
        step(held, y * (width + 2), from, to, weight);
        if (bars.runs[bar]) {
          step(ran, y * (width + 2), from, to, weight);
        }
      }
    }
  }

  const mixed = (one, other, share, shift) => {
    const [from, to] = [(one >>> shift) & 255, (other >>> shift) & 255];
    return Math.round(from + (to - from) * share) << shift;
  };

  /** Returns a table of 256 colours from running to idle, so that none is mixed per pixel. */
  function blend(colours) {
    const mix = (at) => [0, 8, 16].reduce((pixel, shift) => pixel | mixed(colours.run, colours.idle, at / 255, shift), 0);
    return Uint32Array.from({ length: 256 }, (_, at) => mix(at) & 0xffffff);
  }

  function shade(bars, view, pixels, width, height, colours) {
    const [held, ran] = sums(width, height);
    add(bars, view, width, height, [held, ran]);
    colours.blend ??= blend(colours);
    const { blend: blended } = colours;
    for (let y = 0; y < height; y += 1) {
      let [all, run, pixel] = [0, 0, 0];
      for (let x = 0, at = y * (width + 2); x < width; x += 1, at += 1) {
        // Most pixels equal the one to the left.
        if (held[at] !== 0 || ran[at] !== 0) {
          all += held[at];
          run += ran[at];
          // Rounding may leave a small remainder of differences that cancel.
          const idle = all > 1e-3 ? Math.min(Math.max(1 - run / all, 0), 1) : 0;
          const depth = all > 1e-3 ? Math.min(all, 1) : 0;
          pixel = ((depth * 255 + 0.5) << 24) | blended[(idle * 255 + 0.5) | 0];
        }
        pixels[y * width + x] = pixel;
      }
    }
  }

  muster.dense = { isDense, shade };
})();
