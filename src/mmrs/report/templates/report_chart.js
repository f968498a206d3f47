// One chart: lines with bands in an SVG, and a tip with the values under the pointer.
const SVG = "http://www.w3.org/2000/svg";
const BOX = {left: 46, right: 12, top: 8, bottom: 22, height: 190};

function node(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (parent) parent.append(made);
  return made;
}

function figureText(value) {
  if (value === null || value === undefined) return "none";
  const size = Math.abs(value);
  if (size >= 1e6) return Number((value / 1e6).toPrecision(3)) + "M";
  if (size >= 1e4) return Number((value / 1e3).toPrecision(3)) + "k";
  return String(Number(value.toPrecision(4)));
}

function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let t = Math.ceil(low / step); t * step <= high * (1 + 1e-9); t++) found.push(t * step);
  return found;
}

// From the lines; wide bands, as of two seeds, may add as much again on either side, and are cut off beyond that.
function span(panel, log) {
  const bend = log ? Math.log10 : (v) => v, back = log ? (v) => 10 ** v : (v) => v;
  const reach = (columns) => {
    let low = Infinity, high = -Infinity;
    for (const column of columns)
      for (const value of column ?? [])
        if (value !== null && (!log || value > 0)) { low = Math.min(low, bend(value)); high = Math.max(high, bend(value)); }
    return low > high ? [0, 1] : [low, high];
  };
  const [low, high] = reach(panel.series.map((s) => s[1]));
  const [least, most] = reach(panel.series.flatMap((s) => s.slice(1)));
  const size = high - low || Math.abs(high) * 0.1 || 0.5;
  const air = size * 0.05;
  return [back(Math.max(least, low - size) - air), back(Math.min(most, high + size) + air)];
}

function scales(panel, log, width) {
  const x0 = panel.x[0], x1 = panel.x[panel.x.length - 1];
  const [low, high] = span(panel, log), bend = log ? Math.log10 : (v) => v;
  const wide = width - BOX.left - BOX.right, tall = BOX.height - BOX.top - BOX.bottom;
  return {
    x: (v) => BOX.left + (wide * (v - x0)) / (x1 - x0 || 1),
    y: (v) => BOX.top + tall * (1 - (bend(Math.min(Math.max(v, low), high)) - bend(low)) / (bend(high) - bend(low))),
    step: (pixel) => x0 + ((pixel - BOX.left) / wide) * (x1 - x0),
    low, high, x0, x1, width,
  };
}

function path(xs, ys, at, pen = "M") {
  let text = "";
  xs.forEach((x, i) => {
    if (ys[i] === null) { pen = "M"; return; }
    text += pen + at.x(x).toFixed(1) + " " + at.y(ys[i]).toFixed(1);
    pen = "L";
  });
  return text;
}

function axes(svg, at, log) {
  const marks = log ? ticks(Math.log10(at.low), Math.log10(at.high), 3).map((t) => 10 ** t) : ticks(at.low, at.high, 4);
  for (const value of marks) {
    const y = at.y(value);
    node("line", {class: "grid", x1: BOX.left, x2: at.width - BOX.right, y1: y, y2: y}, svg);
    node("text", {x: BOX.left - 5, y: y + 3, "text-anchor": "end"}, svg).textContent = figureText(value);
  }
  for (const value of ticks(at.x0, at.x1, 4)) {
    const x = at.x(value), anchor = x > at.width - 26 ? "end" : "middle";
    node("text", {x: anchor === "end" ? at.width - 2 : x, y: BOX.height - 6, "text-anchor": anchor}, svg).textContent = figureText(value);
  }
}

function draw(figure, panel, log, name, colour) {
  const width = Math.max(240, figure.clientWidth - 32);
  const svg = node("svg", {viewBox: `0 0 ${width} ${BOX.height}`, role: "img", preserveAspectRatio: "none"}, figure);
  svg.setAttribute("aria-label", `${panel.title}: one line for each of ${panel.series.map((s, i) => name(s[0], i)).join(", ")}`);
  const at = scales(panel, log, width);
  axes(svg, at, log);
  panel.series.forEach(([who, mean, low, high], i) => {
    if (low) {
      const there = panel.x.map((_, k) => k).filter((k) => low[k] !== null && high[k] !== null);
      const back = [...there].reverse();
      const edge = path(there.map((k) => panel.x[k]), there.map((k) => high[k]), at)
        + path(back.map((k) => panel.x[k]), back.map((k) => low[k]), at, "L") + "Z";
      if (there.length) node("path", {d: edge, fill: colour(who, i), opacity: 0.16}, svg);
    }
    node("path", {d: path(panel.x, mean, at), fill: "none", stroke: colour(who, i), "stroke-width": 1.6}, svg);
  });
  hover(figure, svg, panel, at, name, colour);
}

function hover(figure, svg, panel, at, name, colour) {
  const cursor = node("line", {class: "cursor", y1: BOX.top, y2: BOX.height - BOX.bottom, visibility: "hidden"}, svg);
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  figure.append(tip);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const wanted = at.step(((event.clientX - box.left) / box.width) * at.width);
    const index = panel.x.reduce((best, x, i) => (Math.abs(x - wanted) < Math.abs(panel.x[best] - wanted) ? i : best), 0);
    cursor.setAttribute("x1", at.x(panel.x[index]));
    cursor.setAttribute("x2", at.x(panel.x[index]));
    cursor.setAttribute("visibility", "visible");
    tip.replaceChildren(line(null, `at ${figureText(panel.x[index])}`));
    panel.series.forEach(([who, mean, low, high], i) => {
      if (mean[index] === null) return;
      const interval = low && low[index] !== null ? ` [${figureText(low[index])}, ${figureText(high[index])}]` : "";
      tip.append(line(colour(who, i), `${name(who, i)}: ${figureText(mean[index])}${interval}`));
    });
    tip.hidden = false;
    const left = event.clientX - box.left;
    tip.style.left = left > box.width / 2 ? "auto" : `${left + 24}px`;
    tip.style.right = left > box.width / 2 ? `${box.width - left + 12}px` : "auto";
    tip.style.top = "34px";
  });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; cursor.setAttribute("visibility", "hidden"); });
}

function line(colour, text) {
  const made = document.createElement("div");
  if (colour) {
    const swatch = document.createElement("span");
    swatch.className = "swatch";
    swatch.style.background = colour;
    made.append(swatch);
  }
  made.append(text);
  return made;
}
