// Line charts over time, with a cursor that shows the values. It must not know what the lines mean, nor
// choose which are shown.

(() => {
  "use strict";
  const { element, byId } = muster.words;

  const LEFT = 46;
  const RIGHT = 22;
  const TOP = 6;
  const BOTTOM = 20;
  /** Number of colours for runs; beyond it colours repeat with dashed lines. */
  const COLOURS = 8;

  /** Returns a new SVG element. Its namespace is that of the empty SVG element in the page. */
  function shape(name, attributes, text) {
    const made = document.createElementNS(byId("pen").namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) {
      made.setAttribute(key, value);
    }
    if (text !== undefined) {
      made.textContent = text;
    }
    return made;
  }

  const colour = (at) => "var(--c" + (at % COLOURS) + ")";

  /** Returns functions that convert values to pixels, and back. */
  function scales(spec, width) {
    const to = spec.log ? Math.log : (value) => value;
    const from = spec.log ? Math.exp : (value) => value;
    const { min, max } = spec.x;
    const room = Math.max(width - LEFT - RIGHT, 10);
    const high = spec.height - TOP - BOTTOM;
    return {
      x: (value) => LEFT + ((to(Math.max(value, min)) - to(min)) / (to(max) - to(min))) * room,
      y: (value) => TOP + high - (value / spec.y.max) * high,
      value: (pixel) => from(to(min) + Math.min(Math.max((pixel - LEFT) / room, 0), 1) * (to(max) - to(min))),
      room,
    };
  }

  function axes(svg, spec, scale, width) {
    const foot = spec.height - BOTTOM;
    for (const tick of spec.y.ticks) {
      const y = scale.y(tick);
      svg.append(shape("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }));
      svg.append(shape("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, spec.y.words(tick)));
    }
    for (const tick of spec.x.ticks(Math.max(2, Math.floor(scale.room / 70)))) {
      const x = scale.x(tick);
      svg.append(shape("line", { class: "grid", x1: x, x2: x, y1: foot, y2: foot + 4 }));
      svg.append(shape("text", { x, y: spec.height - 5, "text-anchor": "middle" }, spec.x.words(tick)));
    }
  }

  function path(line, scale) {
    const steps = line.points.map(([x, y], at) => (at ? "L" : "M") + scale.x(x).toFixed(1) + " " + scale.y(y).toFixed(1));
    const made = shape("path", { d: steps.join(""), class: line.isSecond ? "second" : "first" });
    made.style.stroke = colour(line.colour);
    if (!line.isSecond && line.colour >= COLOURS) {
      made.style.strokeDasharray = "7 3";
    }
    return made;
  }

  /**
   * Draws a chart into `host`. `spec` has `label`, `height`, `log`, `x` (`min`, `max`, `ticks`, `words`), `y` (`max`, `ticks`,
   * `words`), `lines()`, and `tell(x)`, which returns the text below the chart. `moved(x)` is called when the cursor moves, with
   * null when it leaves the chart.
   */
  function chart(host, spec, moved) {
    const svg = shape("svg", { tabindex: "0", role: "img", "aria-label": spec.label, height: spec.height });
    const told = element("output");
    host.replaceChildren(svg, told);
    let cursor = null;
    let scale = null;

    function point(value) {
      cursor?.remove();
      cursor = null;
      told.textContent = value === null ? "" : spec.tell(value);
      if (value !== null) {
        const x = scale.x(value);
        cursor = shape("line", { class: "cursor", x1: x, x2: x, y1: TOP, y2: spec.height - BOTTOM });
        svg.append(cursor);
      }
      point.at = value;
    }
    function draw() {
      const width = host.clientWidth;
      scale = scales(spec, width);
      svg.replaceChildren();
      axes(svg, spec, scale, width);
      svg.append(...spec.lines().map((line) => path(line, scale)));
      point(point.at ?? null);
    }
    svg.addEventListener("pointermove", (event) => {
      moved(scale.value(event.clientX - svg.getBoundingClientRect().left));
    });
    svg.addEventListener("pointerleave", () => moved(null));
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) {
        event.preventDefault();
        moved(scale.value(scale.x(point.at ?? spec.x.min) + step * Math.max(4, scale.room / 100)));
      }
    });
    svg.addEventListener("blur", () => moved(null));
    new ResizeObserver(draw).observe(host);
    draw();
    return { draw, point };
  }

  /** Returns a sample of the colour of a run, striped if its lines are dashed. */
  function swatch(at) {
    const made = element("i", { className: at < COLOURS ? "swatch" : "swatch again" });
    made.style.backgroundColor = colour(at);
    return made;
  }

  muster.chart = chart;
  muster.swatch = swatch;
  muster.colour = colour;
})();
