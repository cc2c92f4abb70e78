// Slots of a pipelined loop over its iterations: when each is filled, and when it is read.

const RING_ROW = 15;
const RING_SHOWN = 24;

class RingMap {
  constructor(launch) {
    this.launch = launch;
    this.names = Object.keys(launch.rings);
    this.canvas = make("canvas", { role: "img", "aria-label": "Slots over iterations" });
    this.canvas.addEventListener("click", (event) => this.click(event));
    const notes = launch.kernel.notes.filter((each) => each[1].startsWith("loop"));
    this.card = make(
      "section.card.wide",
      make("h2", "Ring slots over iterations"),
      make("div.ring", this.canvas),
      make(
        "div.key",
        make("span", { class: "swatch of-held" }),
        "filled, as early as num_stages asks ",
        make("span", { class: "swatch of-read" }),
        "read in its iteration ",
        make("span", { class: "swatch of-written" }),
        "iteration of the step",
      ),
      ...notes.map(([line, subject, decision]) =>
        make("div.key", `on ${launch.kernel.target}, line ${line}: ${subject}: ${decision}`),
      ),
    );
  }

  // Iterations in which a buffer is filled, and those in which it is read.
  trips(moves) {
    const found = new Map(this.names.map((name) => [name, { filled: new Set(), read: new Set() }]));
    for (const move of moves)
      for (const step of move) {
        const held = found.get(step.site.buffer);
        if (!held || step.trip < 0 || step.site.space !== "shared") continue;
        held[step.site.access === "read" ? "read" : "filled"].add(step.trip);
      }
    return found;
  }

  paint(moves, place) {
    const found = this.trips(moves),
      last = Math.max(...moves.flat().map((step) => step.trip), 0),
      here = moves[place]?.[0].trip ?? -1;
    this.first = Math.max(
      -2,
      Math.min(last - RING_SHOWN + 1, Math.max(here, 0) - RING_SHOWN / 2),
    );
    const shown = Math.min(RING_SHOWN, last - this.first + 1),
      names = 96,
      column = 22;
    this.column = column;
    this.left = names;
    const rows = this.names.reduce((sum, name) => sum + this.launch.rings[name], 0);
    const width = names + shown * column,
      height = 18 + (rows + this.names.length) * RING_ROW;
    const [pen, color] = penOf(this.canvas, width, height);
    pen.textAlign = "center";
    for (let at = 0; at < shown; at += 1) {
      const trip = this.first + at;
      if (here >= 0 && trip === here) {
        pen.globalAlpha = 0.25;
        pen.fillStyle = color("write");
        pen.fillRect(names + at * column, 0, column, height);
        pen.globalAlpha = 1;
      }
      pen.fillStyle = color("quiet");
      if (trip >= 0 && (trip % 2 === 0 || trip === here))
        pen.fillText(String(trip), names + (at + 0.5) * column, 8);
    }
    let y = 18;
    for (const name of this.names) {
      const stages = this.launch.rings[name],
        { filled, read } = found.get(name);
      for (let slot = 0; slot < stages; slot += 1) {
        pen.textAlign = "left";
        pen.fillStyle = color("quiet");
        pen.fillText(slot ? `  ${slot}` : `${fitted(name, 76)} 0`, 0, y + RING_ROW / 2);
        for (const trip of filled) {
          if (trip % stages !== slot) continue;
          const bar = (from, to, fill) => {
            const begin = Math.max(from - this.first, 0),
              end = Math.min(to - this.first, shown);
            if (end <= begin) return;
            pen.fillStyle = fill;
            pen.fillRect(names + begin * column + 1, y + 2, (end - begin) * column - 2, RING_ROW - 4);
          };
          bar(trip - stages + 1, trip, color("held"));
          if (read.has(trip)) bar(trip, trip + 1, color("read"));
        }
        y += RING_ROW;
      }
      y += RING_ROW;
    }
  }

  click(event) {
    const box = this.canvas.getBoundingClientRect(),
      trip = Math.floor((event.clientX - box.left - this.left) / this.column) + this.first;
    const move = state.moves.findIndex((each) => each[0].trip === trip);
    if (move >= 0) state.set({ move });
  }
}
