// Numbers and times as people read them, and elements that hold them. It must not know what is measured, and what it is given
// becomes text, never markup. Also begins the one name that the scripts share.
const muster = {};

(() => {
  "use strict";

  /** Narrow and never broken, as between the thousands of a number. */
  const THIN = "\u202f";

  /** `28 481`. */
  function grouped(number) {
    return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, THIN);
  }

  /** As many decimals as matter. */
  function amount(number) {
    if (number >= 99.95 || number < 1e-6 || Number.isInteger(number)) {
      return grouped(number);
    }
    if (number >= 1) {
      return number.toFixed(1);
    }
    // Two digits that say something, and a dot that is no exponent's.
    return number.toFixed(Math.min(Math.max(1 - Math.floor(Math.log10(number)), 2), 6)).replace(/\.?0+$/, "");
  }

  function percent(share) {
    return (share * 100).toFixed(1) + THIN + "%";
  }

  const two = (number) => String(number).padStart(2, "0");

  /** `450ms`, `12s`, `3m20s`, `2h05m`, `1d12h`, as the terminal has it. */
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

  /** An element with properties and children; a child that is a string becomes text. */
  function element(name, properties, ...children) {
    const made = document.createElement(name);
    Object.assign(made, properties);
    made.append(...children);
    return made;
  }

  function byId(id) {
    return document.getElementById(id);
  }

  muster.words = { THIN, grouped, amount, percent, span, count, element, byId };
})();
