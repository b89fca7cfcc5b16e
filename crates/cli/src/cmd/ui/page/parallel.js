// Parallel coordinates of a sweep: an axis for each parameter and one for the metric, a line for each
// element. The table beside it has the same data in words.

import { svg } from "./dom.js";

const WIDTH = 900;
const HEIGHT = 280;
const TOP = 34;
const BOTTOM = 16;
const SIDE = 70;
/** Ratio of values from which on an axis is logarithmic. */
const LOG_RATIO = 50;

function axis(name, values) {
  const numbers = values.map(Number);
  const isNumeric = values.every((value) => value !== "" && value !== null) && numbers.every(Number.isFinite);
  const span = HEIGHT - TOP - BOTTOM;
  if (!isNumeric) {
    const each = [...new Set(values)];
    const at = (value) => TOP + (each.length < 2 ? span / 2 : (each.indexOf(value) * span) / (each.length - 1));
    return { name, at, ticks: each.slice(0, 12) };
  }
  const low = Math.min(...numbers);
  const high = Math.max(...numbers);
  const isLog = low > 0 && high / low >= LOG_RATIO;
  const scale = isLog ? Math.log : (value) => value;
  const at = (value) => (high === low ? TOP + span / 2 : TOP + span - ((scale(Number(value)) - scale(low)) * span) / (scale(high) - scale(low)));
  const each = [...new Set(values)].sort((a, b) => Number(a) - Number(b));
  return { name: isLog ? `${name} (log)` : name, at, ticks: each.length <= 8 ? each : [each[0], each.at(-1)] };
}

/** Returns the plot, or `null` when fewer than two elements have reported. `best` is the index of the best one. */
export function parallel({ params, metric, elements }, best) {
  const rows = elements.filter((row) => row.report !== null && row.values.length === params.length);
  if (!metric || rows.length < 2 || !params.length) return null;
  const shown = (value) => (Number.isFinite(Number(value)) && value !== "" ? String(Number(Number(value).toPrecision(4))) : value);
  const axes = params.map((name, nth) => axis(name, rows.map((row) => row.values[nth])));
  axes.push(axis(metric.name, rows.map((row) => row.report[1])));
  const x = (nth) => SIDE + (nth * (WIDTH - 2 * SIDE)) / (axes.length - 1);
  const values = (row) => [...row.values, row.report[1]];
  const line = (row) => values(row).map((value, nth) => `${x(nth).toFixed(1)},${axes[nth].at(value).toFixed(1)}`).join(" ");
  const reports = rows.map((row) => row.report[1]);
  const low = Math.min(...reports);
  const high = Math.max(...reports);
  const goodness = (row) => {
    const part = high === low ? 1 : (row.report[1] - low) / (high - low);
    return metric.goal === "min" ? 1 - part : part;
  };
  // The best on top.
  const ordered = [...rows].sort((a, b) => goodness(a) - goodness(b));
  const lines = ordered.map((row) => svg("polyline", {
    points: line(row), class: row.index === best ? "best" : "", "stroke-opacity": (0.15 + 0.75 * goodness(row) ** 2).toFixed(2),
  }, svg("title", {}, `[${row.index}] ${params.map((name, nth) => `${name}=${row.values[nth]}`).join(" ")} ${metric.name}=${shown(row.report[1])}`)));
  const drawn = axes.map((each, nth) => svg("g", {},
    svg("line", { x1: x(nth), x2: x(nth), y1: TOP, y2: HEIGHT - BOTTOM, class: "axis" }),
    svg("text", { x: x(nth), y: 16, "text-anchor": "middle", class: "name" }, each.name),
    each.ticks.map((value) => svg("text", { x: x(nth) + 5, y: each.at(value) + 4 }, shown(value)))));
  const label = `Parallel coordinates of ${rows.length} elements: ${axes.map((each) => each.name).join(", ")}`;
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "parallel", role: "img", "aria-label": label }, lines, drawn);
}
