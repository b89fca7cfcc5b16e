// Formats numbers and durations, and creates page elements. It must not know what is measured, nor insert strings as markup.
// Declares `muster`, the only global of the scripts.
const muster = {};

(() => {
  "use strict";

  /** Narrow no-break space, the thousands separator. */
  const THIN = "\u202f";

  /** Formats a number with thousands separators: `28 481`. */
  function grouped(number) {
    return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, THIN);
  }

  /** Formats a number with as many decimals as are significant. */
  function amount(number) {
    if (number >= 99.95 || number < 1e-6 || Number.isInteger(number)) {
      return grouped(number);
    }
    if (number >= 1) {
      return number.toFixed(1);
    }
    // Two significant digits, without an exponent.
    return number.toFixed(Math.min(Math.max(1 - Math.floor(Math.log10(number)), 2), 6)).replace(/\.?0+$/, "");
  }

  function percent(share) {
    return (share * 100).toFixed(1) + THIN + "%";
  }

  const two = (number) => String(number).padStart(2, "0");

  /** Formats a duration as on the terminal: `450ms`, `12s`, `3m20s`, `2h05m`, `1d12h`. */
  function span(secs) {
    const whole = Math.floor(secs);
    if (whole === 0 && secs > 0) {
      return Math.round(secs * 1000) + "ms";
    }
    if (whole < 60) {
      return whole + "s";
    }
    if (whole < 3600) {
      return Math.floor(whole / 60) + "m" + (whole % 60 ? two(whole % 60) + "s" : "");
    }
    if (whole < 86400) {
      const minutes = Math.floor((whole % 3600) / 60);
      return Math.floor(whole / 3600) + "h" + (minutes ? two(minutes) + "m" : "");
    }
    const hours = Math.floor((whole % 86400) / 3600);
    return grouped(Math.floor(whole / 86400)) + "d" + (hours ? two(hours) + "h" : "");
  }

  function count(number, noun) {
    return grouped(number) + " " + noun + (number === 1 ? "" : "s");
  }

  /** Returns the name of a run: its scheduler, and its variant of the site if there are several. */
  function label(run) {
    return run.scheduler + (run.variant ? " (" + run.variant + ")" : "");
  }

  /** Returns a new element with properties and children; a string child becomes text. */
  function element(name, properties, ...children) {
    const made = document.createElement(name);
    Object.assign(made, properties);
    made.append(...children);
    return made;
  }

  function byId(id) {
    return document.getElementById(id);
  }

  muster.words = { THIN, grouped, amount, percent, span, count, label, element, byId };
})();
