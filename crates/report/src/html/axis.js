// Positions of the ticks of an axis. Numbers in, numbers out: it must not draw.

(() => {
  "use strict";

  const MINUTE = 60;
  const HOUR = 3600;
  const DAY = 86400;
  /** Usual steps of time, in seconds. */
  const STEPS = [
    0.001, 0.01, 0.1, 1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR,
    3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 5 * DAY, 10 * DAY, 20 * DAY, 50 * DAY, 100 * DAY, 200 * DAY, 500 * DAY, 1000 * DAY,
  ];
  /** Ticks of a logarithmic time axis, in seconds. */
  const MARKS = [1, 10, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY, 365 * DAY, 3650 * DAY];

  function every(step, min, max) {
    const ticks = [];
    for (let at = Math.ceil(min / step); at * step <= max; at += 1) {
      ticks.push(at * step);
    }
    return ticks;
  }

  /** Returns ticks of a linear time axis, in seconds, at most `most` of them. */
  function time(min, max, most) {
    const step = STEPS.find((known) => (max - min) / known <= most) ?? (max - min) / most;
    return every(step, min, max);
  }

  /** Returns ticks of a logarithmic time axis, in seconds, at most `most` of them. */
  function logTime(min, max, most) {
    const marks = MARKS.filter((mark) => mark >= min && mark <= max);
    const stride = Math.max(1, Math.ceil(marks.length / most));
    return marks.filter((_, at) => at % stride === 0);
  }

  /** Returns whole numbers from 0 on, in steps of 1, 2, 5, 10 and so on, at most about `most` of them. */
  function counts(max, most) {
    const rough = Math.max(max / most, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((times) => times * power).find((known) => known >= rough * 0.999);
    return every(step, 0, max * 1.0001);
  }

  muster.axis = { time, logTime, counts };
})();
