// The map of the features. `FeatureMap` draws and finds points; `MapTools` has the controls and the list.
const sheetsOf = Object.fromEntries(Object.entries(page.sheets).map(([key, sheets]) => [key, new Pictures(sheets)]));
const maps = [];
const NEAREST = 24; // samples that Enter lists around a point

class FeatureMap {
  constructor(data) {
    this.data = data;
    this.count = data.x.length;
    this.pictures = sheetsOf[data.sheets];
    this.by = data.labels ? "label" : "cluster";
    this.chosen = null; // a Set of points, or null for all
    this.focus = -1;
    this.tool = "look";
    this.lasso = [];
    this.view = { zoom: 1, x: 0, y: 0 };
    this.canvas = element("canvas", { tabindex: 0, role: "application", "aria-roledescription": "map",
      "aria-label": `Map of ${this.count} samples. Arrow keys go from sample to sample, Enter lists the nearest ones, plus and minus zoom, 0 shows all, Escape ends a choice.` });
    this.tip = element("div", { class: "tip", hidden: true });
    this.spoken = element("div", { class: "reading", role: "status" }, "Point at a sample, or focus the map and use the arrow keys.");
    maps.push(this);
    redraws.add(() => this.draw());
  }

  // The value by which a point is coloured, as a number.
  value(i) {
    return this.by === "label" ? this.data.labels[i] : this.by === "cluster" ? this.data.clusters[i] : this.data.snr[i];
  }

  groups() {
    return this.by === "label" ? this.data.classes.length : Math.max(...this.data.clusters) + 1;
  }

  snrRange() {
    if (!this.range) {
      const sorted = this.data.snr.filter((one) => one !== null).sort((a, b) => a - b);
      const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
      this.range = [at(0.02), at(0.98)];
    }
    return this.range;
  }

  colour(i) {
    const value = this.value(i);
    if (this.by !== "snr") return colourOf(value, this.groups());
    const [low, high] = this.snrRange();
    return value === null ? cssColour("quiet") : rampColour(Math.round((24 * (value - low)) / (high - low || 1)) / 24);
  }

  place(i) {
    const { zoom, x, y } = this.view;
    return [this.left + this.unit * this.data.x[i] * zoom + x, this.top - this.unit * this.data.y[i] * zoom + y];
  }

  fit() {
    const ratio = devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.height * ratio;
    const across = this.data.x.reduce((a, b) => Math.max(a, b), 1);
    const up = this.data.y.reduce((a, b) => Math.max(a, b), 1);
    this.unit = Math.min((this.width - 40) / across, (this.height - 40) / up);
    this.left = (this.width - this.unit * across) / 2;
    this.top = this.height - (this.height - this.unit * up) / 2;
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return context;
  }

  draw() {
    const context = this.fit();
    context.clearRect(0, 0, this.width, this.height);
    const radius = Math.min(Math.max(60 / Math.sqrt(this.count), 1.6), 5) * Math.min(Math.sqrt(this.view.zoom), 3);
    const colours = new Map();
    for (let i = 0; i < this.count; i += 1) {
      const key = this.chosen && !this.chosen.has(i) ? "" : this.colour(i);
      if (!colours.has(key)) colours.set(key, []);
      colours.get(key).push(i);
    }
    const dots = (points, style, alpha) => {
      context.globalAlpha = alpha;
      context.fillStyle = style;
      context.beginPath();
      for (const i of points) {
        const [x, y] = this.place(i);
        if (x < -9 || y < -9 || x > this.width + 9 || y > this.height + 9) continue;
        context.moveTo(x + radius, y);
        context.arc(x, y, radius, 0, 7);
      }
      context.fill();
    };
    dots(colours.get("") || [], cssColour("quiet"), 0.15); // what is not chosen, below
    for (const [style, points] of colours) if (style) dots(points, style, 0.85);
    context.globalAlpha = 1;
    this.outline(context, radius);
  }

