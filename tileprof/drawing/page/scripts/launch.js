// The launches of the run, with what is asked of them: steps of a block, boxes, names.

class Launch {
  constructor(held) {
    const { steps, ...rest } = held;
    Object.assign(this, rest);
    this.folded = steps;
    this.kernel = data.kernels[held.kernel];
    this.blocks = held.grid.reduce((product, extent) => product * extent, 1);
    for (const name of ["read", "written", "guarded", "idle"]) this[name] = unpacked(held[name]);
    this.tensors = held.tensors.map((tensor) => {
      const made = { ...tensor };
      for (const way of ["read", "written"])
        if (tensor[way])
          made[way] = {
            ...tensor[way],
            regions: new Regions(tensor[way].regions, held.grid, tensor.shape),
          };
      return made;
    });
    this.known = new Map();
  }

  get moved() {
    return this.tensors.reduce(
      (sum, each) => sum + (each.read?.bytes ?? 0) + (each.written?.bytes ?? 0),
      0,
    );
  }

  get least() {
    return this.tensors.reduce(
      (sum, each) => sum + (each.read?.least ?? 0) + (each.written?.least ?? 0),
      0,
    );
  }

  // The accesses of a block in order, made when first asked for; none where it is not shown.
  steps(block) {
    const place = this.shown.indexOf(block);
    if (place < 0) return [];
    if (!this.known.has(block)) this.known.set(block, this.unfolded(this.folded[place]));
    return this.known.get(block);
  }

  unfolded(held) {
    const columns = {};
    for (const [name, each] of Object.entries(held))
      if (name !== "count") columns[name] = unpacked(each);
    const made = [];
    let at = 0;
    for (let row = 0; row < held.count; row += 1) {
      const site = this.sites[columns.site[row]],
        rank = site.shape.length;
      made.push({
        site,
        number: columns.site[row],
        trip: columns.trip[row],
        elements: columns.elements[row],
        guarded: columns.guarded[row],
        points: columns.points[row],
        active: columns.active[row],
        bytes: columns.elements[row] * site.width,
        low: [...columns.low.subarray(at, at + rank)],
        high: [...columns.high.subarray(at, at + rank)],
      });
      at += rank;
    }
    return made;
  }

  // Accesses that belong to one op, and one run of it: what is read, then what is written.
  moves(block) {
    const made = [];
    for (const step of this.steps(block)) {
      const last = made.at(-1);
      const goes =
        last &&
        last[0].site.line === step.site.line &&
        last[0].site.op === step.site.op &&
        last[0].trip === step.trip &&
        last.at(-1).number < step.number;
      if (goes) last.push(step);
      else made.push([step]);
    }
    return made;
  }

  named(block) {
    return `(${indices(block, this.grid).join(", ")})`;
  }
}

const launches = data.launches.map((held) => new Launch(held));

// The dimensions that a picture has as rows and columns: the last one, and of the others that in
// which a box is longest. A vector has no rows.
function pictured(shape, [low, high]) {
  const last = shape.length - 1;
  let rows = -1;
  for (let d = 0; d < last; d += 1) {
    const longer = rows < 0 ? 1 : high[d] - low[d] - (high[rows] - low[rows]);
    if (longer > 0 || (longer === 0 && shape[d] >= shape[rows])) rows = d;
  }
  return [rows, last];
}

// A box in a picture of so many pixels.
function placed(shape, [rows, columns], [low, high], width, height) {
  const range = (d, size) => {
    if (d < 0) return [0, size];
    const inside = (n) => Math.max(0, Math.min(shape[d], n));
    return [(inside(low[d]) * size) / shape[d], (inside(high[d]) * size) / shape[d]];
  };
  const [x0, x1] = range(columns, width),
    [y0, y1] = range(rows, height);
  return [x0, y0, x1 - x0, y1 - y0];
}

// `[64:128, 0:32]`.
function boxText(low, high) {
  return `[${low.map((begin, d) => (high[d] - begin === 1 ? begin : `${begin}:${high[d]}`)).join(", ")}]`;
}

function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : word.endsWith("s") ? "es" : "s"}`;
}

// `64 blocks: x 0–63, y 3`.
function blocksText(blocks, grid) {
  if (!blocks.length) return "no block";
  const names = ["x", "y", "z"],
    ranges = grid.map((_, axis) => {
      const held = new Set(blocks.map((block) => indices(block, grid)[axis]));
      const least = Math.min(...held),
        most = Math.max(...held);
      if (held.size === 1) return `${names[axis]} ${least}`;
      return `${names[axis]} ${least}–${most}${held.size < most - least + 1 ? ` (${held.size} of them)` : ""}`;
    });
  return `${plural(blocks.length, "block")}: ${ranges.join(", ")}`;
}

// How many times what is needed, to two digits; nothing for exactly once.
function times(taken, needed) {
  if (!needed || taken === needed) return "";
  const ratio = taken / needed;
  return `${ratio >= 10 ? Math.round(ratio) : ratio.toFixed(1)}×`;
}
