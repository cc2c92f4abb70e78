"use strict";
// What all views use: the data, elements, numbers as people read them, the theme.

const data = JSON.parse(document.getElementById("data").textContent);

// An element. Strings become text, never markup; `onclick` and the like become listeners.
function make(selector, ...parts) {
  const [tag, ...classes] = selector.split("."),
    node = document.createElement(tag);
  if (classes.length) node.className = classes.join(" ");
  if (tag === "button") node.type = "button";
  const attributes = parts[0]?.constructor === Object ? parts.shift() : {};
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...parts.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

const SCALES = {
  ns: ["ns", "µs", "ms", "s"],
  bytes: ["B", "KB", "MB", "GB", "TB", "PB"],
  flop: ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"],
  "bytes/s": ["B/s", "KB/s", "MB/s", "GB/s", "TB/s", "PB/s"],
  "flop/s": ["FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"],
};
const PLAIN = ["", "k", "M", "G", "T", "P"];

function digits(value) {
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString("en");
  if (size >= 0.1) return value.toFixed(size < 10 ? 2 : 1);
  return String(Number(value.toPrecision(2)));
}

// Three digits and a unit that fits: `1.23 ms`; nothing for none.
function format(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (value === 0) return "0";
  if (unit === "share") return `${digits(value * 100)} %`;
  if (unit === "1" && Math.abs(value) < 1e7)
    return Number.isInteger(value) ? value.toLocaleString("en") : digits(value);
  const names = SCALES[unit] ?? PLAIN;
  let scaled = Number(value.toPrecision(3)),
    step = 0;
  while (Math.abs(scaled) >= 1000 && step < names.length - 1) {
    scaled /= 1000;
    step += 1;
  }
  const name = unit in SCALES || unit === "1" ? names[step] : names[step] + unit;
  return name ? `${digits(scaled)} ${name}` : digits(scaled);
}

function percent(share) {
  return Number.isFinite(share) ? (share * 100).toFixed(1) : "";
}

// `5.13× (1.66–21.4)`, or nothing.
function gainText(gain, range = true) {
  if (!gain) return "";
  const [low, mid, high] = gain.map((each) => (each >= 100 ? each.toFixed(0) : each.toFixed(2)));
  return range ? `${mid}× (${low}–${high})` : `${mid}×`;
}

// A kernel's name as it is read: without what C++ puts around it. Its title has all of it.
function readable(name) {
  return Object.hasOwn(data.short, name) ? data.short[name] : name;
}

// The end of a file name, which tells it from others.
function short(file) {
  return file.split("/").pop();
}

// How warm a part of the greatest one is, as a background.
function warmth(part) {
  return part > 0 ? `rgba(var(--heat), ${(0.06 + 0.5 * Math.sqrt(part)).toFixed(3)})` : "";
}

// A canvas of that size on any screen: its pen, and colours of the theme by name.
function penOf(canvas, width, height) {
  const scale = devicePixelRatio || 1,
    style = getComputedStyle(document.documentElement),
    known = new Map();
  Object.assign(canvas, { width: width * scale, height: height * scale });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const color = (name) => {
    if (!known.has(name)) known.set(name, style.getPropertyValue(`--${name}`).trim());
    return known.get(name);
  };
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = `11px ${color("mono")}`;
  pen.textBaseline = "middle";
  return [pen, color];
}

// The part of a text that fits, or nothing.
function fitted(text, width) {
  const letters = Math.floor(width / 6.7);
  if (letters < 3) return "";
  return text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
}

// What is said beside the mouse.
function showTip(tip, event, ...told) {
  tip.replaceChildren(...told);
  tip.style.left = `${Math.max(0, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(0, Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8))}px`;
}

function bar(share) {
  const fill = make("i");
  fill.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return make("div.track", fill);
}

// The theme: the browser's until the reader chooses one. A file may not be allowed to remember it.
const darkness = matchMedia("(prefers-color-scheme: dark)");
const theme = {
  chosen: null,
  listeners: [],
  get name() {
    return this.chosen ?? (darkness.matches ? "dark" : "light");
  },
  show() {
    document.documentElement.dataset.theme = this.name;
    const button = document.getElementById("theme");
    button.textContent = this.name === "dark" ? "Light" : "Dark";
    button.setAttribute(
      "aria-label",
      `Switch to ${this.name === "dark" ? "light" : "dark"} colours`,
    );
    for (const listener of this.listeners) listener();
  },
  start() {
    try {
      this.chosen = localStorage.getItem("tileprof-theme");
    } catch {
      /* not allowed here */
    }
    document.getElementById("theme").addEventListener("click", () => {
      this.chosen = this.name === "dark" ? "light" : "dark";
      try {
        localStorage.setItem("tileprof-theme", this.chosen);
      } catch {
        /* not allowed here */
      }
      this.show();
    });
    darkness.addEventListener("change", () => this.show());
    this.show();
  },
};
