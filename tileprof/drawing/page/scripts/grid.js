// The grid of blocks as a map: one number of each block as a colour; a block is chosen in it.

const MEASURES = {
  read: { title: "bytes read", unit: "bytes" },
  written: { title: "bytes written", unit: "bytes" },
  guarded: { title: "elements outside tensors", unit: "1" },
  idle: { title: "points left out by masks", unit: "1" },
};

const gridMap = {
  measure: "read",

  build() {
    this.canvas = make("canvas", {
      tabindex: 0,
      role: "img",
      "aria-label": "Grid of blocks; arrow keys choose a block",
    });
    this.key = make("div.key");
    this.select = make(
      "select",
      {
        "aria-label": "Number that colours blocks",
        onchange: () => {
          this.measure = this.select.value;
          this.paint();
        },
      },
      Object.entries(MEASURES).map(([name, each]) => make("option", { value: name }, each.title)),
    );
    this.layer = make("input", {
      type: "range",
      min: 0,
      "aria-label": "Third index of the block",
      oninput: () => this.go(2, Number(this.layer.value)),
    });
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", untold);
    this.canvas.addEventListener("click", (event) => {
      const block = this.blockAt(event);
      if (block !== null) state.choose(block);
    });
    this.canvas.addEventListener("keydown", (event) => {
      const step = {
        ArrowRight: [0, 1],
        ArrowLeft: [0, -1],
        ArrowDown: [1, 1],
        ArrowUp: [1, -1],
        PageDown: [2, 1],
        PageUp: [2, -1],
      }[event.key];
      if (!step) return;
      event.preventDefault();
      this.go(step[0], indices(state.block, state.launch.grid)[step[0]] + step[1]);
    });
    return make(
      "section.card",
      make("h2", "Grid"),
      make("div.line", make("label.quiet", "colour "), this.select),
      this.canvas,
      this.layer,
      this.key,
    );
  },

  // Move the choice along an axis of the grid.
  go(axis, to) {
    const grid = state.launch.grid;
    if (axis >= grid.length) return;
    const at = indices(state.block, grid);
    at[axis] = Math.max(0, Math.min(grid[axis] - 1, to));
    state.choose(linear(at, grid));
  },

  // Columns and rows of the map. A long row of blocks is wrapped.
  get shape() {
    const grid = state.launch.grid;
    if (grid.length > 1) return [grid[0], grid[1]];
    const columns = grid[0] <= 32 ? grid[0] : Math.ceil(Math.sqrt(grid[0] * 1.6));
    return [columns, Math.ceil(grid[0] / columns)];
  },

  blockOf(column, row) {
    const grid = state.launch.grid,
      columns = this.shape[0];
    const block =
      grid.length > 1
        ? linear([column, row, ...indices(state.block, grid).slice(2)], grid)
        : row * columns + column;
    return block < state.launch.blocks ? block : null;
  },

  placeOf(block) {
    const at = indices(block, state.launch.grid);
    if (at.length > 1) return [at[0], at[1]];
    return [block % this.shape[0], Math.floor(block / this.shape[0])];
  },

  blockAt(event) {
    const [columns, rows] = this.shape,
      box = this.canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns),
      row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    if (column < 0 || row < 0 || column >= columns || row >= rows) return null;
    return this.blockOf(column, row);
  },

  hover(event) {
    const block = this.blockAt(event);
    if (block === null) {
      untold();
      return;
    }
    const launch = state.launch;
    told(
      event,
      make("b", `block ${launch.named(block)}`),
      ...Object.entries(MEASURES).map(
        ([name, each]) => `${each.title}: ${format(launch[name][block] ?? null, each.unit) || "?"}`,
      ),
      launch.shown.includes(block) ? "shown step by step" : "",
    );
  },

  paint() {
    const launch = state.launch,
      [columns, rows] = this.shape,
      most = Math.max(...ends(launch[this.measure])),
      least = Math.min(...ends(launch[this.measure]));
    const side = Math.max(Math.min(250 / columns, 190 / rows, 26), 0.02);
    const width = Math.max(Math.round(columns * side), 12),
      height = Math.max(Math.round(rows * side), 12);
    const [pen, color] = penOf(this.canvas, width, height),
      w = width / columns,
      h = height / rows,
      gap = w > 6 && h > 6 ? 1 : 0;
    pen.fillStyle = color("raised");
    pen.fillRect(0, 0, width, height);
    // Where a pixel has several blocks, the first one colours it.
    const across = Math.min(columns, width * 2),
      down = Math.min(rows, height * 2);
    for (let y = 0; y < down; y += 1)
      for (let x = 0; x < across; x += 1) {
        const block = this.blockOf(
          Math.floor((x * columns) / across),
          Math.floor((y * rows) / down),
        );
        if (block === null) continue;
        const value = launch[this.measure][block] ?? 0;
        pen.globalAlpha = value ? 0.15 + 0.75 * (value / most) : 0;
        pen.fillStyle = color("read");
        const edge = (n, size, count) => Math.round((n * size) / count);
        const left = edge(x, width, across),
          top = edge(y, height, down);
        pen.fillRect(
          left,
          top,
          edge(x + 1, width, across) - left - gap,
          edge(y + 1, height, down) - top - gap,
        );
      }
    pen.globalAlpha = 1;
    const frame = (block, stroke, thick) => {
      const [x, y] = this.placeOf(block);
      pen.strokeStyle = stroke;
      pen.lineWidth = thick;
      pen.strokeRect(x * w + 0.5, y * h + 0.5, Math.max(w - 1, 2), Math.max(h - 1, 2));
    };
    const same = (block) =>
      indices(block, launch.grid).slice(2).join() ===
      indices(state.block, launch.grid).slice(2).join();
    for (const block of state.sharing) if (same(block)) frame(block, color("write"), 1.5);
    frame(state.block, color("text"), 2);
    this.layer.hidden = (launch.grid[2] ?? 1) < 2;
    this.layer.max = (launch.grid[2] ?? 1) - 1;
    this.layer.value = indices(state.block, launch.grid)[2] ?? 0;
    const unit = MEASURES[this.measure].unit;
    this.key.textContent =
      least === most
        ? `all blocks: ${format(most, unit)}`
        : `${format(least, unit)} (pale) to ${format(most, unit)} a block`;
  },
};

// The least and the greatest of an array of any length.
function ends(values) {
  let least = Infinity,
    most = -Infinity;
  for (const value of values) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return values.length ? [least, most] : [0, 0];
}
