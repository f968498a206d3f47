// One agent's walk and its statistics at any step, without counting from the beginning.

function decodeStates(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Uint16Array(bytes.buffer);
}

// Visit counts at any visit: a copy is kept every `stride` visits, so that a jump adds at most `stride` visits.
class Counts {
  constructor(states, cells) {
    this.states = states;
    this.stride = Math.max(256, cells); // the copies then take no more memory than the walk itself
    this.kept = [];
    const running = new Uint32Array(cells);
    for (let i = 0; i < states.length; i++) {
      if (i % this.stride === 0) this.kept.push(running.slice());
      running[states[i]]++;
    }
  }

  cursor() {
    return { at: -1, counts: new Uint32Array(this.kept[0].length) };
  }

  // Bring a cursor to "visits 0..visit are counted"; -1 means none.
  move(cursor, visit) {
    if (Math.abs(visit - cursor.at) > this.stride) {
      const block = Math.floor((visit + 1) / this.stride);
      const copy = Math.min(block, this.kept.length - 1);
      cursor.counts.set(this.kept[copy]);
      cursor.at = copy * this.stride - 1;
    }
    while (cursor.at < visit) cursor.counts[this.states[++cursor.at]]++;
    while (cursor.at > visit) cursor.counts[this.states[cursor.at--]]--;
    return cursor.counts;
  }
}

class Walk {
  constructor(run, cells, lifelong) {
    this.method = run.method;
    this.cells = cells;
    this.lifelong = lifelong;
    this.states = decodeStates(run.states);
    this.resets = run.resets;
    this.steps = run.steps;
    this.coveredAt = run.steps_to_coverage;
    this.counts = new Counts(this.states, cells);
    this.now = this.counts.cursor();
    this.before = this.counts.cursor();
    this.measure();
  }

  // Running J and entropy of the episode (or, with lifelong counts, of the run) and coverage of the whole run, in O(1) a visit.
  measure() {
    const total = this.states.length;
    this.visitOfStep = new Uint32Array(this.steps + 1);
    this.episode = new Uint32Array(total);
    this.fairness = new Float64Array(total);
    this.entropy = new Float64Array(total);
    this.seen = new Uint32Array(total);
    const here = new Uint32Array(this.cells);
    const everSeen = new Uint8Array(this.cells);
    const cLogC = (c) => (c > 1 ? c * Math.log(c) : 0);
    let step = 0, episode = 0, n = 0, squares = 0, logs = 0, seen = 0;
    for (let i = 0; i < total; i++) {
      const state = this.states[i];
      if (this.resets[episode] === i) {
        episode++;
        if (!this.lifelong) {
          here.fill(0);
          n = squares = logs = 0;
        }
      } else {
        this.visitOfStep[++step] = i;
      }
      const c = here[state]++;
      n++;
      squares += 2 * c + 1;
      logs += cLogC(c + 1) - cLogC(c);
      if (!everSeen[state]) { everSeen[state] = 1; seen++; }
      this.episode[i] = episode;
      this.fairness[i] = (n * n) / (this.cells * squares);
      this.entropy[i] = Math.max(0, Math.log(n) - logs / n);
      this.seen[i] = seen;
    }
  }

  at(step) {
    const own = Math.min(step, this.steps);
    const i = this.visitOfStep[own];
    return {
      step: own, visit: i, cell: this.states[i], episode: this.episode[i], ended: own === this.steps,
      j: this.fairness[i], coverage: this.seen[i] / this.cells, seen: this.seen[i], entropy: this.entropy[i],
    };
  }

  // Visits of each cell so far, in the whole run or in the current episode alone.
  visits(visit, episodeOnly) {
    const all = this.counts.move(this.now, visit);
    if (!episodeOnly) return all;
    const start = this.resets[this.episode[visit] - 1];
    const earlier = this.counts.move(this.before, start - 1);
    return all.map((count, cell) => count - earlier[cell]);
  }
}
