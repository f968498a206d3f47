// The charts of all pages: lines with bands in an SVG, and a tip with the values under the pointer.
//
// A panel is {title, x, series}, and may have `log` (logarithmic y), `percent` (y is a share), `xRange` and `yRange`.
// A series is {name, color, mean}, and may have `low` and `high`; its values belong to the steps of `x`, and null means
// none. `color` is an index into the palette --color-0, --color-1, ...
// SVG's namespace is read from a parsed element, so that a page holds no address: tests look for any.
const SVG = Object.assign(document.createElement("template"), {innerHTML: "<svg></svg>"}).content.firstChild.namespaceURI;
const BOX = {left: 46, right: 12, top: 8, bottom: 22, height: 190};
const colorOf = (series) => `var(--color-${series.color})`;

function node(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (parent) parent.append(made);
  return made;
}

function formatNumber(value) {
  if (value === null || value === undefined) return "none";
  const size = Math.abs(value);
  if (size >= 1e6) return Number((value / 1e6).toPrecision(3)) + "M";
  if (size >= 1e4) return Number((value / 1e3).toPrecision(3)) + "k";
  return String(Number(value.toPrecision(4)));
}

// Multiples of 1, 2 or 5 times a power of ten.
function roundTicks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let t = Math.ceil(low / step - 1e-9); t * step <= high + step * 1e-9; t++) found.push(t * step);
  return found;
}

// The range of the lines. Wide bands, such as those of two seeds, can extend it by its own size at either end.
function valueRange(panel) {
  if (panel.yRange) return panel.yRange;
  const forth = panel.log ? Math.log10 : (v) => v, back = panel.log ? (v) => 10 ** v : (v) => v;
  const extremes = (columns) => {
    let low = Infinity, high = -Infinity;
    for (const column of columns)
      for (const value of column ?? [])
        if (value !== null && (!panel.log || value > 0)) { low = Math.min(low, forth(value)); high = Math.max(high, forth(value)); }
    return low > high ? [0, 1] : [low, high];
  };
  const [low, high] = extremes(panel.series.map((s) => s.mean));
  const [least, most] = extremes(panel.series.flatMap((s) => [s.mean, s.low, s.high]));
  const size = high - low || Math.abs(high) * 0.1 || 0.5;
  const margin = size * 0.05;
  return [back(Math.max(least, low - size) - margin), back(Math.min(most, high + size) + margin)];
}

function path(xs, ys, scale) {
  let text = "", drawing = false; // a null is a gap
  xs.forEach((x, i) => {
    if (ys[i] !== null) text += (drawing ? "L" : "M") + scale.x(x).toFixed(1) + " " + scale.y(ys[i]).toFixed(1);
    drawing = ys[i] !== null;
  });
  return text;
}

function swatchLine(series, text, tag = "div") {
  const made = document.createElement(tag);
  if (series) {
    const swatch = document.createElement("span");
    swatch.className = "swatch";
    swatch.style.background = colorOf(series);
    made.append(swatch);
  }
  made.append(text);
  return made;
}

function drawLegend(series, into = document.createElement("div")) {
  into.className = "legend";
  into.replaceChildren(...series.map((one) => swatchLine(one, one.name, "span")));
  return into;
}

class Chart {
  constructor(figure, panel) {
    Object.assign(this, {figure, panel, marked: null});
    const names = [...new Set(panel.series.map((s) => s.name))].join(", ");
    this.svg = node("svg", {class: "chart", role: "img", "aria-label": `${panel.title}: lines of ${names}`}, figure);
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    figure.append(this.tip);
    this.svg.addEventListener("pointermove", (event) => this.showValues(event));
    this.svg.addEventListener("pointerleave", () => this.hideValues());
    this.draw();
    new ResizeObserver(() => { if (this.svg.getBoundingClientRect().width !== this.width) this.draw(); }).observe(this.svg);
  }