  outline(context, radius) {
    context.strokeStyle = cssColour("text");
    context.lineWidth = 2;
    if (this.focus >= 0) {
      context.beginPath();
      context.arc(...this.place(this.focus), radius + 4, 0, 7);
      context.stroke();
    }
    if (this.lasso.length > 1) {
      context.setLineDash([5, 4]);
      context.beginPath();
      this.lasso.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.closePath();
      context.stroke();
      context.setLineDash([]);
    }
  }

  // The point nearest to a place, within a distance in pixels.
  nearest(x, y, within) {
    let best = -1;
    let least = within * within;
    for (let i = 0; i < this.count; i += 1) {
      const [a, b] = this.place(i);
      const distance = (a - x) ** 2 + (b - y) ** 2;
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  }

  // The nearest point in the direction of an arrow key.
  next(dx, dy) {
    if (this.focus < 0) return this.nearest(this.width / 2, this.height / 2, Infinity);
    const [x, y] = this.place(this.focus);
    let best = this.focus;
    let least = Infinity;
    for (let i = 0; i < this.count; i += 1) {
      const [a, b] = this.place(i);
      const along = (a - x) * dx + (b - y) * dy;
      const aside = Math.abs((a - x) * dy) + Math.abs((b - y) * dx);
      if (along > 0.5 && aside <= along && along + 2 * aside < least) [best, least] = [i, along + 2 * aside];
    }
    return best;
  }

  around(i) {
    const [x, y] = [this.data.x[i], this.data.y[i]];
    const distance = (j) => (this.data.x[j] - x) ** 2 + (this.data.y[j] - y) ** 2;
    return [...this.data.x.keys()].sort((a, b) => distance(a) - distance(b)).slice(0, NEAREST);
  }

  within(polygon) {
    const inside = ([x, y]) => {
      let odd = false;
      for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i, i += 1) {
        const [[a, b], [c, d]] = [polygon[i], polygon[j]];
        if (b > y !== d > y && x < ((c - a) * (y - b)) / (d - b) + a) odd = !odd;
      }
      return odd;
    };
    return [...this.data.x.keys()].filter((i) => inside(this.place(i)));
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const zoom = Math.min(Math.max(this.view.zoom * factor, 1), 60);
    const change = zoom / this.view.zoom;
    // The place under the pointer stays where it is.
    this.view = { zoom, x: x - this.left - (x - this.left - this.view.x) * change, y: y - this.top - (y - this.top - this.view.y) * change };
    if (zoom === 1) this.view = { zoom, x: 0, y: 0 };
    this.hide();
    this.draw();
  }

  name(i) {
    return this.data.names ? this.data.names[i] : `row ${this.data.rows[i]}`;
  }

  words(i) {
    const words = [this.name(i)];
    if (this.data.labels) words.push(`label ${this.data.classes[this.data.labels[i]]}`);
    words.push(`cluster ${this.data.clusters[i] + 1}`);
    if (this.data.snr) words.push(`SNR ${digits(this.data.snr[i])}`);
    return words;
  }

  // Ring a point, and show what it is.
  look(i) {
    if (i === this.focus && !this.tip.hidden) return;
    this.focus = i;
    this.draw();
    if (i < 0) {
      this.hide();
      return;
    }
    const words = this.words(i);
    this.spoken.textContent = words.join(", ");
    this.tip.replaceChildren(this.pictures.canvas(i, { role: "img", "aria-label": "the sample" }), ...words.map((text) => element("p", {}, text)));
    this.tip.hidden = false;
    const [x, y] = this.place(i);
    const width = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(x + 14, x + 14 + width > this.width ? x - width - 14 : x + 14))}px`;
    this.tip.style.top = `${Math.max(0, Math.min(y + 14, this.height - this.tip.offsetHeight - 4))}px`;
  }

  hide() {
    this.tip.hidden = true;
  }

  // Choose points here and, of runs on the same samples, on their maps too.
  choose(points) {
    for (const map of maps) {
      if (map !== this && map.data.sheets !== this.data.sheets) continue;
      map.chosen = points ? new Set(points) : null;
      map.draw();
    }
  }
}
