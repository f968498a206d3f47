const data = JSON.parse(document.getElementById("data").textContent);
const methodName = (who) => (typeof who === "number" ? data.methods[who] : who);
const methodColour = (who, place) => `var(--s${(typeof who === "number" ? who : place) % 8})`;

// --- charts: drawn when they come into view, so that a page of a hundred opens at once

const waiting = new Map();
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting || !waiting.has(entry.target)) continue;
    const [panel, log] = waiting.get(entry.target);
    waiting.delete(entry.target);
    watcher.unobserve(entry.target);
    draw(entry.target, panel, log, methodName, methodColour);
  }
}, {rootMargin: "300px"});

function show(place, choices) {
  for (const old of place.children) { watcher.unobserve(old); waiting.delete(old); }
  place.replaceChildren();
  for (const choice of choices)
    for (const panel of choice.panels) {
      const figure = document.createElement("figure");
      figure.className = "card";
      const title = document.createElement("h4");
      title.textContent = panel.title;
      figure.append(title);
      if (place.dataset.panels === "terms") figure.append(legend(panel.series.map(([who]) => who)));
      place.append(figure);
      waiting.set(figure, [panel, choice.log]);
      watcher.observe(figure);
    }
  if (!place.children.length) place.textContent = "No run has recorded this.";
}

function legend(names, into = document.createElement("div")) {
  into.className = "legend";
  names.forEach((who, i) => {
    const entry = document.createElement("span");
    const swatch = document.createElement("span");
    swatch.className = "swatch";
    swatch.style.background = methodColour(who, i);
    entry.append(swatch, methodName(who));
    into.append(entry);
  });
  return into;
}

for (const place of document.querySelectorAll("[data-panels]")) {
  const choices = data.panels[place.dataset.panels];
  const select = document.querySelector(`[data-choose="${place.dataset.panels}"]`);
  if (!select) { show(place, choices); continue; }
  choices.forEach((choice, i) => select.add(new Option(choice.label, String(i))));
  select.addEventListener("change", () => show(place, [choices[Number(select.value)]]));
  show(place, choices.slice(0, 1));
}
for (const place of document.querySelectorAll("[data-legend]")) legend(data.methods.map((_, i) => i), place);

// --- tables

function sortBy(button) {
  const head = button.closest("th"), body = head.closest("table").tBodies[0];
  const column = [...head.parentNode.children].indexOf(head);
  const text = button.dataset.kind === "text";
  const up = head.getAttribute("aria-sort") === "none" ? text : head.getAttribute("aria-sort") === "descending";
  for (const other of head.parentNode.children) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = (row) => {
    const cell = row.cells[column];
    if (text) return cell.textContent.trim();
    const given = cell.dataset.value;
    return given === undefined || given === "" ? null : Number(given);
  };
  const keyed = [...body.rows].map((row) => [value(row), row]);
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null); // what is missing stays last
    const order = text ? a.localeCompare(b, "en", {numeric: true}) : a - b;
    return up ? order : -order;
  });
  body.append(...keyed.map(([, row]) => row));
}
for (const button of document.querySelectorAll("th button.sort")) button.addEventListener("click", () => sortBy(button));

// --- what is behind a cell

function behind(cell) {
  const fill = (name, text) => { document.getElementById(`behind-${name}`).textContent = text; };
  fill("title", cell.title);
  fill("command", cell.commands.join("\n"));
  fill("config", cell.config);
  const body = document.getElementById("behind-runs");
  body.replaceChildren();
  for (const run of cell.runs) {
    const row = body.insertRow();
    for (const value of run.slice(0, 5)) row.insertCell().textContent = value;
  }
  const errors = cell.runs.map((run) => run[5]).filter(Boolean);
  fill("errors", errors.join("\n\n"));
  document.getElementById("behind-errors").hidden = !errors.length;
  document.getElementById("behind").showModal();
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("button.cell");
  if (button) behind(data.cells[Number(button.dataset.cell)]);
});

document.getElementById("theme").addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.style.colorScheme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.style.colorScheme = dark ? "light" : "dark";
});
document.documentElement.dataset.ready = "yes";
