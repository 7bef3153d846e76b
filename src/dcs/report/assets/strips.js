// Samples under a slider: left of the line as they are, right of it denoised; the clean ones are below.
class Strips {
  constructor(place, strips) {
    this.strips = strips;
    this.pictures = new Pictures(strips.sheets);
    this.input = element("input", { type: "range", min: 0, max: 100, value: 50, "aria-label": "Where the line between noisy and denoised is",
      oninput: () => this.draw() });
    const slider = element("div", { class: "slider" }, element("span", {}, "noisy"), this.input, element("span", {}, "denoised"));
    this.wipes = strips.names.map((name, i) => this.wipe(i));
    const tiles = element("div", { class: "tiles" }, ...strips.names.map((name, i) => this.tile(i)));
    const words = { image: "Each picture is a sample.", spectrogram: "Each picture is a recording: time goes to the right, high tones are above, bright is loud.",
      profile: "Each picture is a sample: one bar for each number, up or down from zero." };
    const below = strips.rows.includes("clean") ? " Below each is the clean sample, which training never saw." : "";
    const near = strips.cosines ? " The numbers say how near to the clean one it is, before and after: 1 is the same up to brightness." : "";
    const sides = " Left of the line it is as it came, right of it denoised.";
    place.append(element("p", { class: "quiet" }, words[strips.kind] + sides + below + near), slider, tiles);
    this.pictures.ready.then(() => this.draw());
  }

  wipe(i) {
    const larger = Math.ceil(160 / Math.max(...this.strips.sheets.tile)); // so that the line is thin
    const [width, height] = this.strips.sheets.tile.map((length) => length * larger);
    const label = this.strips.labels ? `, label ${this.strips.labels[i]}` : "";
    const drag = (event) => {
      if (event.buttons !== 1) return;
      const box = event.currentTarget.getBoundingClientRect();
      this.input.value = Math.round((100 * (event.clientX - box.left)) / box.width);
      this.draw();
    };
    return element("canvas", { class: "wipe", width, height, role: "img", "aria-label": `${this.strips.names[i]}${label}: noisy and denoised`,
      onpointerdown: (event) => { event.currentTarget.setPointerCapture(event.pointerId); drag(event); }, onpointermove: drag });
  }

  tile(i) {
    const count = this.strips.names.length;
    const clean = this.strips.rows.indexOf("clean");
    const below = clean < 0 ? null : this.pictures.canvas(clean * count + i, { role: "img", "aria-label": "clean" });
    const words = [this.strips.names[i]];
    if (this.strips.labels) words.push(`label ${this.strips.labels[i]}`);
    if (this.strips.cosines) words.push(this.strips.cosines.map((row) => (row[i] === null ? "–" : row[i].toFixed(2))).join(" → "));
    return element("figure", {}, this.wipes[i], below, element("figcaption", { title: words.join(", ") }, ...words.map((text) => element("div", {}, text))));
  }

  draw() {
    const part = Number(this.input.value) / 100;
    const count = this.strips.names.length;
    this.input.setAttribute("aria-valuetext", `${this.input.value} % noisy, the rest denoised`);
    this.wipes.forEach((canvas, i) => {
      const context = canvas.getContext("2d");
      this.pictures.draw(context, count + i);
      this.pictures.draw(context, i, part);
      if (part > 0 && part < 1) {
        context.fillStyle = "#ff8c1a";
        context.fillRect(canvas.width * part - 1, 0, 2, canvas.height);
      }
    });
  }
}

for (const place of document.querySelectorAll(".strips")) new Strips(place, page.runs[place.dataset.run].strips);
