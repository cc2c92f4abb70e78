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
    this.heads = this.columns().map(({ name, title, look }) =>
      make(
        "th",
        { scope: "col", class: look === "number" ? look : "" },
        make("button", { "data-key": name, onclick: () => this.sort(name) }, title),
      ),
    );
    this.table = make("table.table", make("thead", make("tr", this.heads)), this.body);
    this.more = make("button.plain", {
      onclick: () => {
        this.all = true;
        this.fill();
      },
    });
    panel.append(make("div.scroll", this.table, make("p.empty", this.more), roofline(), memoryChart()));
    this.fill();
  },

  // Name, title, class of its cells, what it sorts by, what stands in a kernel's cell.
  columns() {
    const held = data.kernels,
      whole = data.header.kernel_time,
      time = (place) => held.time[place],
      each = (place) => (held.launches[place] ? time(place) / held.launches[place] : null);
    const numbers = (name, title, value, text) => ({
        name,
        title,
        look: "number",
        key: (place) => value(place) ?? -1,
        text,
      }),
      plain = (name, title, unit, value = (place) => held[name][place]) =>
        numbers(name, title, value, (place) => format(value(place), unit)),
      words = (name, title) => {
        const text = (place) => held[name][place] ?? "";
        return { name, title, look: "quiet", key: text, text };
      },
      only = (name, column) => (name in held ? [column] : []);
    return [
      { name: "name", title: "kernel", key: (place) => held.name[place], text: this.link },
      plain("time", "time", "ns"),
      numbers("share", "%", time, (place) => (whole ? percent(time(place) / whole) : "")),
      plain("launches", "launches", "1"),
      plain("mean", "each", "ns", each),
      ...only("registers", plain("registers", "registers", "1")),
      ...only("static_shared_bytes", plain("shared", "shared", "bytes", this.shared)),
      ...only("local_bytes", plain("local_bytes", "local", "bytes")),
      ...only("occupancy", plain("occupancy", "occupancy", "share")),
      ...only("limited_by", words("limited_by", "limited by")),
      ...only("grid", words("grid", "grid")),
      ...only("block", words("block", "block")),
      numbers(
        "gain",
        "gain",
        (place) => this.gain(place)?.[1] ?? 0,
        (place) => gainText(this.gain(place)),
      ),
      {
        name: "findings",
        title: "findings",
        key: (place) => this.found(place).length,
        text: (place) => this.found(place).map(([, at]) => findingTag(at)),
      },
    ];
  },

  link(place) {
    const held = data.kernels,
      unit = held.unit[place],
      href = unit >= 0 ? `#code-${unit}` : `#node-${held.node[place]}`;
    return make("a.mono", { href, title: held.name[place] }, readable(held.name[place]));
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

  sort(name) {
    this.down =
      this.by === name ? !this.down : !["name", "limited_by", "grid", "block"].includes(name);
    this.by = name;
    this.fill();
  },

  fill() {
    const count = this.number,
      columns = this.columns(),
      { key } = columns.find((each) => each.name === this.by),
      keys = Array.from({ length: count }, (_, place) => key(place));
    const order = keys
      .map((_, place) => place)
      .sort((a, b) => {
        const less = keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : 0;
        return (this.down ? -less : less) || a - b;
      });
    this.heads.forEach((head, place) => {
      if (columns[place].name === this.by)
        head.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const shown = this.all ? order : order.slice(0, SHOWN);
    this.body.replaceChildren(
      ...shown.map((place) =>
        make(
          "tr",
          columns.map(({ look, text }) => make("td", { class: look }, text(place))),
        ),
      ),
    );
    this.more.hidden = shown.length === count;
    this.more.parentElement.hidden = this.more.hidden && count > 0;
    this.more.textContent = `Show all ${count.toLocaleString("en")} kernels`;
    if (!count) this.more.parentElement.replaceChildren("No kernel was recorded.");
  },

  show() {},
};
