// Controls, legend and list of selected samples of a map: all of it works by keyboard.
const AT_ONCE = 48; // samples added to the list at a time
const MAP_KINDS = {
  umap: "UMAP, which keeps similar samples together, while sizes of islands and distances between them mean little",
  pca: "PCA, the two directions of largest variance: samples that only differ in other directions overlap",
};
const MAP_HINTS = [
  "Point at a sample, or tap it, to see it. Press a colour in the legend to list its samples, and again to show all.",
  "With Lasso, draw a line around samples to list them. If several runs used the same data, the same samples are " +
    "marked on all maps.",
  "Keyboard: arrow keys move from sample to sample, Enter lists the nearest ones, + and − zoom, 0 shows the whole " +
    "map, Escape clears the selection and hides the picture.",
  "The mouse wheel zooms after a click on the map, or with Ctrl; drag to move the enlarged map.",
];

class MapTools {
  constructor(place, data) {
    this.map = new FeatureMap(data);
    this.map.marked = () => {
      this.list.replaceChildren(); // of an earlier choice
      this.mark();
    };
    this.buttons = new Map(); // of the legend, with their points
    this.legend = element("div", { onkeydown: (event) => { if (event.key === "Escape") this.end(""); } });
    this.list = element("div", { "aria-live": "polite" });
    const plot = element("div", {},
      element("div", { class: "plot" }, this.map.canvas, this.map.tip), this.map.spoken);
    const side = element("div", {}, this.legend, this.list);
    place.append(this.about(data), this.hints(), this.tools(data),
      element("div", { class: "around" }, plot, side));
    this.listen(this.map.canvas);
    this.colour(this.map.by);
  }

  about(data) {
    const [shown, all] = [data.x.length, data.of].map((number) => number.toLocaleString("en"));
    const some = data.x.length < data.of ? `${shown} of ${all} samples, chosen at random` : `all ${all} samples`;
    const remark = data.remark ? ` (${data.remark})` : "";
    return element("p", { class: "quiet" }, `The ${data.part} split: ${some}. Their ${data.features} features are ` +
      `laid out by ${MAP_KINDS[data.kind]}${remark}. Clusters are found in the features by k-means.`);
  }

  hints() {
    const items = MAP_HINTS.map((text) => element("li", {}, text));
    return element("details", {}, element("summary", {}, "How to use the map"), element("ul", {}, ...items));
  }

  tools(data) {
    const { map } = this;
    const kinds = [["label", data.labels], ["cluster", data.clusters], ["SNR", data.snr]];
    const options = kinds.filter(([, values]) => values).map(([text]) =>
      element("option", { value: text.toLowerCase(), selected: text === map.by }, text));
    this.by = element("select", { onchange: () => this.colour(this.by.value) }, ...options);
    this.modes = [["look", "Point and move"], ["lasso", "Lasso"]].map(([name, text]) =>
      button(text, () => this.take(name), { "data-tool": name, "aria-pressed": String(name === map.tool) }));
    const zooms = [["+", "Zoom in", 1.5], ["−", "Zoom out", 1 / 1.5], ["All", "Show the whole map", 0]];
    const group = (label, buttons) => element("div", { class: "group", role: "group", "aria-label": label }, ...buttons);
    return element("div", { class: "tools" }, element("label", {}, "Colour by ", this.by),
      group("What dragging does", this.modes),
      group("Zoom", zooms.map(([text, label, by]) => button(text, () => this.zoom(by), { "aria-label": label }))));
  }

  take(name) {
    this.map.tool = name;
    for (const mode of this.modes) mode.setAttribute("aria-pressed", String(mode.dataset.tool === name));
    this.touch();
  }

  zoom(...how) {
    this.map.zoom(...how);
    this.touch();
  }

