// The page: one step for all agents, moved by slider, keys, curves or the clock.

const data = JSON.parse(document.getElementById("data").textContent);
const cells = data.size * data.size;
const walks = data.runs.map((run) => new Walk(run, cells, data.lifelong));
const last = Math.max(...walks.map((walk) => walk.steps));
const element = (id) => document.getElementById(id);
const views = walks.map((walk, i) => new MazeView(element(`${walk.method}-maze`), data, walk, `--color-${data.runs[i].color}`));
const values = {
  j: (walk, visit) => walk.fairness[visit],
  coverage: (walk, visit) => walk.seen[visit] / cells,
  entropy: (walk, visit) => walk.entropy[visit] / Math.log(cells),
};
const charts = Object.entries(values).map(([name, value]) => new Chart(element(`chart-${name}`), curvePanel(name, value)));
const slider = element("step");
const page = { step: 0, playing: false, due: 0, clock: 0 };

// A curve has about 600 points, the ends of the walks among them; its band spans all values up to the next point.
function curvePanel(name, value) {
  const stride = Math.ceil(last / 600) || 1, steps = new Set(walks.map((walk) => walk.steps));
  for (let step = 0; step < last; step += stride) steps.add(step);
  const x = [...steps].sort((a, b) => a - b);
  const series = walks.map((walk, i) => {
    const at = (step) => value(walk, walk.visitOfStep[step]);
    const mean = x.map((step) => (step <= walk.steps ? at(step) : null)), low = [...mean], high = [...mean];
    x.forEach((step, k) => {
      for (let s = step; s < Math.min(x[k + 1] ?? 0, walk.steps); s++) {
        const v = at(s);
        if (v < low[k]) low[k] = v;
        if (v > high[k]) high[k] = v;
      }
    });
    return { name: data.runs[i].label, color: data.runs[i].color, mean, ...(stride > 1 && { low, high }) };
  });
  return { title: element(`chart-${name}`).dataset.title, x, xRange: [0, last], yRange: [0, 1], series };
}

// Every number carries its exact value in data-value, whatever the text rounds to.
function put(id, value, text) {
  const target = element(id);
  target.dataset.value = value;
  target.textContent = text;
}

function showNumbers(walk, state) {
  const name = walk.method;
  put(`${name}-step`, state.step, state.step.toLocaleString("en"));
  put(`${name}-j`, state.j, state.j.toFixed(4));
  put(`${name}-coverage`, state.coverage, `${(100 * state.coverage).toFixed(1)} %`);
  put(`${name}-seen`, state.seen, `${state.seen} / ${cells}`);
  put(`${name}-entropy`, state.entropy, `${state.entropy.toFixed(3)} / ${Math.log(cells).toFixed(3)}`);
  put(`${name}-episode`, state.episode, state.episode);
  put(`${name}-cell`, state.cell, `row ${Math.floor(state.cell / data.size) + 1}, col ${(state.cell % data.size) + 1}`);
  const badge = element(`${name}-badge`);
  const covered = walk.coveredAt !== null && state.step >= walk.coveredAt;
  badge.classList.toggle("done", covered);
  badge.textContent = covered ? "every cell seen" : state.ended ? "gave up: step cap" : "exploring";
}

function show() {
  const episodeOnly = element("scope").value === "episode";
  slider.value = page.step;
  put("now", page.step, `step ${page.step.toLocaleString("en")} of ${last.toLocaleString("en")}`);
  const states = walks.map((walk) => walk.at(page.step));
  const visits = walks.map((walk, index) => walk.visits(states[index].visit, episodeOnly));
  let most = 1;
  for (const counts of visits) for (const count of counts) if (count > most) most = count;
  put("most", most, `${most.toLocaleString("en")} visit${most > 1 ? "s" : ""}`);
  walks.forEach((walk, index) => {
    views[index].draw(states[index], visits[index], most);
    showNumbers(walk, states[index]);
  });
  Object.values(values).forEach((value, k) => {
    charts[k].mark(page.step, walks.map((walk) => {
      const step = Math.min(page.step, walk.steps);
      return [step, value(walk, walk.visitOfStep[step])];
    }));
  });
}

function go(step) {
  page.step = Math.min(last, Math.max(0, Math.round(step)));
  show();
}

function play(on) {
  page.playing = on;
  element("play").textContent = on ? "Pause" : "Play";
  if (!on) return;
  if (page.step >= last) page.step = 0;
  page.due = page.step;
  page.clock = performance.now();
  requestAnimationFrame(tick);
}

function tick(time) {
  if (!page.playing) return;
  const elapsed = Math.max(0, Math.min(0.25, (time - page.clock) / 1000)); // a hidden tab must not leap ahead
  page.clock = time;
  page.due += elapsed * Number(element("speed").value);
  if (Math.floor(page.due) !== page.step) go(Math.floor(page.due));
  if (page.step >= last) play(false);
  else requestAnimationFrame(tick);
}

function redraw() {
  for (const view of views) view.fit();
  show();
}

function choose(step) {
  page.due = step;
  go(step);
}

function nudgeSpeed(by) {
  const speed = element("speed");
  speed.selectedIndex = Math.min(speed.length - 1, Math.max(0, speed.selectedIndex + by));
}

const keys = {
  " ": () => play(!page.playing),
  ArrowLeft: (event) => choose(page.step - (event.shiftKey ? 100 : 1)),
  ArrowRight: (event) => choose(page.step + (event.shiftKey ? 100 : 1)),
  Home: () => choose(0),
  End: () => choose(last),
  "+": () => nudgeSpeed(1),
  "-": () => nudgeSpeed(-1),
};

function listen() {
  slider.addEventListener("input", () => choose(Number(slider.value)));
  element("play").addEventListener("click", () => play(!page.playing));
  element("first").addEventListener("click", () => choose(0));
  element("back").addEventListener("click", () => choose(page.step - 1));
  element("forward").addEventListener("click", () => choose(page.step + 1));
  element("last").addEventListener("click", () => choose(last));
  element("scope").addEventListener("change", show);
  element("theme").addEventListener("click", redraw); // after the listener of theme.js
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("resize", redraw);
  window.addEventListener("keydown", (event) => {
    const busy = event.target.tagName === "SELECT" || (event.target.tagName === "BUTTON" && event.key === " ");
    if (busy || event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key](event);
  });
  for (const chart of charts) {
    const seek = (event) => event.buttons & 1 && choose(Math.round(chart.stepAt(event)));
    chart.svg.addEventListener("pointerdown", seek);
    chart.svg.addEventListener("pointermove", seek);
  }
}

function pickSpeed() {
  const wanted = last / 30; // the whole run in about half a minute
  const speeds = [...element("speed").options].map((option) => Number(option.value));
  const off = speeds.map((speed) => Math.abs(Math.log(speed / wanted)));
  element("speed").selectedIndex = off.indexOf(Math.min(...off));
}

slider.max = last;
pickSpeed();
listen();
show();
document.documentElement.dataset.ready = "yes";
