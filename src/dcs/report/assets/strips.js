// Samples with a slider: denoised left of the line, noisy right of it; clean samples below.
const STRIP_WORDS = {
  image: "Each picture is one sample.",
  spectrogram: "Each picture is one recording: time runs from left to right, high frequencies are at the top, bright is loud.",
  profile: "Each picture is one sample: one bar per value, up or down from",
};

class Strips {
  constructor(place, strips) {
    this.strips = strips;
    this.pictures = new Pictures(strips.sheets);
    this.input = element("input", {
      type: "range", min: 0, max: 100, value: 50, oninput: () => this.draw(),
      "aria-label": "Position of the line between noisy and denoised",
    });
    this.wipes = strips.names.map((name, i) => this.wipe(i));
    place.append(
      element("p", { class: "quiet" }, this.about()),
      element("div", { class: "slider" }, element("span", {}, "noisy"), this.input, element("span", {}, "denoised")),
      element("div", { class: "tiles" }, ...strips.names.map((name, i) => this.tile(i))),
    );
    this.pictures.ready.then(() => {
      this.draw();
      redraws.add(() => this.draw());
    });
  }

  about() {
    const words = [STRIP_WORDS[this.strips.kind]];
    if (this.strips.kind === "profile") {
      const { base } = this.strips;
      words.push(base ? `${digits(base)}, the median of all values.` : "zero.");
    }
    words.push("Left of the line the sample is denoised, right of it noisy.");
    if (this.strips.rows.includes("clean")) words.push("Below each is the clean sample, which training never saw.");
    if (this.strips.cosines) {
      words.push("The numbers are the cosine similarity to the clean sample before and after denoising: 1 means equal " +
        "except for overall brightness or loudness, 0 means nothing in common.");
    }
    return words.join(" ");
  }

  wipe(i) {
    const larger = Math.ceil(160 / Math.max(...this.strips.sheets.tile)); // so that the line is thin
    const [width, height] = this.strips.sheets.tile.map((length) => length * larger);
    const drag = (event) => {
      if (event.buttons !== 1) return;
      const box = event.currentTarget.getBoundingClientRect();
      this.input.value = Math.round((100 * (event.clientX - box.left)) / box.width);
      this.draw();
    };
    const grasp = (event) => {
      event.currentTarget.setPointerCapture(event.pointerId);
      drag(event);
    };
    const label = `${this.words(i).slice(0, 2).join(", ")}: noisy and denoised`;
    const events = { onpointerdown: grasp, onpointermove: drag };
    return element("canvas", { class: "wipe", width, height, role: "img", "aria-label": label, ...events });
  }

  words(i) {
    const { names, labels, cosines } = this.strips;
    const words = [names[i]];
    if (labels) words.push(`label ${labels[i]}`);
    if (cosines) words.push(cosines.map((row) => (row[i] === null ? "–" : row[i].toFixed(2))).join(" → "));
    return words;
  }

  tile(i) {
    const clean = this.strips.rows.indexOf("clean");
    const number = clean * this.strips.names.length + i;
    const below = clean < 0 ? null : this.pictures.canvas(number, { role: "img", "aria-label": "clean" });
    const words = this.words(i);
    const caption = element("figcaption", { title: words.join(", ") }, ...words.map((text) => element("div", {}, text)));
    return element("figure", {}, this.wipes[i], below, caption);
  }

  draw() {
    const part = Number(this.input.value) / 100;
    const count = this.strips.names.length;
    this.input.setAttribute("aria-valuetext", `${this.input.value} % denoised, the rest noisy`);
    this.wipes.forEach((canvas, i) => {
      const context = canvas.getContext("2d");
      this.pictures.draw(context, i);
      this.pictures.draw(context, count + i, part);
      if (part > 0 && part < 1) {
        // Two pixels of the screen: a thinner line is lost where the canvas is shown smaller than it is.
        const line = Math.max(2, (2 * canvas.width) / (canvas.clientWidth || canvas.width));
        context.fillStyle = "#ff8c1a";
        context.fillRect(canvas.width * part - line / 2, 0, line, canvas.height);
      }
    });
  }
}

for (const place of document.querySelectorAll(".strips")) new Strips(place, page.runs[place.dataset.run].strips);