  // Touch scrolls the page over the map, unless it draws a lasso or moves an enlarged map.
  touch() {
    const ours = this.map.tool === "lasso" || this.map.view.zoom > 1;
    this.map.canvas.style.touchAction = ours ? "none" : "pan-y";
  }

  colour(by) {
    this.map.by = by;
    this.map.draw();
    this.buttons.clear();
    this.legend.replaceChildren(...(by === "snr" ? this.ramp() : [this.groups()]));
    this.mark();
  }

  // Show which legend entry is selected, possibly on another map.
  mark() {
    const { chosen } = this.map;
    for (const [pressed, points] of this.buttons) {
      const all = chosen !== null && chosen.size === points.length && points.every((i) => chosen.has(i));
      pressed.setAttribute("aria-pressed", String(all));
    }
  }

  groups() {
    const { map } = this;
    const members = new Map();
    for (let i = 0; i < map.count; i += 1) {
      if (!members.has(map.value(i))) members.set(map.value(i), []);
      members.get(map.value(i)).push(i);
    }
    const items = [...members].sort(([a], [b]) => a - b).map(([group, points]) => {
      const text = map.by === "label" ? map.data.classes[group] : `cluster ${group + 1}`;
      const swatch = element("span", { class: "swatch" });
      swatch.style.background = colourOf(group, map.groups());
      const words = map.by === "label" ? `of label ${text}` : `of ${text}`;
      const press = () => {
        if (pressed.getAttribute("aria-pressed") === "true") this.end("");
        else this.show(points, words);
      };
      const pressed = button("", press, { title: `${text}: list its samples` });
      pressed.append(swatch, element("span", { class: "text" }, text),
        element("span", { class: "quiet count" }, String(points.length)));
      this.buttons.set(pressed, points);
      return element("li", {}, pressed);
    });
    return element("ul", { class: "legend", "aria-label": "Legend: press an entry to list its samples" }, ...items);
  }

  ramp() {
    const { snr, about_snr: about } = this.map.data;
    const [low, high] = this.map.snrRange().map(digits);
    const scale = element("canvas", {
      class: "scale", width: 25, height: 1, role: "img", "aria-label": `colours from ${low} to ${high}`,
    });
    const context = scale.getContext("2d");
    for (let i = 0; i < 25; i += 1) {
      context.fillStyle = rampColour(i / 24);
      context.fillRect(i, 0, 1, 1);
    }
    const order = [...snr.keys()].filter((i) => snr[i] !== null).sort((a, b) => snr[a] - snr[b]);
    const some = (text, points) => button(`List samples with ${text}`, () => this.show(points, `with ${text}`));
    return [
      element("p", { class: "quiet" },
        `Signal-to-noise ratio of each sample, ${about}: at 1, signal and noise are equally strong; above 10, the noise ` +
          "is negligible."),
      scale,
      element("div", { class: "ends" }, element("span", {}, `${low}, most noise`),
        element("span", {}, `${high}, least noise`)),
      element("div", { class: "tools" }, some("the lowest SNR", order.slice(0, AT_ONCE)),
        some("the highest SNR", order.slice(-AT_ONCE).reverse())),
    ];
  }

  // List samples, and draw the others pale.
  show(points, words) {
    const { map } = this;
    if (!points.length) {
      this.end(`No samples ${words}.`);
      return;
    }
    map.choose(points);
    const heading = `${points.length} ${points.length === 1 ? "sample" : "samples"} ${words}`;
    const found = element("ol", { class: "found" });
    let shown = 0;
    const add = () => {
      found.append(...points.slice(shown, shown + AT_ONCE).map((i) => this.item(i)));
      shown += AT_ONCE;
      more.hidden = shown >= points.length;
    };
    const more = button("Show more", add);
    add();
    this.list.replaceChildren(element(page.runs.length > 1 ? "h4" : "h3", {}, heading), this.shares(points),
      button("Show all again", () => this.end("")), found, more, this.text(points));
  }

