// Drawing: the maze with its heat map.

// Colors are CSS variables that follow the theme; a probe turns them into something a canvas understands.
function color(name) {
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
  constructor(canvas, maze, walk, agentColor) {
    Object.assign(this, { canvas, maze, walk, agentColor });
    this.context = canvas.getContext("2d");
    this.fit();
  }

  // Walls, portals and marks never change between steps: they are drawn once into a picture of their own.
  fit() {
    fitted(this.canvas);
    this.unit = this.canvas.width / this.maze.size;
    this.ink = { agent: color(this.agentColor), floor: color("--floor"), wall: color("--wall"), card: color("--card") };
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
        context.fillStyle = portal.color;
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
