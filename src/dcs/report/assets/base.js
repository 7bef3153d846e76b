"use strict";
// Shared by all parts of the page. Text from data is only ever inserted as text: there is no innerHTML anywhere.
const page = JSON.parse(document.getElementById("data").textContent);
const redraws = new Set(); // functions that redraw after a change of theme or size

function fill(node, attributes, inside) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...inside.filter((part) => part !== null && part !== undefined));
  return node;
}

function element(name, attributes = {}, ...inside) {
  return fill(document.createElement(name), attributes, inside);
}

function button(text, does, attributes = {}) {
  return element("button", { type: "button", onclick: does, ...attributes }, text);
}

function drawing(name, attributes = {}, ...inside) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, inside);
}

function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// As distinguishable for colour-blind readers as ten colours can be, on light and on dark.
const COLOURS = [
  "#3b82c4", "#e07b1a", "#2f9e6e", "#d0506e", "#9467bd", "#9a6b4f", "#d977b8", "#7f8a94", "#a8a31f", "#22b3c4",
];

function colourOf(number, count) {
  if (count <= COLOURS.length) return COLOURS[number % COLOURS.length];
  return `hsl(${((number * 137.508) % 360).toFixed(1)} 62% ${number % 2 ? 42 : 58}%)`;
}

// From dark blue through green to yellow; t from 0 to 1.
const RAMP = [[68, 40, 130], [59, 82, 152], [33, 144, 141], [93, 201, 99], [250, 220, 60]];

function rampColour(t) {
  const place = Math.min(Math.max(t, 0), 1) * (RAMP.length - 1);
  const low = Math.min(Math.floor(place), RAMP.length - 2);
  const mixed = RAMP[low].map((value, i) => Math.round(value + (RAMP[low + 1][i] - value) * (place - low)));
  return `rgb(${mixed.join(" ")})`;
}

function digits(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.0001 || size >= 100000)) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

// Small pictures packed into few large ones: see Sheets in _pictures.py.
class Pictures {
  constructor(sheets) {
    Object.assign(this, sheets);
    this.images = this.sources.map((source) => {
      const image = new Image();
      image.src = source;
      return image;
    });
    this.ready = Promise.all(this.images.map((image) => image.decode()));
  }

  // Draw a picture, or its left part, as large as the canvas.
  draw(context, number, part = 1) {
    const place = number % this.size;
    const [stepX, stepY] = this.step;
    const [width, height] = this.tile;
    const x = (place % this.columns) * stepX;
    const y = Math.floor(place / this.columns) * stepY;
    const used = Math.round(width * part);
    if (!used) return;
    const sheet = this.images[Math.floor(number / this.size)];
    const canvas = context.canvas;
    context.imageSmoothingEnabled = false;
    context.drawImage(sheet, x, y, used, height, 0, 0, (canvas.width * used) / width, canvas.height);
  }

  canvas(number, attributes = {}) {
    const [width, height] = this.tile;
    const node = element("canvas", { width, height, ...attributes });
    this.ready.then(() => this.draw(node.getContext("2d"), number));
    return node;
  }
}

function redrawAll() {
  for (const redraw of redraws) redraw();
}

(function theme() {
  const themes = { "": "system", light: "light", dark: "dark" };
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const apply = (name) => {
    if (name) root.dataset.theme = name;
    else delete root.dataset.theme;
    button.textContent = `Theme: ${themes[name]}`;
    redrawAll();
  };
  let kept = "";
  try { kept = localStorage.getItem("dcs-theme") || ""; } catch { /* pages from disk may have no storage */ }
  apply(kept in themes ? kept : "");
  button.addEventListener("click", () => {
    const names = Object.keys(themes);
    const next = names[(names.indexOf(root.dataset.theme || "") + 1) % names.length];
    apply(next);
    try { localStorage.setItem("dcs-theme", next); } catch { /* the choice is not kept */ }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  addEventListener("resize", redrawAll);
})();
