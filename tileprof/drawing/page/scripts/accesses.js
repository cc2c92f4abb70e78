// Every place that accesses a buffer: bytes of all blocks, what must move, waste, conflicts.

const ACCESS_COLUMNS = [
  ["line", (site) => site.line, String],
  ["access", (site) => `${site.op} ${site.access}`, String],
  ["buffer", (site) => `${site.space} ${site.buffer}`, (_, site) => site.buffer],
  ["memory", (site) => site.space, String],
  ["bytes", (site) => site.bytes, (bytes) => format(bytes, "bytes")],
  ["must move", (site) => site.least ?? -1, (least) => (least < 0 ? "" : format(least, "bytes"))],
  ["times", (site) => (site.least ? site.bytes / site.least : 0), (ratio) => (ratio ? `${digits(ratio)}×` : "")],
  ["outside", (site) => part(site.guarded, site.guarded + site.elements), shareText],
  ["left out", (site) => part(site.idle, site.points), shareText],
  ["a warp's request", (site) => worst(site.costs), (_, site) => requestText(site)],
];
const NUMBERS = new Set(["line", "bytes", "must move", "times", "outside", "left out"]);

function part(some, whole) {
  return whole ? some / whole : 0;
}

function shareText(share) {
  return share ? `${percent(share)} %` : "";
}

function worst(costs) {
  return Math.max(0, ...costs.map((each) => each.taken / Math.max(each.needed, 1)));
}

function requestText(site) {
  return site.costs
    .map((each) => {
      const unit = each.space === "global" ? "sectors" : "wavefronts";
      return `${each.taken} of ${each.needed} ${unit}`;
    })
    .join("; ");
}

const accessesView = {
  id: "accesses",
  title: "Accesses",
  sorted: 4,
  down: true,

  build(panel) {
    this.list = make("div.scroll.flat");
    this.paid = make("div");
    panel.append(
      make(
        "p.quiet",
        "Sums over all blocks. Must move: each different element once. Outside: elements beyond a",
        " tensor's edge, which are guarded. Left out: points that a mask leaves out. A warp's",
        " request: taken of needed, as the compiler counts for the target.",
      ),
      this.list,
      this.paid,
    );
    state.on((changed) => {
      if (changed.includes("launch")) this.paint();
      else if (changed.includes("line")) this.mark();
    });
    this.paint();
  },

  show() {},

  paint() {
    const [, value] = ACCESS_COLUMNS[this.sorted];
    const order = [...state.launch.sites].sort((a, b) => {
      const [one, other] = [value(a), value(b)];
      const less = typeof one === "number" ? one - other : one.localeCompare(other);
      return this.down ? -less : less;
    });
    const most = Math.max(...state.launch.sites.map((each) => each.bytes), 1);
    const heads = ACCESS_COLUMNS.map(([name], at) =>
      make(
        "th",
        {
          class: NUMBERS.has(name) ? "number" : null,
          "aria-sort": at === this.sorted ? (this.down ? "descending" : "ascending") : null,
        },
        make("button", { onclick: () => this.sort(at) }, name),
      ),
    );
    this.rows = order.map((site) => {
      const row = make(
        "tr",
        { onclick: () => state.set({ line: site.line }) },
        ACCESS_COLUMNS.map(([name, get, text]) =>
          make("td", { class: NUMBERS.has(name) ? "number" : null }, text(get(site), site)),
        ),
      );
      row.line = site.line;
      row.children[4].style.background = warmth(site.bytes / most);
      if (worst(site.costs) > 1) row.lastChild.classList.add("warning");
      return row;
    });
    this.list.replaceChildren(
      make("table.table", make("thead", make("tr", heads)), make("tbody", this.rows)),
    );
    this.requests();
    this.mark();
  },

  // Requests on the target, also of buffers that only the compiler knows.
  requests() {
    const { costs, target } = state.launch.kernel;
    this.paid.replaceChildren(
      costs.length ? make("h3", `a warp's requests on ${target}`) : "",
      ...costs.map((each) =>
        make(
          "div",
          { class: each.taken > each.needed && each.space === "shared" ? "conflict" : null },
          make("code", `line ${each.line}: ${each.access} ${each.buffer}`),
          ` (${each.space}): ${costText(each)}`,
        ),
      ),
    );
  },

  sort(at) {
    this.down = at === this.sorted ? !this.down : at > 3;
    this.sorted = at;
    this.paint();
  },

  mark() {
    for (const row of this.rows) row.classList.toggle("chosen", row.line === state.line);
  },
};
