// The controls of a map, its legend, and the list of what was chosen: all of it works by keyboard.
const AT_ONCE = 48; // samples that a list shows before it is asked for more

class MapTools {
  constructor(place, data) {
    this.map = new FeatureMap(data);
    this.legend = element("div", {});
    this.list = element("div", { "aria-live": "polite" });
    const side = element("div", {}, this.legend, this.list);
    const plot = element("div", {}, element("div", { class: "plot" }, this.map.canvas, this.map.tip), this.map.spoken);
    place.append(this.about(data), this.tools(data), element("div", { class: "around" }, plot, side));
    this.listen(this.map.canvas);
    this.colour(this.map.by);
    this.map.draw();
  }

  about(data) {
    const count = (number) => number.toLocaleString("en");
    const kinds = { umap: "UMAP, which keeps neighbours together", pca: "PCA, the two directions in which features differ most" };
    const some = data.x.length < data.of ? `${count(data.x.length)} of ${count(data.of)} samples, drawn at random` : `all ${count(data.of)} samples`;
    const remark = data.remark ? ` (${data.remark})` : "";
    const words = element("p", { class: "quiet" }, `The ${data.part} split: ${some}. Its ${data.features} features are laid out by ${kinds[data.kind]}${remark}. ` +
      "Clusters are groups that k-means finds in the features.");
    const hints = ["Point at a sample, or tap it, to see it. Press a colour of the legend to list its samples.",
      "With Lasso, draw a line round samples to list them. Of several runs on the same data, the same samples are marked on all maps.",
      "By keyboard: arrows go from sample to sample, Enter lists its nearest, + and − zoom, 0 shows all, Escape ends a choice.",
      "The wheel zooms once the map was clicked, or with Ctrl; what was enlarged can be dragged."];
    return element("div", {}, words, element("details", {}, element("summary", {}, "How to use the map"), element("ul", {}, ...hints.map((text) => element("li", {}, text)))));
  }

  tools(data) {
    const kinds = { label: data.labels && "label", cluster: "cluster", snr: data.snr && "SNR" };
    const options = Object.entries(kinds).filter(([, text]) => text).map(([value, text]) => element("option", { value, selected: value === this.map.by }, text));
    this.by = element("select", { onchange: () => this.colour(this.by.value) }, ...options);
    const tool = (name, text) => element("button", { type: "button", "aria-pressed": String(name === this.map.tool), "data-tool": name, onclick: () => this.take(name) }, text);
    const press = (text, label, does) => element("button", { type: "button", "aria-label": label, onclick: does }, text);
    this.modes = [tool("look", "Look and move"), tool("lasso", "Lasso")];
    return element("div", { class: "tools" }, element("label", {}, "Colour by ", this.by),
      element("div", { class: "group", role: "group", "aria-label": "What dragging does" }, ...this.modes),
      element("div", { class: "group", role: "group", "aria-label": "Zoom" }, press("+", "Zoom in", () => this.map.zoom(1.5)),
        press("−", "Zoom out", () => this.map.zoom(1 / 1.5)), press("All", "Show the whole map", () => this.map.zoom(0))));
  }

  take(name) {
    this.map.tool = name;
    for (const button of this.modes) button.setAttribute("aria-pressed", String(button.dataset.tool === name));
    this.touch();
  }

  // Fingers scroll the page over the map, unless they draw a lasso or move what was enlarged.
  touch() {
    this.map.canvas.style.touchAction = this.map.tool === "lasso" || this.map.view.zoom > 1 ? "none" : "pan-y";
  }

  colour(by) {
    this.map.by = by;
    this.map.draw();
    this.legend.replaceChildren(...(by === "snr" ? this.ramp() : [this.groups()]));
  }

  groups() {
    const { map } = this;
    const counts = new Map();
    for (let i = 0; i < map.count; i += 1) counts.set(map.value(i), (counts.get(map.value(i)) || 0) + 1);
    const items = [...counts].sort(([a], [b]) => a - b).map(([group, count]) => {
      const text = map.by === "label" ? map.data.classes[group] : `cluster ${group + 1}`;
      const swatch = element("span", { class: "swatch" });
      swatch.style.background = colourOf(group, map.groups());
      return element("li", {}, element("button", { type: "button", title: `${text}: list its samples`, onclick: () => {
        this.show([...map.data.x.keys()].filter((i) => map.value(i) === group), `of ${map.by === "label" ? "label " : ""}${text}`);
      } }, swatch, element("span", { class: "text" }, text), element("span", { class: "quiet" }, String(count))));
    });
    return element("ul", { class: "legend", "aria-label": `Legend: press one to list its samples` }, ...items);
  }

