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
  ["all requests", (site) => taken(site.moved), (_, site) => site.moved.map((each) => movedText(site, each)).join("; ")],
];
const NUMBERS = new Set(["line", "bytes", "must move", "times", "outside", "left out"]);

function taken(moved) {
  return moved.reduce((sum, each) => sum + (each.way === "TMA" ? each.bytes / 32 : each.taken), 0);
}

function unitOf(place) {
  if (place.way === "shuffle") return "shuffles";
  return place.space === "global" ? "sectors" : "wavefronts";
}

// `2,048 of 1,024 wavefronts`; the copy engine asks for boxes, and its bytes are all that counts.
function movedText(place, moved) {
  if (!moved.requests && moved.way !== "TMA") return "none: threads hold it already";
  if (moved.way === "TMA") return `${format(moved.bytes, "bytes")} by TMA`;
  const all = moved.taken.toLocaleString("en");
  return `${all} of ${moved.needed.toLocaleString("en")} ${unitOf(place)}`;
}

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
    this.totals = make("div");
    this.paid = make("div");
    panel.append(
      make(
        "p.quiet",
        "Sums over all blocks. Must move: each different element once. Outside: elements beyond a",
        " tensor's edge, which are guarded. Left out: points that a mask leaves out. A warp's",
        " request: taken of needed, as the compiler counts for the target. All requests: the same,",
        " summed over every request of every warp; what threads hold is not loaded again.",
      ),
      this.list,
      this.totals,
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
      if (worst(site.costs) > 1) row.children[9].classList.add("warning");
      return row;
    });
    this.list.replaceChildren(
      make("table.table", make("thead", make("tr", heads)), make("tbody", this.rows)),
    );
    this.sums();
    this.requests();
    this.mark();
  },

  // All requests of the kernel, by memory, access and who makes them.
  sums() {
    const { requests, kernel } = state.launch;
    if (!requests) {
      this.totals.replaceChildren();
      return;
    }
    const sums = new Map();
    for (const place of requests.places) {
      const key = [place.space, place.access, place.way].join();
      const held = sums.get(key) ?? { ...place, requests: 0, taken: 0, needed: 0, bytes: 0 };
      for (const name of ["requests", "taken", "needed", "bytes"]) held[name] += place[name];
      sums.set(key, held);
    }
    const number = (value) => make("td.number", value.toLocaleString("en"));
    const rows = [...sums.values()].map((sum) =>
      make(
        "tr",
        make("td", `${sum.space} ${sum.access}`),
        make("td", sum.way),
        make("td.number", format(sum.bytes, "bytes")),
        ...(sum.way === "TMA"
          ? [make("td", { colspan: 4, class: "quiet" }, "in boxes, not in requests of warps")]
          : [
              number(sum.requests),
              number(sum.taken),
              number(sum.needed),
              make("td", `${unitOf(sum)}${sum.taken > sum.needed ? `, ${times(sum.taken, sum.needed)}` : ""}`),
            ]),
      ),
    );
    const heads = ["memory", "by", "bytes asked for", "requests", "taken", "needed", ""];
    const others = [...new Set(requests.uncounted.map(([line, op, kind]) => `${op} (line ${line}: ${kind})`))];
    this.totals.replaceChildren(
      make("h3", `all requests of all blocks on ${kernel.target}, ${
        requests.byMachineCode ? "as its machine code makes them" : "by the layouts"}`),
      make(
        "div.scroll.flat",
        make(
          "table.table.totals",
          make("thead", make("tr", heads.map((name, at) => make("th", { class: at > 1 && name ? "number" : null }, name)))),
          make("tbody", rows),
        ),
      ),
      others.length
        ? make("p.quiet", `Not counted: what other instructions read and write in shared memory: ${others.join(", ")}.`)
        : "",
    );
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
