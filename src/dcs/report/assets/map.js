// The map of the features. `FeatureMap` draws and finds points; `MapTools` has the controls and the list.
const sheetsOf = Object.fromEntries(Object.entries(page.sheets).map(([key, sheets]) => [key, new Pictures(sheets)]));
const maps = [];
const NEAREST = 24; // samples that Enter lists around a point
const INVITATION = "Point at a sample, or focus the map and use the arrow keys.";

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
    this.canvas = element("canvas", {
      tabindex: 0, role: "application", "aria-roledescription": "map",
      "aria-label": `Map of ${this.count} samples. Arrow keys move from sample to sample, Enter lists the nearest ` +
        "ones, plus and minus zoom, 0 shows the whole map, Escape clears the selection and hides the picture.",
    });
    this.layer = element("canvas");
    this.tip = element("div", { class: "tip", hidden: true });
    this.spoken = element("div", { class: "reading", role: "status" }, INVITATION);
    this.marked = () => {}; // called when other points are chosen
    maps.push(this);
    redraws.add(() => this.draw());
  }

  // The value by which a point is coloured, as a number.
  value(i) {
    return { label: this.data.labels, cluster: this.data.clusters, snr: this.data.snr }[this.by][i];
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
    if (value === null) return cssColour("quiet");
    return rampColour(Math.round((24 * (value - low)) / (high - low || 1)) / 24); // few colours are drawn faster
  }

  place(i) {
    const { zoom, x, y } = this.view;
    return [this.left + this.unit * this.data.x[i] * zoom + x, this.top - this.unit * this.data.y[i] * zoom + y];
  }

  // Read the size of the canvas, and fit the map into it.
  fit() {
    this.ratio = devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    for (const canvas of [this.canvas, this.layer]) {
      canvas.width = this.width * this.ratio;
      canvas.height = this.height * this.ratio;
    }
    const across = this.data.x.reduce((a, b) => Math.max(a, b), 1);
    const up = this.data.y.reduce((a, b) => Math.max(a, b), 1);
    this.unit = Math.min((this.width - 40) / across, (this.height - 40) / up);
    this.left = (this.width - this.unit * across) / 2;
    this.top = this.height - (this.height - this.unit * up) / 2;
    const plain = Math.min(Math.max(60 / Math.sqrt(this.count), 1.6), 5);
    this.radius = plain * Math.min(Math.sqrt(this.view.zoom), 3);
  }

  // Draw all points, on a layer of their own: the ring of a point and the lasso come above it.
  draw() {
    this.fit();
    if (!this.width || !this.height) return; // nothing is shown, as while a page is being printed
    const context = this.layer.getContext("2d");
    const stamps = new Map(); // one dot per colour: copying is faster than drawing
    const pale = this.stamp(cssColour("quiet"), 0.15);
    const reach = this.radius * this.ratio + 1;
    const put = (i, stamp) => {
      const [x, y] = this.place(i);
      if (x < -9 || y < -9 || x > this.width + 9 || y > this.height + 9) return;
      context.drawImage(stamp, x * this.ratio - reach, y * this.ratio - reach);
    };
    const all = [...this.data.x.keys()];
    if (this.chosen) for (const i of all) if (!this.chosen.has(i)) put(i, pale);
    for (const i of this.chosen || all) {
      const colour = this.colour(i);
      if (!stamps.has(colour)) stamps.set(colour, this.stamp(colour, 0.85));
      put(i, stamps.get(colour));
    }
    this.refresh();
  }

  stamp(colour, alpha) {
    const size = Math.ceil(2 * this.radius * this.ratio + 2);
    const canvas = element("canvas", { width: size, height: size });
    const context = canvas.getContext("2d");
    context.globalAlpha = alpha;
    context.fillStyle = colour;
    const radius = this.radius * this.ratio;
    context.arc(radius + 1, radius + 1, radius, 0, 7);
    context.fill();
    return canvas;
  }

  refresh() {
    if (!this.layer.width || !this.layer.height) return;
    const context = this.canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.layer, 0, 0);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.outline(context);
  }

  outline(context) {
    context.strokeStyle = cssColour("text");
    context.lineWidth = 2;
    if (this.focus >= 0) {
      context.beginPath();
      context.arc(...this.place(this.focus), this.radius + 4, 0, 7);
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
    const [across, down] = [x - this.left, y - this.top];
    this.view = { zoom, x: across - (across - this.view.x) * change, y: down - (down - this.view.y) * change };
    if (zoom === 1) this.view = { zoom, x: 0, y: 0 };
    this.hide();
    this.draw();
  }

  move(dx, dy) {
    this.view = { ...this.view, x: this.view.x + dx, y: this.view.y + dy };
    this.hide();
    this.draw();
  }

  // Extend the lasso to a place.
  extend(place) {
    this.lasso.push(place);
    this.hide();
    this.refresh();
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

  // Mark a point, and show its sample.
  look(i) {
    if (i === this.focus && !this.tip.hidden) return;
    this.focus = i;
    this.refresh();
    if (i < 0) {
      this.spoken.textContent = INVITATION;
      this.hide();
      return;
    }
    const words = this.words(i);
    this.spoken.textContent = words.join(", ");
    const picture = this.pictures.canvas(i, { role: "img", "aria-label": "sample" });
    this.tip.replaceChildren(picture, ...words.map((text) => element("p", {}, text)));
    this.tip.hidden = false;
    const [x, y] = this.place(i);
    const width = this.tip.offsetWidth;
    const left = x + 14 + width > this.width ? x - width - 14 : x + 14;
    this.tip.style.left = `${Math.max(0, left)}px`;
    this.tip.style.top = `${Math.max(0, Math.min(y + 14, this.height - this.tip.offsetHeight - 4))}px`;
  }

  hide() {
    this.tip.hidden = true;
  }

  // Select points here and on the maps of other runs on the same samples.
  choose(points) {
    for (const map of maps) {
      if (map !== this && map.data.sheets !== this.data.sheets) continue;
      map.chosen = points ? new Set(points) : null;
      map.draw();
      map.marked();
    }
  }
}