  ramp() {
    const [low, high] = this.map.snrRange();
    const scale = element("canvas", { class: "scale", width: 25, height: 1, role: "img", "aria-label": `colours from ${digits(low)} to ${digits(high)}` });
    const context = scale.getContext("2d");
    for (let i = 0; i < 25; i += 1) {
      context.fillStyle = rampColour(i / 24);
      context.fillRect(i, 0, 1, 1);
    }
    const order = [...this.map.data.x.keys()].filter((i) => this.map.data.snr[i] !== null).sort((a, b) => this.map.data.snr[a] - this.map.data.snr[b]);
    const some = (text, points) => element("button", { type: "button", onclick: () => this.show(points, `with ${text}`) }, `List those with ${text}`);
    const about = element("p", { class: "quiet" }, `Signal-to-noise ratio of each sample, ${this.map.data.about_snr}: at 1, signal and noise are equally strong.`);
    return [about, scale, element("div", { class: "ends" }, element("span", {}, `${digits(low)}, noisy`), element("span", {}, `${digits(high)}, clean`)),
      element("div", { class: "tools" }, some("the least SNR", order.slice(0, AT_ONCE)), some("the largest SNR", order.slice(-AT_ONCE).reverse()))];
  }

  // List samples, and leave the others pale.
  show(points, words) {
    const { map } = this;
    if (!points.length) {
      this.end("No samples in it.");
      return;
    }
    map.choose(points);
    const found = element("ol", { class: "found" });
    const more = element("button", { type: "button" }, "Show more");
    let shown = 0;
    const add = () => {
      found.append(...points.slice(shown, shown + AT_ONCE).map((i) => element("li", {}, element("button", { type: "button", onclick: () => map.look(i) },
        map.pictures.canvas(i, { "aria-hidden": "true" }), element("span", {}, map.words(i).slice(0, 2).join(", "))))));
      shown += AT_ONCE;
      more.hidden = shown >= points.length;
    };
    more.addEventListener("click", add);
    add();
    const text = element("textarea", { readonly: true, "aria-label": "The samples as text" });
    const full = element("details", { ontoggle: () => { text.value = points.map((i) => map.words(i).join("\t")).join("\n"); } }, element("summary", {}, "As text, to copy"), text);
    const clear = element("button", { type: "button", onclick: () => this.end("") }, "Show all again");
    this.list.replaceChildren(element(page.runs.length > 1 ? "h4" : "h3", {}, `${points.length} ${points.length === 1 ? "sample" : "samples"} ${words}`), this.shares(points), clear, found, more, full);
  }

  // Of which labels, or else clusters, the samples are.
  shares(points) {
    const { data } = this.map;
    const counts = new Map();
    for (const i of points) {
      const name = data.labels ? data.classes[data.labels[i]] : `cluster ${data.clusters[i] + 1}`;
      counts.set(name, (counts.get(name) || 0) + 1);
    }
    const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 8).map(([name, count]) => `${name.slice(0, 60)}: ${count}`);
    return element("p", { class: "quiet" }, `${data.labels ? "Labels" : "Clusters"}: ${most.join(", ")}${counts.size > 8 ? ", …" : ""}`);
  }

  end(words) {
    this.map.choose(null);
    this.list.replaceChildren(...(words ? [element("p", {}, words)] : []));
  }

  listen(canvas) {
    const { map } = this;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left - canvas.clientLeft, event.clientY - box.top - canvas.clientTop];
    };
    let last = null;
    canvas.addEventListener("pointerdown", (event) => {
      last = at(event);
      canvas.setPointerCapture(event.pointerId);
      map.lasso = map.tool === "lasso" ? [last] : [];
      if (map.tool === "look") map.look(map.nearest(...last, 16));
    });
    canvas.addEventListener("pointermove", (event) => {
      const here = at(event);
      if (last && map.tool === "lasso") {
        map.lasso.push(here);
        map.hide();
        map.refresh();
      } else if (last && map.view.zoom > 1) {
        map.view = { ...map.view, x: map.view.x + here[0] - last[0], y: map.view.y + here[1] - last[1] };
        last = here;
        map.hide();
        map.draw();
      } else if (!last) {
        map.look(map.nearest(...here, 12));
      }
    });
    const release = () => {
      last = null;
      const drawn = map.lasso;
      map.lasso = [];
      if (drawn.length > 2) this.show(map.within(drawn), "in the lasso");
      map.refresh();
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", () => { map.lasso = []; release(); });
    canvas.addEventListener("pointerleave", () => { if (!last && document.activeElement !== canvas) map.look(-1); });
    canvas.addEventListener("blur", () => map.hide());
    canvas.addEventListener("wheel", (event) => {
      // The page scrolls over the map, unless it is in use.
      if (!event.ctrlKey && document.activeElement !== canvas) return;
      event.preventDefault();
      map.zoom(Math.exp(-event.deltaY / 300), ...at(event));
      this.touch();
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const { map } = this;
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const others = { "+": () => map.zoom(1.5), "=": () => map.zoom(1.5), "-": () => map.zoom(1 / 1.5), 0: () => map.zoom(0), Escape: () => this.end(""),
      Enter: () => { if (map.focus >= 0) this.show(map.around(map.focus), `nearest to ${map.name(map.focus).slice(0, 60)}`); } };
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in arrows || event.key in others)) return;
    event.preventDefault();
    if (event.key in arrows) map.look(map.next(...arrows[event.key]));
    else others[event.key]();
    this.touch();
  }
}

for (const place of document.querySelectorAll(".map")) new MapTools(place, page.runs[place.dataset.run].map);
