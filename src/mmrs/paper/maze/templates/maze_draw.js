// Drawing: the maze with its heat map, and the curves.

// Colours are CSS variables that follow the theme; a probe turns them into something a canvas understands.
function colour(name) {
  const probe = document.getElementById("probe");
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

function fitted(canvas) {
  const box = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(box.width * ratio));
  canvas.height = Math.max(1, Math.round(box.height * ratio));
  return ratio;
}

class MazeView {
  constructor(canvas, maze, walk, agentColour) {
    Object.assign(this, { canvas, maze, walk, agentColour });
    this.context = canvas.getContext("2d");
    this.fit();
  }

  // Walls, portals and marks never change between steps: they are drawn once into a picture of their own.
  fit() {
    fitted(this.canvas);
    this.unit = this.canvas.width / this.maze.size;
    this.ink = { agent: colour(this.agentColour), floor: colour("--floor"), wall: colour("--wall"), card: colour("--card") };
    this.marks = document.createElement("canvas");
    this.marks.width = this.canvas.width;
    this.marks.height = this.canvas.height;
    const context = this.marks.getContext("2d");
    this.drawPortals(context);
    this.drawMark(context, this.maze.start, "S");
    this.drawMark(context, this.maze.goal, "G");
    this.drawWalls(context);
  }

  corner(cell) {
    return [(cell % this.maze.size) * this.unit, Math.floor(cell / this.maze.size) * this.unit];
  }

  drawWalls(context) {
    const u = this.unit, path = new Path2D(), inset = Math.max(1, u * 0.045);
    this.maze.walls.forEach((bits, cell) => {
      const [x, y] = this.corner(cell);
      if (bits & 1) { path.moveTo(x, y); path.lineTo(x + u, y); }
      if (bits & 8) { path.moveTo(x, y); path.lineTo(x, y + u); }
    });
    const side = u * this.maze.size;
    path.rect(inset, inset, side - 2 * inset, side - 2 * inset);
    context.strokeStyle = this.ink.wall;
    context.lineWidth = 2 * inset;
    context.lineCap = "round";
    context.stroke(path);
  }

  drawPortals(context) {
    const u = this.unit;
    for (const portal of this.maze.portals) {
      for (const cell of portal.cells) {
        const [x, y] = this.corner(cell);
        context.fillStyle = portal.colour;
        context.beginPath();
        context.roundRect(x + u * 0.14, y + u * 0.14, u * 0.72, u * 0.72, u * 0.16);
        context.fill();
        this.letter(context, x, y, portal.letter, "#fff");
      }
    }
  }

  drawMark(context, cell, letter) {
    const u = this.unit, [x, y] = this.corner(cell);
    context.strokeStyle = this.ink.wall;
    context.lineWidth = Math.max(1, u * 0.06);
    context.beginPath();
    context.arc(x + u / 2, y + u / 2, u * 0.34, 0, 7);
    context.stroke();
    this.letter(context, x, y, letter, this.ink.wall);
  }

