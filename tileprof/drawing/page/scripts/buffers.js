// A buffer during the steps of one block: what it holds, what the step reads and writes.

const SPACES = [
  ["global", "global memory"],
  ["shared", "shared memory"],
  ["fragment", "fragments"],
  ["local", "local to a thread"],
];

// A buffer that is seen under another shape is drawn apart.
function bufferKey(site) {
  return `${site.space} ${site.buffer} ${site.shape.join()}`;
}

class BufferMap {
  constructor(launch, { site, low, high }) {
    this.launch = launch;
    this.name = site.buffer;
    this.site = site;
    this.shape = site.shape;
    this.axes = pictured(site.shape, [low, high]);
    this.slots = site.space === "shared" ? (launch.rings[site.buffer] ?? 1) : 1;
    this.canvas = make("canvas", { role: "img", "aria-label": `Buffer ${site.buffer}` });
    this.said = make("div.key");
    this.card = make(
      "section.card",
      make(
        "h2",
        make("code", site.buffer),
        make("span.quiet", ` ${site.shape.join(" × ") || "scalar"} ${site.dtype}`),
      ),
      this.canvas,
      this.said,
    );
  }

  get rows() {
    return this.shape[this.axes[0]] ?? 1;
  }

  get columns() {
    return this.shape[this.axes[1]] ?? 1;
  }

  get size() {
    const side = this.slots > 1 ? 76 : 132;
    const scale = Math.min(side / this.columns, side / this.rows, 20);
    return [
      Math.max(Math.round(this.columns * scale), 22),
      Math.max(Math.round(this.rows * scale), 22),
    ];
  }

  // Steps of the moves up to a place, and those of the place itself, that touch this buffer.
  touching(moves, place) {
    const of = (move) => move.filter((each) => bufferKey(each.site) === bufferKey(this.site));
    return { before: moves.slice(0, place).flatMap(of), here: of(moves[place] ?? []) };
  }

  slotOf(step) {
    return this.slots > 1 && step.trip >= 0 ? step.trip % this.slots : 0;
  }

  pixels(step, width, height) {
    const [x, y, w, h] = placed(this.shape, this.axes, [step.low, step.high], width, height);
    return [this.slotOf(step) * (width + 8) + x, y, Math.max(w, 1.5), Math.max(h, 1.5)];
  }

  paint(moves, place) {
    const [width, height] = this.size,
      [pen, color] = penOf(this.canvas, this.slots * (width + 8) - 8, height),
      { before, here } = this.touching(moves, place);
    pen.fillStyle = color("raised");
    for (let slot = 0; slot < this.slots; slot += 1)
      pen.fillRect(slot * (width + 8), 0, width, height);
    // Global memory shows what the block has touched, other memory what was written.
    const held = new Map();
    for (const step of before)
      if (this.site.space === "global" || step.site.access !== "read")
        held.set(this.pixels(step, width, height).join(), step);
    pen.fillStyle = color("held");
    pen.globalAlpha = 0.55;
    for (const step of held.values()) pen.fillRect(...this.pixels(step, width, height));
    for (const step of here) {
      const box = this.pixels(step, width, height),
        writes = step.site.access !== "read",
        both = writes && here.some((each) => each.site.access === "read");
      pen.globalAlpha = 0.85;
      pen.fillStyle = color(writes ? "write" : "read");
      // Where a step reads and writes the same elements, each has half of the picture.
      if (both) pen.fillRect(box[0], box[1] + box[3] / 2, box[2], box[3] / 2);
      else pen.fillRect(...box);
      if (isScattered(step)) hatch(pen, box, color("panel"));
      pen.globalAlpha = 1;
      pen.strokeStyle = color("text");
      pen.strokeRect(box[0] + 0.5, box[1] + 0.5, Math.max(box[2] - 1, 1), Math.max(box[3] - 1, 1));
    }
    pen.globalAlpha = 1;
    this.card.classList.toggle("active", here.length > 0);
    this.tell(before, here);
  }

  tell(before, here) {
    const lines = here.map((step) => {
      const way = { read: "reads", write: "writes", atomic: "combines" }[step.site.access];
      return `${way} ${boxText(step.low, step.high)}, ${format(step.bytes, "bytes")}`;
    });
    if (this.slots > 1) {
      const filled = Array(this.slots).fill("empty");
      for (const step of [...before, ...here])
        if (step.site.access !== "read" && step.trip >= 0)
          filled[this.slotOf(step)] = `iteration ${step.trip}`;
      lines.push(filled.map((each, slot) => `slot ${slot}: ${each}`).join(" · "));
    }
    this.said.replaceChildren(...lines.map((line) => make("div", line)));
  }
}

// Whether a step accesses only some of the elements of its box.
function isScattered(step) {
  const volume = step.low.reduce((product, begin, d) => product * (step.high[d] - begin), 1);
  return step.elements + step.guarded < volume;
}

function hatch(pen, [x, y, w, h], stroke) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, w, h);
  pen.clip();
  pen.strokeStyle = stroke;
  pen.beginPath();
  for (let at = -h; at < w; at += 5) {
    pen.moveTo(x + at, y + h);
    pen.lineTo(x + at + h, y);
  }
  pen.stroke();
  pen.restore();
}