  item(i) {
    const pressed = button("", () => this.map.look(i));
    pressed.append(this.map.pictures.canvas(i, { "aria-hidden": "true" }),
      element("span", {}, this.map.words(i).slice(0, 2).join(", ")));
    return element("li", {}, pressed);
  }

  // Count the labels, or else clusters, of samples.
  shares(points) {
    const { data } = this.map;
    const counts = new Map();
    for (const i of points) {
      const name = data.labels ? data.classes[data.labels[i]] : `cluster ${data.clusters[i] + 1}`;
      counts.set(name, (counts.get(name) || 0) + 1);
    }
    const order = [...counts].sort((a, b) => b[1] - a[1]);
    const most = order.slice(0, 8).map(([name, count]) => `${name.slice(0, 60)}: ${count}`);
    if (order.length > most.length) most.push("…");
    return element("p", { class: "quiet" }, `${data.labels ? "Labels" : "Clusters"}: ${most.join(", ")}`);
  }

  // The list as text for copying, written when it is opened.
  text(points) {
    const area = element("textarea", { readonly: true, "aria-label": "The samples as text" });
    const write = () => { area.value = points.map((i) => this.map.words(i).join("\t")).join("\n"); };
    return element("details", { ontoggle: write }, element("summary", {}, "As text, to copy"), area);
  }

  end(words) {
    this.map.choose(null);
    if (words) this.list.append(element("p", {}, words));
  }

  listen(canvas) {
    const { map } = this;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left - canvas.clientLeft, event.clientY - box.top - canvas.clientTop];
    };
    let last = null; // where the pointer was, while it is down
    const release = () => {
      last = null;
      const drawn = map.lasso;
      map.lasso = [];
      if (drawn.length > 2) this.show(map.within(drawn), "in the lasso");
      map.refresh();
    };
    const events = {
      pointerdown: (event) => {
        last = at(event);
        canvas.setPointerCapture(event.pointerId);
        map.lasso = map.tool === "lasso" ? [last] : [];
        if (map.tool === "look") map.look(map.nearest(...last, 16));
      },
      pointermove: (event) => {
        const here = at(event);
        if (!last) map.look(map.nearest(...here, 12));
        else if (map.tool === "lasso") map.extend(here);
        else if (map.view.zoom > 1) {
          map.move(here[0] - last[0], here[1] - last[1]);
          last = here;
        }
      },
      pointerup: release,
      pointercancel: () => {
        map.lasso = [];
        release();
      },
      pointerleave: (event) => {
        // A finger leaves as it is lifted: what was tapped stays.
        if (event.pointerType !== "touch" && !last && document.activeElement !== canvas) map.look(-1);
      },
      blur: () => map.hide(),
      keydown: (event) => this.key(event),
    };
    for (const [name, does] of Object.entries(events)) canvas.addEventListener(name, does);
    canvas.addEventListener("wheel", (event) => {
      // The page scrolls over the map, unless it is in use.
      if (!event.ctrlKey && document.activeElement !== canvas) return;
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), ...at(event));
    }, { passive: false });
  }

  key(event) {
    const { map } = this;
    const near = () => {
      if (map.focus >= 0) this.show(map.around(map.focus), `nearest to ${map.name(map.focus).slice(0, 60)}`);
    };
    const keys = {
      ArrowLeft: () => map.look(map.next(-1, 0)),
      ArrowRight: () => map.look(map.next(1, 0)),
      ArrowUp: () => map.look(map.next(0, -1)),
      ArrowDown: () => map.look(map.next(0, 1)),
      "+": () => this.zoom(1.5),
      "=": () => this.zoom(1.5),
      "-": () => this.zoom(1 / 1.5),
      0: () => this.zoom(0),
      Enter: near,
      Escape: () => { this.end(""); map.hide(); },
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  }
}

for (const place of document.querySelectorAll(".map")) new MapTools(place, page.runs[place.dataset.run].map);
