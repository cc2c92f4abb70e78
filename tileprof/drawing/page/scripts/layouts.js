// Layouts on the target: which thread and register hold an element, which banks a swizzle uses.

const BANKS = 32;

const layoutsView = {
  id: "layouts",
  title: "Layouts",

  build(panel) {
    this.panel_ = panel;
    theme.listeners.push(() => this.paint());
    state.on((changed) => {
      if (changed.includes("launch")) this.renew();
    });
    this.renew();
  },

  show() {},

  renew() {
    const { layouts, target, problem } = state.launch.kernel;
    this.maps = layouts.map((each) => new LayoutMap(each));
    this.panel_.replaceChildren(
      problem ? make("p.warning", `not on ${target}: ${problem}`) : "",
      this.maps.length || problem
        ? ""
        : make("p.quiet", "The kernel has no fragments and no shared memory."),
      make("div.cards", this.maps.map((each) => each.card)),
    );
    this.paint();
  },

  paint() {
    for (const each of this.maps) each.paint();
  },
};

class LayoutMap {
  constructor(held) {
    this.held = held;
    this.fragment = "thread" in held;
    if (this.fragment) {
      this.thread = unpacked(held.thread);
      this.register = unpacked(held.register);
    } else this.address = unpacked(held.address);
    this.canvas = make("canvas", { role: "img", "aria-label": `Layout of ${held.name}` });
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => {
      untold();
      this.near = null;
      this.paint();
    });
    this.card = make(
      "section.card.layout",
      make(
        "h2",
        make("code", held.name),
        make("span.quiet", ` ${held.shape.join(" × ")} ${held.dtype}, ${held.space}`),
      ),
      make("code.quiet", held.layout || "rows"),
      this.canvas,
      make("div.key", this.caption()),
      this.fragment ? "" : this.conflicts(),
    );
  }

  caption() {
    const { held } = this,
      rows = held.kept < held.rows ? `First ${held.kept} of ${held.rows} rows. ` : "";
    if (this.fragment)
      return (
        `${rows}Colour: thread, one shade a warp; number: register. ` +
        `${plural(held.registers, "register")} in each of ${plural(held.threads, "thread")}` +
        `${held.copies > 1 ? `, ${held.copies} copies of each element` : ""}.`
      );
    const slots = held.slots > 1 ? `, ${held.slots} slots` : "";
    return `${rows}Colour: the ${BANKS} banks of 4 bytes. ${format(held.bytes, "bytes")}${slots}.`;
  }

  // What requests of a warp take in this layout, and in plain rows.
  conflicts() {
    return make(
      "table.facts-table",
      make(
        "tr",
        make("td.quiet", "a warp's request"),
        make("td.number.quiet", "wavefronts"),
        make("td.number.quiet", "in plain rows"),
        make("td.number.quiet", "needed"),
      ),
      this.held.patterns.map(([name, taken, plain, needed]) => {
        const mark = (count) => `number${count > needed ? " conflict" : ""}`;
        return make(
          "tr",
          make("td", name),
          make("td", { class: mark(taken) }, String(taken)),
          make("td", { class: mark(plain) }, String(plain)),
          make("td.number", String(needed)),
        );
      }),
    );
  }

  get side() {
    return Math.max(Math.min(480 / this.held.columns, 320 / this.held.kept, 22), 1.5);
  }

  at(column, row) {
    return row * this.held.columns + column;
  }

  paint() {
    const { kept, columns } = this.held,
      side = this.side,
      [pen, color] = penOf(this.canvas, Math.round(columns * side), Math.round(kept * side)),
      dark = theme.name === "dark",
      gap = side > 6 ? 1 : 0;
    pen.textAlign = "center";
    pen.font = `${Math.min(side / 2, 10)}px ${color("mono")}`;
    for (let row = 0; row < kept; row += 1)
      for (let column = 0; column < columns; column += 1) {
        const at = this.at(column, row);
        const hue = this.fragment
          ? ((this.thread[at] % 32) * 360) / 32
          : ((this.bank(at) % BANKS) * 360) / BANKS;
        const warp = this.fragment ? Math.floor(this.thread[at] / 32) % 4 : 0;
        pen.fillStyle = `hsl(${hue} ${this.fragment ? 55 : 60}% ${dark ? 30 + warp * 6 : 82 - warp * 9}%)`;
        pen.globalAlpha = this.faded(at) ? 0.25 : 1;
        pen.fillRect(column * side, row * side, side - gap, side - gap);
        if (side < 15) continue;
        pen.fillStyle = color("text");
        pen.fillText(
          String(this.fragment ? this.register[at] : this.bank(at)),
          (column + 0.5) * side,
          (row + 0.5) * side,
        );
      }
    pen.globalAlpha = 1;
  }

  bank(at) {
    return Math.floor(this.address[at] / 4) % BANKS;
  }

  // With the mouse on an element, others of its thread or bank stay bright.
  faded(at) {
    if (this.near === null || this.near === undefined) return false;
    return this.fragment
      ? this.thread[at] !== this.thread[this.near]
      : this.bank(at) !== this.bank(this.near);
  }

  hover(event) {
    const box = this.canvas.getBoundingClientRect(),
      { kept, columns } = this.held;
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns),
      row = Math.floor(((event.clientY - box.top) / box.height) * kept);
    if (column < 0 || row < 0 || column >= columns || row >= kept) return;
    const at = this.at(column, row);
    if (at !== this.near) {
      this.near = at;
      this.paint();
    }
    const index = `[${this.held.shape.length > 1 ? `${row}, ` : ""}${column}]`;
    told(
      event,
      make("b", `${this.held.name}${index}`),
      this.fragment
        ? `thread ${this.thread[at]} (warp ${Math.floor(this.thread[at] / 32)}, lane ${this.thread[at] % 32}), register ${this.register[at]}`
        : `byte ${this.address[at]}, bank ${this.bank(at)}`,
    );
  }
}
