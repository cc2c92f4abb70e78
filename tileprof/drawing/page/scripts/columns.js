// Columns of numbers as `columns.py` writes them, and the regions of blocks made of them.

const KINDS = {
  u8: Uint8Array,
  i8: Int8Array,
  u16: Uint16Array,
  i16: Int16Array,
  i32: Int32Array,
  f64: Float64Array,
};

function unpacked(held) {
  if ("all" in held) return new Float64Array(held.count).fill(held.all);
  if (!("values" in held)) {
    const text = atob(held.data),
      bytes = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
    return new KINDS[held.type](bytes.buffer);
  }
  const values = unpacked(held.values),
    lengths = unpacked(held.lengths),
    made = new Float64Array(lengths.reduce((sum, each) => sum + each, 0));
  let at = 0;
  values.forEach((value, run) => {
    made.fill(value, at, at + lengths[run]);
    at += lengths[run];
  });
  return made;
}

// Elements of a tensor that each block accesses; a box is `[low, high]`, one index a dimension.
class Regions {
  constructor(held, grid, shape) {
    this.grid = grid;
    this.shape = shape;
    this.sums = "number" in held ? null : held;
    if (this.sums) return;
    this.number = unpacked(held.number);
    this.low = unpacked(held.low);
    this.high = unpacked(held.high);
    this.begins = [0];
    for (const size of unpacked(held.sizes)) this.begins.push(this.begins.at(-1) + size);
  }

  // Blocks whose elements are known: all, unless there were too many boxes.
  get known() {
    return this.sums ? Infinity : this.number.length;
  }

  of(block) {
    if (this.sums) {
      const at = indices(block, this.grid);
      const along = (steps) => steps[0] + at.reduce((sum, n, axis) => sum + n * steps[axis + 1], 0);
      const low = this.sums.low.map(along),
        high = this.sums.high.map((each, d) => Math.min(along(each), this.shape[d]));
      return low.every((begin, d) => begin < high[d]) ? [[low, high]] : [];
    }
    if (block >= this.number.length) return [];
    const rank = this.shape.length,
      first = this.begins[this.number[block]],
      made = [];
    for (let box = first; box < this.begins[this.number[block] + 1]; box += 1)
      made.push([
        [...this.low.subarray(box * rank, (box + 1) * rank)],
        [...this.high.subarray(box * rank, (box + 1) * rank)],
      ]);
    return made;
  }

  // Blocks that access an element.
  holding(index, blocks) {
    const found = [];
    for (let block = 0; block < Math.min(blocks, this.known); block += 1)
      if (this.of(block).some(([low, high]) => index.every((n, d) => n >= low[d] && n < high[d])))
        found.push(block);
    return found;
  }
}

// Indices of a block; the first axis of the grid counts fastest.
function indices(block, grid) {
  return grid.map((extent) => {
    const at = block % extent;
    block = (block - at) / extent;
    return at;
  });
}

function linear(at, grid) {
  return at.reduceRight((sum, n, axis) => sum * grid[axis] + n, 0);
}
