// Charts of the training metrics: one line per run and metric.
class Chart {
  constructor(chart, runs) {
    this.series = [];
    runs.forEach((run, number) => {
      chart.lines.forEach(([metric, called], line) => {
        const values = run.lines[metric];
        if (!values || values.every((value) => value === null)) return;
        const several = runs.length > 1;
        const name = [several ? run.name : "", chart.lines.length > 1 || !several ? called : ""];
        this.series.push({
          name: name.filter(Boolean).join(", "),
          epochs: run.lines.epoch,
          values,
          deviation: line === 0 && chart.deviation ? run.lines[chart.deviation] : null,
          colour: colourOf(several ? number : line, COLOURS.length),
          dash: several && line ? "5 4" : null,
        });
      });
    });
    this.epochs = [...new Set(this.series.flatMap((one) => one.epochs))].sort((a, b) => a - b);
    this.at = this.epochs.length - 1;
    this.svg = drawing("svg", { "aria-hidden": "true" });
    this.reading = element("div", { class: "reading" });
    this.handle = element("div", {
      role: "slider", tabindex: 0, "aria-label": `${chart.title}: epoch`, "aria-valuemin": this.epochs[0],
      "aria-valuemax": this.epochs[this.at], onkeydown: (event) => this.key(event),
      onpointermove: (event) => this.point(event), onpointerdown: (event) => this.point(event),
    }, this.svg);
    this.node = element("figure", { class: "chart" }, element("h3", {}, chart.title),
      element("figcaption", {}, chart.meaning), this.handle, this.legend(), this.reading);
    redraws.add(() => this.draw());
  }

  legend() {
    if (this.series.length < 2) return null;
    const items = this.series.map((one) => {
      const stroke = { stroke: one.colour, "stroke-width": 3, "stroke-dasharray": one.dash };
      const line = drawing("line", { x1: 0, x2: 26, y1: 5, y2: 5, ...stroke });
      const sample = drawing("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }, line);
      return element("li", { title: one.name }, sample, one.name);
    });
    return element("ul", { class: "key" }, ...items);
  }

  range() {
    const all = this.series.flatMap((one) => one.values.flatMap((value, i) => {
      if (value === null) return [];
      const spread = (one.deviation && one.deviation[i]) || 0;
      return [value - spread, value + spread];
    }));
    let low = Math.min(...all);
    let high = Math.max(...all);
    if (high - low < 1e-9 * Math.max(Math.abs(low), 1e-12)) {
      const room = Math.abs(low) * 0.1 || 0.5;
      low = low >= 0 ? Math.max(low - room, 0) : low - room; // a share is never below 0
      high += room;
    }
    return [low, high];
  }

  draw() {
    const width = Math.max(this.svg.clientWidth, 120);
    const height = Math.max(this.svg.clientHeight, 120);
    const [low, high] = this.range();
    const first = this.epochs[0];
    const last = this.epochs[this.epochs.length - 1];
    const levels = ticks(low, high, 4);
    let texts = levels.map(digits);
    if (new Set(texts).size < texts.length) texts = levels.map(String); // four digits do not tell them apart
    const left = Math.max(60, 14 + 7.5 * Math.max(...texts.map((text) => text.length))); // room for the longest
    this.x = (epoch) => left + ((width - 12 - left) * (epoch - first)) / Math.max(last - first, 1);
    const y = (value) => height - 26 - ((height - 38) * (value - low)) / (high - low);
    const parts = [];
    levels.forEach((value, i) => {
      const level = { x1: left, x2: width - 12, y1: y(value), y2: y(value) };
      parts.push(drawing("line", { ...level, stroke: cssColour("grid") }));
      parts.push(drawing("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, texts[i]));
    });
    for (const epoch of ticks(first, last, 5).filter(Number.isInteger)) {
      parts.push(drawing("text", { x: this.x(epoch), y: height - 8, "text-anchor": "middle" }, String(epoch)));
    }
    for (const one of this.series) parts.push(...this.line(one, y));
    const dotted = { stroke: cssColour("quiet"), "stroke-dasharray": "2 3" };
    this.cursor = drawing("line", { y1: 8, y2: height - 26, ...dotted });
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren(...parts, this.cursor);
    this.show();
  }

  line(one, y) {
    const there = one.values.map((value, i) => i).filter((i) => one.values[i] !== null);
    const at = (i, value) => `${this.x(one.epochs[i]).toFixed(1)} ${y(value).toFixed(1)}`;
    const parts = [];
    if (one.deviation) {
      const upper = there.map((i) => at(i, one.values[i] + (one.deviation[i] || 0)));
      const lower = there.map((i) => at(i, one.values[i] - (one.deviation[i] || 0))).reverse();
      parts.push(drawing("path", { d: `M${[...upper, ...lower].join("L")}Z`, fill: one.colour, opacity: 0.15 }));
    }
    const line = { fill: "none", stroke: one.colour, "stroke-width": 2, "stroke-dasharray": one.dash };
    parts.push(drawing("path", { ...line, d: `M${there.map((i) => at(i, one.values[i])).join("L")}` }));
    if (there.length === 1) {
      const [i] = there;
      parts.push(drawing("circle", { cx: this.x(one.epochs[i]), cy: y(one.values[i]), r: 3, fill: one.colour }));
    }
    return parts;
  }

  show() {
    const epoch = this.epochs[this.at];
    for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, this.x(epoch));
    const values = this.series.filter((one) => one.epochs.includes(epoch)).map((one) => {
      const i = one.epochs.indexOf(epoch);
      const spread = one.deviation ? ` ± ${digits(one.deviation[i])}` : "";
      return `${one.name} ${digits(one.values[i])}${spread}`;
    });
    const text = `Epoch ${epoch}: ${values.join("; ")}`;
    this.reading.textContent = text;
    this.handle.setAttribute("aria-valuenow", epoch);
    this.handle.setAttribute("aria-valuetext", text);
  }

  move(to) {
    this.at = Math.min(Math.max(to, 0), this.epochs.length - 1);
    this.show();
  }

  point(event) {
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    let nearest = 0;
    this.epochs.forEach((epoch, i) => {
      if (Math.abs(this.x(epoch) - x) < Math.abs(this.x(this.epochs[nearest]) - x)) nearest = i;
    });
    this.move(nearest);
  }

  key(event) {
    const far = Math.max(1, Math.round(this.epochs.length / 10));
    const moves = {
      ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1,
      PageUp: far, PageDown: -far, Home: -Infinity, End: Infinity,
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.move(this.at + moves[event.key]);
  }
}

// Round numbers from low to high.
function ticks(low, high, count) {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / count));
  const step = [1, 2, 5, 10].map((factor) => factor * power).reduce((a, b) => (span / b >= count - 1 ? b : a));
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i += 1) {
    found.push(Number((i * step).toPrecision(12)));
  }
  return found;
}

(function curves() {
  const place = document.getElementById("charts");
  if (!place) return;
  for (const described of page.charts) {
    const chart = new Chart(described, page.runs);
    place.append(chart.node);
    chart.draw();
  }
})();
