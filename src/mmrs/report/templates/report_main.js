// The report: charts of the chosen metric, tables that sort, and the details behind a cell.
const data = JSON.parse(document.getElementById("data").textContent);

// --- charts: drawn when they come into view, so that a page of a hundred opens at once

const waiting = new Map();
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting || !waiting.has(entry.target)) continue;
    const panel = waiting.get(entry.target);
    waiting.delete(entry.target);
    watcher.unobserve(entry.target);
    new Chart(entry.target, panel);
  }
}, {rootMargin: "300px"});

function show(section, choices) {
  for (const old of section.children) { watcher.unobserve(old); waiting.delete(old); }
  section.replaceChildren();
  for (const choice of choices)
    for (const panel of choice.panels) {
      const figure = document.createElement("figure");
      figure.className = "card";
      const title = document.createElement("h4");
      title.textContent = panel.title;
      figure.append(title);
      if (section.dataset.panels === "terms") figure.append(drawLegend(panel.series));
      section.append(figure);
      waiting.set(figure, panel);
      watcher.observe(figure);
    }
  if (!section.children.length) section.textContent = "No run has recorded this.";
}

for (const section of document.querySelectorAll("[data-panels]")) {
  const choices = data.panels[section.dataset.panels];
  const select = document.querySelector(`[data-choose="${section.dataset.panels}"]`);
  if (!select) { show(section, choices); continue; }
  choices.forEach((choice, i) => select.add(new Option(choice.label, String(i))));
  select.addEventListener("change", () => show(section, [choices[Number(select.value)]]));
  show(section, choices.slice(0, 1));
}
for (const element of document.querySelectorAll("[data-legend]")) drawLegend(data.legend, element);

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
    if (a === null || b === null) return (a === null) - (b === null); // missing values stay last
    const order = text ? a.localeCompare(b, "en", {numeric: true}) : a - b;
    return up ? order : -order;
  });
  body.append(...keyed.map(([, row]) => row));
}
for (const button of document.querySelectorAll("th button.sort")) button.addEventListener("click", () => sortBy(button));

// --- the details behind a cell

function showDetails(cell) {
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
  if (button) showDetails(data.cells[Number(button.dataset.cell)]);
});

document.documentElement.dataset.ready = "yes";
