// Draws the visible range of a Gantt chart on a canvas: bars, names at the left, time below. It must not change the range, nor
// handle events.

(() => {
  "use strict";
  const { span } = muster.words;

  const FOOT = 20;
  const FONT = "11px system-ui, sans-serif";
  /** Approximate width of a letter and height of a line, in pixels. */
  const LETTER = 6.4;
  const LINE = 13;
  /** Maximum number of names: more are unreadable, and cost more than the bars. */
  const MOST_NAMES = 400;
  /** Minimum number of letters of an id that is drawn; fewer do not identify the job. */
  const LEAST_LETTERS = 5;
  /** Colours of jobs and users: those of the page except the ones that resemble the hatching. */
  const COLOURS = ["--c0", "--c4", "--c2", "--c3", "--c7", "--c6"];

  const gutter = (width) => (width < 500 ? 58 : 108);

  /** Returns a colour of the style sheet as a pixel value. */
  function pixel(style, name) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1;
    const context = canvas.getContext("2d");
    context.fillStyle = style.getPropertyValue(name).trim();
    context.fillRect(0, 0, 1, 1);
    return new Uint32Array(context.getImageData(0, 0, 1, 1).data.buffer)[0];
  }

  /** Returns the colours of the chart; `of` has one per job, by job or by user. */
  function colours(gantt, by) {
    const style = getComputedStyle(document.documentElement);
    const pixels = COLOURS.map((name) => pixel(style, name));
    const users = new Map();
    const number = (job, at) => {
      if (by === "job") {
        return at;
      }
      if (!users.has(job.user)) {
        users.set(job.user, users.size);
      }
      return users.get(job.user);
    };
    return {
      of: Uint32Array.from(gantt.jobs, (job, at) => pixels[number(job, at) % pixels.length]),
      run: pixel(style, "--c0"),
      idle: pixel(style, "--idle"),
      idleBack: pixel(style, "--idle-back"),
      ink: style.getPropertyValue("--ink").trim(),
      faint: style.getPropertyValue("--faint").trim(),
      line: style.getPropertyValue("--line").trim(),
      paper: style.getPropertyValue("--paper").trim(),
    };
  }

  /** Returns the text without its beginning if it is too long: names mostly differ at their end. */
  function shortened(text, room) {
    const letters = Math.floor(room / LETTER);
    return text.length <= letters ? text : letters > 1 ? "…" + text.slice(text.length - letters + 1) : "";
  }

  /** Draws the names of nodes, as many as fit, and lines between nodes that are high enough. */
  function names(context, scene, box) {
    const { gantt, view, colours: { faint, line } } = scene;
    const down = box.height / (view.bottom - view.top);
    let free = -Infinity;
    context.textAlign = "left";
    context.strokeStyle = line;
    for (const node of gantt.nodes) {
      const high = Math.max((node.first_row - view.top) * down, 0);
      const low = Math.min((node.first_row + node.rows - view.top) * down, box.height);
      if (low <= high) {
        continue;
      }
      if (low - high >= LINE) {
        context.beginPath();
        context.moveTo(0, Math.round(low) + 0.5);
        context.lineTo(box.left + box.width, Math.round(low) + 0.5);
        context.stroke();
      }
      const middle = (high + low) / 2;
      if (middle - LINE / 2 >= free && middle >= 6 && middle <= box.height - 4) {
        context.fillStyle = faint;
        context.fillText(shortened(node.name, box.left - 22), 0, middle + 4);
        free = middle + LINE / 2;
      }
      numbers(context, node, view, down, box);
    }
  }

  /** Draws the numbers of the GPUs of a node, if each row is as high as a line of text. */
  function numbers(context, node, view, down, box) {
    if (down < LINE || node.rows === 1) {
      return;
    }
    context.textAlign = "right";
    for (let row = 0; row < node.rows; row += 1) {
      const y = (node.first_row + row + 0.5 - view.top) * down;
      if (y > 4 && y < box.height - 2) {
        context.fillText(String(row), box.left - 5, y + 4);
      }
    }
    context.textAlign = "left";
  }

  function timeAxis(context, scene, box) {
    const { view, origin, colours: { faint } } = scene;
    const across = box.width / (view.end - view.start);
    const most = Math.max(2, Math.floor(box.width / 75));
    context.fillStyle = faint;
    context.textAlign = "center";
    for (const tick of muster.axis.time(view.start - origin, view.end - origin, most)) {
      const x = box.left + (tick + origin - view.start) * across;
      context.fillRect(Math.round(x), box.height, 1, 4);
      const half = (span(tick).length * LETTER) / 2;
      context.fillText(span(tick), Math.min(x, box.left + box.width - half), box.height + 16);
    }
  }

  /** Draws the ids of jobs into bars that have room for them, and a frame around every bar of the highlighted job. */
  function marks(context, scene, box) {
    const { gantt, bars, view, lit } = scene;
    const [low, high] = muster.bars.between(bars, view.start, view.end);
    const picture = muster.paint.frame(bars, view, box.width, box.height);
    let left = MOST_NAMES;
    context.textAlign = "left";
    for (let bar = low; bar < high; bar += 1) {
      const isLit = bars.job[bar] === lit;
      if (!(isLit || left > 0) || !muster.paint.place(picture, bar)) {
        continue;
      }
      const [from, to, top, bottom] = [picture.box[0], picture.box[1], picture.box[2], picture.box[3]];
      if (isLit) {
        context.strokeStyle = scene.colours.ink;
        context.strokeRect(box.left + from + 0.5, top + 0.5, Math.max(to - from - 1, 1), Math.max(bottom - top - 1, 1));
      }
      const { id } = gantt.jobs[bars.job[bar]];
      const text = bottom - top >= LINE ? shortened(id, to - from - 6) : "";
      if (text.length >= Math.min(LEAST_LETTERS, id.length) && left > 0) {
        left -= 1;
        context.fillStyle = scene.colours.paper;
        context.fillRect(box.left + from + 2, (top + bottom) / 2 - 7, text.length * LETTER + 2, LINE);
        context.fillStyle = scene.colours.ink;
        context.fillText(text, box.left + from + 3, (top + bottom) / 2 + 4);
      }
    }
  }

  /** Returns the bars drawn on a canvas, which frames of the same size reuse. */
  function picture(scene, box, ratio) {
    scene.isDense = muster.dense.isDense(scene.bars, scene.view, box.width * ratio, box.height * ratio);
    // Shades are drawn in CSS pixels: a finer resolution would show no more.
    const fine = scene.isDense ? 1 : ratio;
    const [width, height] = [Math.round(box.width * fine), Math.round(box.height * fine)];
    if (picture.sheet?.width !== width || picture.sheet?.height !== height) {
      picture.sheet = Object.assign(document.createElement("canvas"), { width, height });
      picture.image = new ImageData(width, height);
    }
    const paint = scene.isDense ? muster.dense.shade : muster.paint.paint;
    paint(scene.bars, scene.view, new Uint32Array(picture.image.data.buffer), width, height, scene.colours);
    picture.sheet.getContext("2d").putImageData(picture.image, 0, 0);
    return picture.sheet;
  }

  /**
   * Draws the chart. `scene` has `gantt`, `bars`, `view`, `colours`, `origin`, and `lit`, the number of the job under the pointer.
   * Sets `scene.isDense` to whether the bars were drawn as shades.
   */
  function draw(canvas, scene, width, height) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const box = { left: gutter(width), width: width - gutter(width), height: height - FOOT };
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(picture(scene, box, ratio), box.left, 0, box.width, box.height);
    context.font = FONT;
    names(context, scene, box);
    if (!scene.isDense || scene.lit !== null) {
      marks(context, scene, box);
    }
    timeAxis(context, scene, box);
  }

  muster.draw = { draw, colours, gutter, FOOT };
})();
