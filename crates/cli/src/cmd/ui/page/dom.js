// Elements from code. All text goes through `clean` and becomes text nodes, never markup: names, output
// and reasons are written by users.

const SVG = "http://www.w3.org/2000/svg";

// Characters that change how other text is shown: those that commands replace on a terminal, too.
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Returns text in which characters that hide or reorder text are `?`. */
export function clean(text) {
  return String(text).replace(UNSAFE, "?");
}

/** As `clean`, for text of several lines. */
export function cleanLines(text) {
  return String(text).replace(UNSAFE, (c) => (c === "\n" || c === "\t" ? c : "?"));
}

function fill(made, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "vars") for (const [key, of] of Object.entries(value)) made.style.setProperty(key, of);
    else if (name === "title" || name === "aria-label") made.setAttribute(name, clean(value));
    else made.setAttribute(name, value === true ? "" : value);
  }
  add(made, children);
  return made;
}

/** Appends nodes and texts; `null`, `undefined` and `false` are left out. */
function add(parent, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(clean(child)));
  }
}

/** Makes an HTML element. `on…` are listeners, `vars` are properties of its style. */
export function el(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** Makes an SVG element. */
export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/** Replaces the content of an element, unless it shows the same already: no flicker, no lost focus. */
export function show(parent, ...children) {
  const next = document.createElement("div");
  add(next, children);
  const kept = document.activeElement;
  const path = kept && parent.contains(kept) ? kept.getAttribute("data-focus") : null;
  if (next.childNodes.length === parent.childNodes.length
    && [...next.childNodes].every((node, at) => node.isEqualNode(parent.childNodes[at]) && !hasListeners(node))) return;
  parent.replaceChildren(...next.childNodes);
  if (path) parent.querySelector(`[data-focus="${CSS.escape(path)}"]`)?.focus({ preventScroll: true });
}

// Buttons and fields carry listeners, which may hold older data: they are replaced.
function hasListeners(node) {
  return node.nodeType === Node.ELEMENT_NODE
    && (node.matches("button,input,select") || node.querySelector("button,input,select") !== null);
}

/** Returns a sentence of the server; commands between backticks become code. */
export function sentence(text) {
  return text.split("`").map((part, nth) => (nth % 2 ? el("code", {}, part) : part));
}

/** Shows a short message, which disappears. */
export function tell(text, kind = "good") {
  const host = document.getElementById("messages");
  const made = el("p", { class: `message ${kind}` }, text);
  host.append(made);
  setTimeout(() => made.remove(), kind === "bad" ? 12000 : 6000);
}
