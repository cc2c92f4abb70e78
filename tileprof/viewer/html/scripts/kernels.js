// The kernels: a table that sorts by any column, and where they stand below the roofs.

const SHOWN = 200;

const kernelsView = {
  id: "kernels",
  title: "Kernels",
  number: data.kernels.name?.length ?? 0,
  by: "time",
  down: true,
  all: false,

  build(panel) {
    this.body = make("tbody");
    this.heads = this.columns().map(([key, title, right]) =>
      make(
        "th",
        { scope: "col", class: right ? "number" : "" },
        make("button", { type: "button", "data-key": key, onclick: () => this.sort(key) }, title),
      ),
    );
    this.table = make(
      "table",
      { class: "table" },
      make("thead", {}, make("tr", {}, this.heads)),
      this.body,
    );
    this.more = make("button", {
      type: "button",
      class: "plain",
      onclick: () => {
        this.all = true;
        this.fill();
      },
    });
    panel.append(
      make(
        "div",
        { class: "scroll" },
        this.table,
        make("p", { class: "empty" }, this.more),
        roofline(),
      ),
    );
    this.fill();
  },

  // Key, title, whether it is a number, the text of a kernel's cell.
  columns() {
    const held = data.kernels,
      whole = data.header.kernel_time,
      has = (name) => name in held;
    const plain = (name, unit) => (place) => format(held[name][place], unit);
    return [
      ["name", "kernel", false, null],
      ["time", "time", true, plain("time", "ns")],
      ["share", "%", true, (place) => (whole ? percent(held.time[place] / whole) : "")],
      ["launches", "launches", true, plain("launches", "1")],
      [
        "mean",
        "each",
        true,
        (place) =>
          held.launches[place] ? format(held.time[place] / held.launches[place], "ns") : "",
      ],
      has("registers") && ["registers", "registers", true, plain("registers", "1")],
      has("static_shared_bytes") && [
        "shared",
        "shared",
        true,
        (place) => format(this.shared(place), "bytes"),
      ],
      has("local_bytes") && ["local_bytes", "local", true, plain("local_bytes", "bytes")],
      has("occupancy") && ["occupancy", "occupancy", true, plain("occupancy", "share")],
      has("limited_by") && [
        "limited_by",
        "limited by",
        false,
        (place) => held.limited_by[place] ?? "",
      ],
      has("grid") && ["grid", "grid", false, (place) => held.grid[place] ?? ""],
      has("block") && ["block", "block", false, (place) => held.block[place] ?? ""],
      ["gain", "gain", true, (place) => gainText(this.gain(place))],
      ["findings", "findings", false, null],
    ].filter(Boolean);
  },

  shared(place) {
    return (
      (data.kernels.static_shared_bytes?.[place] ?? 0) +
      (data.kernels.dynamic_shared_bytes?.[place] ?? 0)
    );
  },
  found(place) {
    return data.findings
      .map((each, at) => [each, at])
      .filter(([each]) => each.kernel === data.kernels.name[place]);
  },

  // Of all changes together, else of the one that brings most.
  gain(place) {
    const gains = this.found(place)
      .map(([each]) => each.gain.kernel)
      .filter(Boolean);
    return data.kernels.together?.[place] ?? gains.sort((a, b) => b[1] - a[1])[0] ?? null;
  },

  key(place) {
    const held = data.kernels;
    if (this.by === "share") return held.time[place];
    if (this.by === "mean") return held.time[place] / (held.launches[place] || 1);
    if (this.by === "shared") return this.shared(place);
    if (this.by === "gain") return this.gain(place)?.[1] ?? 0;
    if (this.by === "findings") return this.found(place).length;
    return held[this.by]?.[place] ?? (typeof held[this.by]?.[0] === "string" ? "" : -1);
  },

  sort(key) {
    this.down =
      this.by === key ? !this.down : !["name", "limited_by", "grid", "block"].includes(key);
    this.by = key;
    this.fill();
  },

  fill() {
    const count = this.number,
      keys = Array.from({ length: count }, (_, place) => this.key(place));
    const order = keys
      .map((_, place) => place)
      .sort((a, b) => {
        const less = keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : 0;
        return (this.down ? -less : less) || a - b;
      });
    const columns = this.columns();
    this.heads.forEach((head, place) => {
      if (columns[place][0] === this.by)
        head.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const shown = this.all ? order : order.slice(0, SHOWN);
    this.body.replaceChildren(
      ...shown.map((place) =>
        make(
          "tr",
          {},
          columns.map((column) => this.cell(column, place)),
        ),
      ),
    );
    this.more.hidden = shown.length === count;
    this.more.parentElement.hidden = this.more.hidden && count > 0;
    this.more.textContent = `Show all ${count.toLocaleString("en")} kernels`;
    if (!count) this.more.parentElement.replaceChildren("No kernel was recorded.");
  },

  cell([key, , right, text], place) {
    const held = data.kernels;
    if (key === "name") {
      const unit = held.unit[place],
        href = unit >= 0 ? `#code-${unit}` : `#node-${held.node[place]}`;
      return make(
        "td",
        { title: held.name[place] },
        make("a", { class: "mono", href }, held.name[place]),
      );
    }
    if (key === "findings")
      return make(
        "td",
        {},
        this.found(place).map(([, at]) => findingTag(at)),
      );
    return make("td", { class: right ? "number" : "quiet" }, text(place));
  },

  show() {},
};
