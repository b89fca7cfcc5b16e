// Gantt chart in the page: which run and which range are shown, and the text for the bar under the pointer. It must not draw bars.

(() => {
  "use strict";
  const { byId, count, element, span } = muster.words;

  const ROW = 18;
  const LEAST_HEIGHT = 120;
  const MOST_HEIGHT = 480;
  /** Most jobs described in the tooltip, where several share a GPU. */
  const MOST_TOLD = 3;
  /** Zoom factor of a key or a button, distance of an arrow key as a fraction of the view, and zoom per unit of the wheel. */
  const STEP = 1.5;
  const FAR = 0.1;
  const NOTCH = 0.0018;

  /** Returns the name of a row: `node-3, GPU 4`, or only the node if it has one row. */
  function rowName(gantt, row, unit) {
    const node = gantt.nodes.find((known) => row < known.first_row + known.rows);
    return node.rows === 1 ? node.name : node.name + ", " + unit + " " + (row - node.first_row);
  }

  /** Returns the number of rows that the job of a bar holds while the bar lasts, that bar included. */
  function rowsBeside(bars, bar) {
    const [low, high] = muster.bars.between(bars, bars.from[bar], bars.to[bar]);
    let rows = 0;
    for (let other = low; other < high; other += 1) {
      const isBeside = bars.job[other] === bars.job[bar] && bars.from[other] < bars.to[bar] && bars.to[other] > bars.from[bar];
      rows += isBeside ? bars.last[other] - bars.first[other] + 1 : 0;
    }
    return rows;
  }

  function told({ gantt, bars, origin, unit }, bar, row) {
    const job = gantt.jobs[bars.job[bar]];
    const held = "holds " + count(rowsBeside(bars, bar), unit) + (bars.runs[bar] ? " and runs" : " and does not run");
    const when = span(bars.from[bar] - origin) + " to " + span(bars.to[bar] - origin);
    const long = span(bars.to[bar] - bars.from[bar]);
    return [job.id + " of " + job.user, rowName(gantt, row, unit), held, when + ", " + long].join("\n");
  }

  /** Draws once at the next frame, however often it is called before. */
  function soon(scene) {
    if (scene.isDue) {
      return;
    }
    scene.isDue = true;
    requestAnimationFrame(() => {
      scene.isDue = false;
      const height = Math.min(Math.max(scene.bars.rows * ROW, LEAST_HEIGHT), MOST_HEIGHT) + muster.draw.FOOT;
      scene.canvas.style.height = height + "px";
      muster.draw.draw(scene.canvas, scene, scene.host.clientWidth, height);
      byId("gantt-dense").hidden = !scene.isDense;
    });
  }

  /** Shows another range. Returns true if it differs from the one before. */
  function see(scene, view) {
    const isSame = ["start", "end", "top", "bottom"].every((end) => view[end] === scene.view[end]);
    scene.view = view;
    soon(scene);
    return !isSame;
  }

  function recolour(scene) {
    scene.colours = muster.draw.colours(scene.gantt, byId("gantt-colour").value);
    soon(scene);
  }

  function choose(scene, gantt) {
    scene.gantt = gantt;
    scene.bars = muster.bars.load(gantt);
    scene.bars.start = Math.min(scene.bars.start, scene.origin);
    scene.view = muster.view.all(scene.bars);
    byId("gantt-note").textContent = gantt.left_out ? "Left out: " + count(gantt.left_out, "later bar") + "." : "";
    scene.canvas.setAttribute("aria-label", "Gantt of " + gantt.scheduler + ", " + count(scene.bars.count, "bar"));
    recolour(scene);
  }

  /** Returns the position of the pointer as fractions of the width and height of the chart. */
  function share(scene, event) {
    const box = scene.canvas.getBoundingClientRect();
    const left = muster.draw.gutter(box.width);
    const inside = (value) => Math.min(Math.max(value, 0), 1);
    return {
      x: inside((event.clientX - box.left - left) / (box.width - left)),
      y: inside((event.clientY - box.top) / (box.height - muster.draw.FOOT)),
      box,
    };
  }

  function point(scene, event) {
    const { x, y, box } = share(scene, event);
    const { view, bars, tip } = scene;
    const row = Math.min(Math.floor(view.top + (view.bottom - view.top) * y), bars.rows - 1);
    const found = muster.bars.at(bars, view.start + (view.end - view.start) * x, row);
    const lines = found.slice(0, MOST_TOLD).map((bar) => told(scene, bar, row));
    if (found.length > MOST_TOLD) {
      lines.push("and " + (found.length - MOST_TOLD) + " more");
    }
    tip.hidden = lines.length === 0;
    tip.textContent = lines.join("\n");
    const [left, top] = [event.clientX - box.left, event.clientY - box.top];
    const above = Math.max(top - tip.offsetHeight - 10, 0);
    tip.style.left = Math.max(Math.min(left + 14, box.width - tip.offsetWidth), 0) + "px";
    tip.style.top = (top + 18 + tip.offsetHeight > box.height ? above : top + 18) + "px";
    scene.lit = found.length ? bars.job[found[0]] : null;
    soon(scene);
  }

  function leave(scene) {
    scene.tip.hidden = true;
    scene.lit = null;
    soon(scene);
  }

  function turned(scene, event) {
    const { x, y } = share(scene, event);
    const notches = (event.deltaY || event.deltaX) * (event.deltaMode === 1 ? 20 : 1);
    const factor = Math.exp(Math.min(Math.max(notches, -400), 400) * NOTCH);
    const [secs, rows] = event.shiftKey ? [1, factor] : [factor, 1];
    // At the limit of the zoom the event is not consumed, so the page scrolls as usual.
    if (see(scene, muster.view.zoomed(scene.bars, scene.view, secs, x, rows, y))) {
      event.preventDefault();
      leave(scene);
    }
  }

  function followPointer(scene) {
    const { canvas } = scene;
    let grip = null;
    canvas.addEventListener("wheel", (event) => turned(scene, event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      grip = { at: share(scene, event), view: scene.view };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (grip === null || event.buttons === 0) {
        grip = null;
        point(scene, event);
        return;
      }
      const now = share(scene, event);
      leave(scene);
      see(scene, muster.view.moved(scene.bars, grip.view, grip.at.x - now.x, grip.at.y - now.y));
    });
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, () => (grip = null));
    }
    canvas.addEventListener("pointerleave", () => leave(scene));
  }

  function followKeys(scene) {
    const zoom = (factor) => () => muster.view.zoomed(scene.bars, scene.view, factor, 0.5);
    const move = (x, y) => () => muster.view.moved(scene.bars, scene.view, x, y);
    const all = () => muster.view.all(scene.bars);
    const keys = {
      "+": zoom(1 / STEP),
      "=": zoom(1 / STEP),
      "-": zoom(STEP),
      "0": all,
      ArrowLeft: move(-FAR, 0),
      ArrowRight: move(FAR, 0),
      ArrowUp: move(0, -FAR),
      ArrowDown: move(0, FAR),
    };
    scene.canvas.addEventListener("keydown", (event) => {
      const to = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
      if (to && see(scene, to())) {
        event.preventDefault();
      }
    });
    byId("gantt-in").addEventListener("click", () => see(scene, zoom(1 / STEP)()));
    byId("gantt-out").addEventListener("click", () => see(scene, zoom(STEP)()));
    byId("gantt-all").addEventListener("click", () => see(scene, all()));
  }

  /** Shows the first Gantt chart, and later the one that the user selects. */
  function gantt(data, origin) {
    const [host, canvas, tip] = ["gantt-host", "gantt-canvas", "gantt-tip"].map(byId);
    const unit = data.comparison.unit === "gpu" ? "GPU" : "node";
    const scene = { host, canvas, tip, unit, origin, lit: null, isDue: false };
    const choice = byId("gantt-run");
    choice.append(...data.gantts.map((one, at) => element("option", { value: String(at) }, one.scheduler)));
    choice.addEventListener("change", () => choose(scene, data.gantts[Number(choice.value)]));
    byId("gantt-colour").addEventListener("change", () => recolour(scene));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => recolour(scene));
    byId("gantt").hidden = false;
    choose(scene, data.gantts[0]);
    followPointer(scene);
    followKeys(scene);
    new ResizeObserver(() => soon(scene)).observe(host);
  }

  muster.gantt = gantt;
})();
