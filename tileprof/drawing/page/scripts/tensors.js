// A global tensor as a map: what the chosen block reads and writes, and how many blocks share it.

class TensorMap {
  constructor(launch, tensor) {
    this.launch = launch;
    this.tensor = tensor;
    this.heat = {};
    // Where the picture cuts through the dimensions that it does not have.
    this.slice = tensor.shape.map(() => 0);
    const first = this.boxes(state.block)[0] ?? [this.slice, tensor.shape];
    this.axes = pictured(tensor.shape, first);
    this.others = tensor.shape.map((_, d) => d).filter((d) => !this.axes.includes(d));
    this.canvas = make("canvas", { role: "img", "aria-label": `Tensor ${tensor.name}` });
    this.where = make("div.key");
    this.sums = make("div.sums");
    this.leads = make("div.line");
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => {
      untold();
      if (!this.pinned) state.set({ sharing: [] });
    });
    this.canvas.addEventListener("click", (event) => {
      this.pinned = false;
      this.hover(event);
      this.pinned = true;
    });
    this.card = make(
      "section.card.tensor",
      make(
        "h2",
        make("code", tensor.name),
        make("span.quiet", ` ${tensor.shape.join(" × ") || "scalar"} ${tensor.dtype}`),
      ),
      this.leads,
      this.canvas,
      this.where,
      this.sums,
    );
    this.tell();
  }

  get rows() {
    return this.tensor.shape[this.axes[0]] ?? 1;
  }

  get columns() {
    return this.tensor.shape[this.axes[1]] ?? 1;
  }

  // Blocks whose elements the page has.
  get known() {
    return Math.min(
      ...["read", "written"].map((way) => this.tensor[way]?.regions.known ?? Infinity),
    );
  }

  // Boxes that a block writes and reads.
  boxes(block) {
    return ["written", "read"].flatMap((way) => this.tensor[way]?.regions.of(block) ?? []);
  }

  // Width and height of the picture; a vector is a bar.
  get size() {
    const scale = Math.min(220 / this.columns, 190 / this.rows, 24);
    return [
      Math.max(Math.round(this.columns * scale), 24),
      Math.max(Math.round(this.rows * scale), 24),
    ];
  }

  // Boxes of a block in the slice that is shown, as pixels.
  pixels(boxes, width, height) {
    return boxes
      .filter(([low, high]) =>
        this.others.every((d) => this.slice[d] >= low[d] && this.slice[d] < high[d]),
      )
      .map((box) => placed(this.tensor.shape, this.axes, box, width, height));
  }

  // How many blocks access each pixel.
  shared(way, width, height) {
    const key = `${way} ${this.slice.join()}`;
    if (this.heat[key]) return this.heat[key];
    const regions = this.tensor[way]?.regions,
      sums = new Float64Array((width + 1) * (height + 1));
    if (regions) {
      for (let block = 0; block < Math.min(this.launch.blocks, regions.known); block += 1)
        for (const [x, y, w, h] of this.pixels(regions.of(block), width, height)) {
          const left = Math.min(Math.round(x), width - 1),
            top = Math.min(Math.round(y), height - 1),
            right = Math.max(Math.round(x + w), left + 1),
            bottom = Math.max(Math.round(y + h), top + 1);
          sums[top * (width + 1) + left] += 1;
          sums[top * (width + 1) + right] -= 1;
          sums[bottom * (width + 1) + left] -= 1;
          sums[bottom * (width + 1) + right] += 1;
        }
      for (let y = 0; y <= height; y += 1)
        for (let x = 1; x <= width; x += 1) sums[y * (width + 1) + x] += sums[y * (width + 1) + x - 1];
      for (let y = 1; y <= height; y += 1)
        for (let x = 0; x <= width; x += 1) sums[y * (width + 1) + x] += sums[(y - 1) * (width + 1) + x];
    }
    this.heat[key] = sums;
    return sums;
  }

  paint() {
    const [width, height] = this.size,
      [pen, color] = penOf(this.canvas, width, height);
    this.follow();
    pen.fillStyle = color("raised");
    pen.fillRect(0, 0, width, height);
    for (const [way, name] of [
      ["read", "read"],
      ["written", "write"],
    ]) {
      if (!this.tensor[way]) continue;
      const sums = this.shared(way, width, height),
        most = ends(sums)[1];
      pen.fillStyle = color(name);
      for (let y = 0; y < height; y += 1)
        for (let x = 0; x < width; ) {
          const held = sums[y * (width + 1) + x];
          let to = x + 1;
          while (to < width && sums[y * (width + 1) + to] === held) to += 1;
          if (held > 0) {
            pen.globalAlpha = 0.1 + 0.3 * (most > 1 ? Math.log(held) / Math.log(most) : 0);
            pen.fillRect(x, y, to - x, 1);
          }
          x = to;
        }
    }
    for (const [way, name] of [
      ["read", "read"],
      ["written", "write"],
    ])
      for (const [x, y, w, h] of this.pixels(
        this.tensor[way]?.regions.of(state.block) ?? [],
        width,
        height,
      )) {
        pen.globalAlpha = 0.85;
        pen.fillStyle = color(name);
        pen.fillRect(x, y, Math.max(w, 1.5), Math.max(h, 1.5));
        pen.globalAlpha = 1;
        pen.strokeStyle = color("text");
        pen.lineWidth = 1;
        if (w > 4 && h > 4) pen.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
      }
    pen.globalAlpha = 1;
    this.tellBlock();
  }

  // Show the slice of a tensor of more dimensions in which the chosen block is.
  follow() {
    const [first] = this.boxes(state.block);
    if (!this.others.length) return;
    if (first && this.followed !== state.block) {
      this.followed = state.block;
      for (const d of this.others) this.slice[d] = first[0][d];
    }
    const shown = this.slice.map((at, d) => (this.others.includes(d) ? at : ":"));
    this.leads.replaceChildren(
      make("code", `[${shown.join(", ")}]`),
      ...this.others
        .filter((d) => this.tensor.shape[d] > 1)
        .map((d) =>
          make(
            "label.quiet",
            `${d}: `,
            stepper(this.slice[d], this.tensor.shape[d], (to) => {
              this.slice[d] = Math.max(0, Math.min(this.tensor.shape[d] - 1, to));
              this.paint();
            }),
          ),
        ),
    );
  }

  tellBlock() {
    const said = ["read", "written"].flatMap((way) => {
      const boxes = this.tensor[way]?.regions.of(state.block) ?? [];
      if (!boxes.length) return [];
      const shown = boxes.slice(0, 2).map(([low, high]) => boxText(low, high));
      return [
        make(
          "div",
          make("span.swatch", { class: `swatch of-${way}` }),
          `${way === "read" ? "reads" : "writes"} `,
          make("code", shown.join(" ")),
          boxes.length > 2 ? ` and ${boxes.length - 2} more boxes` : "",
        ),
      ];
    });
    const none = state.block < this.known ? "not accessed by this block" : "not kept for this block";
    this.where.replaceChildren(...(said.length ? said : [make("div", none)]));
  }

  // Bytes of all blocks against those that must move once.
  tell() {
    this.sums.replaceChildren(
      ...["read", "written"]
        .filter((way) => this.tensor[way])
        .map((way) => {
          const { bytes, least } = this.tensor[way],
            ratio = times(bytes, least);
          return make(
            "div",
            `${way} by all blocks `,
            make("b", format(bytes, "bytes")),
            make("span.quiet", `, must move ${format(least, "bytes")}`),
            ratio ? `, ${ratio} as much: L2 can serve the repeats` : "",
          );
        }),
    );
  }

  hover(event) {
    const box = this.canvas.getBoundingClientRect(),
      inside = (part, count) => Math.max(0, Math.min(count - 1, Math.floor(part * count)));
    const column = inside((event.clientX - box.left) / box.width, this.columns),
      row = inside((event.clientY - box.top) / box.height, this.rows);
    const index = [...this.slice];
    if (this.axes[0] >= 0) index[this.axes[0]] = row;
    if (this.axes[1] >= 0) index[this.axes[1]] = column;
    const of = (way) => this.tensor[way]?.regions.holding(index, this.launch.blocks) ?? [];
    const readers = of("read"),
      writers = of("written");
    told(
      event,
      make("b", `${this.tensor.name}[${index.join(", ")}]`),
      this.tensor.read ? `read by ${blocksText(readers, this.launch.grid)}` : "",
      this.tensor.written ? `written by ${blocksText(writers, this.launch.grid)}` : "",
      this.known < this.launch.blocks
        ? `among the first ${this.known.toLocaleString("en")} blocks, which the page has`
        : "",
    );
    if (!this.pinned) state.set({ sharing: [...new Set([...readers, ...writers])] });
  }
}