  letter(context, x, y, text, ink) {
    if (this.unit < 14) return; // unreadable below
    context.fillStyle = ink;
    context.font = `700 ${Math.round(this.unit * (text.length > 1 ? 0.36 : 0.46))}px system-ui, "DejaVu Sans", sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(text, x + this.unit / 2, y + this.unit * 0.53);
  }

  draw(state, counts, most) {
    const { context, unit: u } = this;
    const scale = 1 / Math.log(1 + most);
    context.globalAlpha = 1;
    context.fillStyle = this.ink.floor;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    context.fillStyle = this.ink.agent;
    for (let cell = 0; cell < counts.length; cell++) {
      if (!counts[cell]) continue;
      const [x, y] = this.corner(cell);
      context.globalAlpha = 0.1 + 0.72 * Math.log(1 + counts[cell]) * scale;
      context.fillRect(x, y, u + 0.5, u + 0.5);
    }
    context.globalAlpha = 1;
    context.drawImage(this.marks, 0, 0);
    this.drawAgent(state);
  }

  drawAgent(state) {
    const { context, unit: u } = this;
    const first = Math.max(this.walk.resets[state.episode - 1], state.visit - 16);
    context.fillStyle = this.ink.wall;
    for (let visit = first; visit < state.visit; visit++) {
      const [x, y] = this.corner(this.walk.states[visit]);
      context.globalAlpha = 0.5 * (1 - (state.visit - visit) / 17);
      context.beginPath();
      context.arc(x + u / 2, y + u / 2, u * 0.13, 0, 7);
      context.fill();
    }
    context.globalAlpha = 1;
    const [x, y] = this.corner(state.cell);
    context.beginPath();
    context.arc(x + u / 2, y + u / 2, u * 0.32, 0, 7);
    context.fillStyle = this.ink.wall;
    context.fill();
    context.lineWidth = Math.max(1.5, u * 0.09);
    context.strokeStyle = this.ink.card;
    context.stroke();
  }
}

class Chart {
  constructor(canvas, walks, value, last) {
    Object.assign(this, { canvas, walks, value, last });
    this.context = canvas.getContext("2d");
    this.fit();
  }

  fit() {
    this.ratio = fitted(this.canvas);
    const r = this.ratio;
    this.box = { x: 34 * r, y: 8 * r, w: this.canvas.width - 44 * r, h: this.canvas.height - 30 * r };
    this.lines = document.createElement("canvas");
    this.lines.width = this.canvas.width;
    this.lines.height = this.canvas.height;
    const context = this.lines.getContext("2d");
    this.drawFrame(context);
    this.walks.forEach((walk, index) => this.drawLine(context, walk, colour(`--agent-${index % 4}`)));
    this.quiet = colour("--quiet");
  }

  x(step) { return this.box.x + (this.box.w * step) / Math.max(1, this.last); }
  y(value) { return this.box.y + this.box.h * (1 - value); }
  stepAt(clientX) {
    const box = this.canvas.getBoundingClientRect();
    const share = ((clientX - box.left) * this.ratio - this.box.x) / this.box.w;
    return Math.round(Math.min(1, Math.max(0, share)) * this.last);
  }

  drawFrame(context) {
    context.font = `${11 * this.ratio}px system-ui, "DejaVu Sans", sans-serif`;
    context.fillStyle = colour("--quiet");
    context.strokeStyle = colour("--line");
    context.lineWidth = this.ratio;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
      context.beginPath();
      context.moveTo(this.box.x, this.y(tick));
      context.lineTo(this.box.x + this.box.w, this.y(tick));
      context.stroke();
      if (tick * 2 === Math.round(tick * 2)) context.fillText(tick, this.box.x - 6 * this.ratio, this.y(tick));
    }
    context.textBaseline = "top";
    const below = this.box.y + this.box.h + 6 * this.ratio;
    [[0, "left"], [this.last / 2, "center"], [this.last, "right"]].forEach(([step, align]) => {
      context.textAlign = align;
      const unit = align === "center" ? " steps" : "";
      context.fillText(Math.round(step).toLocaleString("en") + unit, this.x(step), below);
    });
  }

  // A pixel column shows the least and greatest value that fall into it: 50,000 steps draw as fast as 500.
  drawLine(context, walk, ink) {
    const columns = Math.max(1, Math.round((this.box.w / Math.max(1, this.last)) * walk.steps));
    const path = new Path2D();
    for (let column = 0; column <= columns; column++) {
      const from = Math.round((walk.steps * column) / (columns + 1));
      const until = Math.max(from + 1, Math.round((walk.steps * (column + 1)) / (columns + 1)));
      let low = Infinity, high = -Infinity;
      for (let step = from; step <= until && step <= walk.steps; step++) {
        const v = this.value(walk, walk.visitOfStep[step]);
        if (v < low) low = v;
        if (v > high) high = v;
      }
      const x = this.x((from + until) / 2);
      if (column === 0) path.moveTo(this.x(0), this.y(this.value(walk, 0)));
      path.lineTo(x, this.y(high));
      if (high - low > 0.004) { path.lineTo(x, this.y(low)); path.lineTo(x, this.y((low + high) / 2)); }
    }
    context.strokeStyle = ink;
    context.lineJoin = "round";
    context.lineWidth = 1.8 * this.ratio;
    context.stroke(path);
    this.dot(context, walk, walk.steps, ink, 2.5);
  }

  dot(context, walk, step, ink, radius) {
    context.fillStyle = ink;
    context.beginPath();
    context.arc(this.x(step), this.y(this.value(walk, walk.visitOfStep[step])), radius * this.ratio, 0, 7);
    context.fill();
  }

  draw(step) {
    const { context, box } = this;
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.lines, 0, 0);
    context.strokeStyle = this.quiet;
    context.lineWidth = this.ratio;
    context.beginPath();
    context.moveTo(this.x(step), box.y);
    context.lineTo(this.x(step), box.y + box.h);
    context.stroke();
    this.walks.forEach((walk, index) => {
      this.dot(context, walk, Math.min(step, walk.steps), colour(`--agent-${index % 4}`), 4);
    });
  }
}