  draw() {
    this.width = this.svg.getBoundingClientRect().width;
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${Math.max(this.width, 1)} ${BOX.height}`);
    this.scale = this.scales();
    this.drawAxes();
    for (const series of this.panel.series) this.drawSeries(series);
    const vertical = {y1: BOX.top, y2: BOX.height - BOX.bottom, visibility: "hidden"};
    this.markLine = node("line", {class: "mark", ...vertical}, this.svg);
    this.dots = this.panel.series.map((s) => node("circle", {r: 4, fill: colorOf(s), visibility: "hidden"}, this.svg));
    this.cursor = node("line", {class: "cursor", ...vertical}, this.svg);
    if (this.marked) this.mark(...this.marked);
  }

  scales() {
    const {panel} = this, forth = panel.log ? Math.log10 : (v) => v;
    const [x0, x1] = panel.xRange ?? [panel.x[0], panel.x[panel.x.length - 1]];
    const [low, high] = valueRange(panel);
    const wide = this.width - BOX.left - BOX.right, tall = BOX.height - BOX.top - BOX.bottom;
    return {
      x: (v) => BOX.left + (wide * (v - x0)) / (x1 - x0 || 1),
      y: (v) => BOX.top + tall * (1 - (forth(Math.min(Math.max(v, low), high)) - forth(low)) / (forth(high) - forth(low))),
      step: (pixel) => Math.min(x1, Math.max(x0, x0 + ((pixel - BOX.left) / wide) * (x1 - x0))),
      low, high, x0, x1,
    };
  }

  valueText(value) {
    return this.panel.percent && value !== null ? `${formatNumber(100 * value)} %` : formatNumber(value);
  }

  drawAxes() {
    const {low, high, x0, x1, x, y} = this.scale, right = this.width - BOX.right;
    const values = this.panel.log
      ? roundTicks(Math.log10(low), Math.log10(high), 3).map((t) => 10 ** t)
      : roundTicks(low, high, 5);
    for (const value of values) {
      node("line", {class: "grid", x1: BOX.left, x2: right, y1: y(value), y2: y(value)}, this.svg);
      const label = node("text", {class: "y", x: BOX.left - 5, y: y(value) + 3, "text-anchor": "end"}, this.svg);
      label.textContent = this.valueText(value);
    }
    for (const step of roundTicks(x0, x1, 4)) {
      const last = x(step) > this.width - 26;
      const place = {x: last ? this.width - 2 : x(step), "text-anchor": last ? "end" : "middle"};
      node("text", {class: "x", y: BOX.height - 6, ...place}, this.svg).textContent = formatNumber(step);
    }
  }

  drawSeries(series) {
    const {mean, low, high} = series, xs = this.panel.x;
    if (low) {
      const present = xs.map((_, k) => k).filter((k) => low[k] !== null && high[k] !== null);
      const there = [...present, ...[...present].reverse()];
      const edge = there.map((k, i) => (i < present.length ? high[k] : low[k]));
      const band = path(there.map((k) => xs[k]), edge, this.scale);
      if (band) node("path", {d: band + "Z", fill: colorOf(series), opacity: 0.16}, this.svg);
    }
    node("path", {class: "line", d: path(xs, mean, this.scale), stroke: colorOf(series)}, this.svg);
  }

  // The step under the pointer.
  stepAt(event) {
    const box = this.svg.getBoundingClientRect();
    return this.scale.step(((event.clientX - box.left) / box.width) * this.width);
  }

  // A vertical line that stays at a step, with a dot per series at [x, value]; null hides a dot.
  mark(step, points) {
    this.marked = [step, points];
    const x = this.scale.x(step);
    for (const [name, value] of Object.entries({x1: x, x2: x, visibility: "visible"})) this.markLine.setAttribute(name, value);
    this.dots.forEach((dot, i) => {
      if (points[i]) {
        dot.setAttribute("cx", this.scale.x(points[i][0]));
        dot.setAttribute("cy", this.scale.y(points[i][1]));
      }
      dot.setAttribute("visibility", points[i] ? "visible" : "hidden");
    });
  }

  showValues(event) {
    const {panel, tip} = this, wanted = this.stepAt(event);
    const index = panel.x.reduce((best, x, i) => (Math.abs(x - wanted) < Math.abs(panel.x[best] - wanted) ? i : best), 0);
    const x = this.scale.x(panel.x[index]);
    for (const [name, value] of Object.entries({x1: x, x2: x, visibility: "visible"})) this.cursor.setAttribute(name, value);
    tip.replaceChildren(swatchLine(null, `at ${formatNumber(panel.x[index])}`));
    for (const series of panel.series) {
      const {mean, low, high} = series;
      if (mean[index] === null) continue;
      const known = low && low[index] !== null;
      const interval = known ? ` [${this.valueText(low[index])}, ${this.valueText(high[index])}]` : "";
      tip.append(swatchLine(series, `${series.name}: ${this.valueText(mean[index])}${interval}`));
    }
    tip.hidden = false;
    const box = this.svg.getBoundingClientRect(), left = event.clientX - box.left, onRight = left > box.width / 2;
    tip.style.left = onRight ? "auto" : `${left + 24}px`;
    tip.style.right = onRight ? `${box.width - left + 12}px` : "auto";
    tip.style.top = `${box.top - this.figure.getBoundingClientRect().top + 8}px`;
  }

  hideValues() {
    this.tip.hidden = true;
    this.cursor.setAttribute("visibility", "hidden");
  }
}
