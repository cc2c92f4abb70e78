// The call tree: rows that open, a choice that keys move, what is known of the chosen node.

const treeView = {
  id: "tree",
  title: "Call tree",
  opened: new Set(),
  rows: [],

  build(panel) {
    this.list = new Rows("tree", "Call tree", "treegrid", 22, (index) => this.row(index));
    this.side = make("aside.side", { "aria-label": "The chosen node" });
    this.head = make("div.treehead", { "aria-hidden": "true" });
    panel.append(
      this.tools(),
      make("div.split", make("div.treebox", this.head, this.list.box), this.side),
    );
    this.list.box.addEventListener("keydown", (event) => this.key(event));
    chosen.listeners.push(() => {
      if (!panel.hidden) this.seen();
    });
    this.hot();
    if (chosen.node < 0 && this.rows.length) chosen.node = this.rows[0].node;
    this.seen();
  },

  tools() {
    const names = [...tree.metrics.values()]
      .filter((each) => each.adds === "sum")
      .map((each) => each.name);
    this.metric = make(
      "select",
      {
        "aria-label": "Metric of the tree",
        onchange: () => {
          tree.metric = this.metric.value;
          this.lay();
          chosen.tell();
        },
      },
      names.map((name) =>
        make("option", { value: name, selected: name === tree.metric }, name.replaceAll("_", " ")),
      ),
    );
    const button = (text, action) => make("button.plain", { onclick: action }, text);
    return make(
      "div.tools",
      "by",
      this.metric,
      button("Hot paths", () => {
        this.opened.clear();
        this.hot();
      }),
      button("Open all", () => {
        for (let n = 0; n < tree.count; n += 1) this.opened.add(n);
        this.lay();
      }),
      button("Close all", () => {
        this.opened.clear();
        this.lay();
      }),
      make("span.quiet", "arrow keys move and open"),
      data.tree.leftOut
        ? make(
            "span.quiet",
            `${data.tree.leftOut.toLocaleString("en")} frames of libraries not shown (--frames all)`,
          )
        : "",
    );
  },

  // Open what holds a twentieth of all, as far as that is not too much to read.
  hot() {
    const pending = [...tree.children(-1)];
    let rows = pending.length;
    while (pending.length && rows < 60) {
      const node = pending.shift();
      const below = tree.children(node);
      if (tree.share(node) < 0.05 && pending.length + rows > 8) continue;
      if (below.length) {
        this.opened.add(node);
        rows += below.length;
        pending.push(...below);
      }
    }
    this.lay();
  },

  // The rows that are open now.
  lay() {
    this.rows = [];
    const pending = tree
      .children(-1)
      .map((node) => ({ node, level: 1 }))
      .reverse();
    while (pending.length) {
      const row = pending.pop();
      this.rows.push(row);
      if (!this.opened.has(row.node)) continue;
      const below = tree.children(row.node);
      for (let at = below.length - 1; at >= 0; at -= 1)
        pending.push({ node: below[at], level: row.level + 1 });
    }
    this.list.box.setAttribute("aria-rowcount", this.rows.length);
    const name = tree.metric?.replaceAll("_", " ") ?? "";
    this.head.replaceChildren(
      ...["node", `share of ${name}`, name, "self", "count"].map((text, place) =>
        make("span", { class: place > 1 ? "number" : "" }, text),
      ),
    );
    this.list.set(this.rows.length);
  },

  row(index) {
    const { node, level } = this.rows[index],
      below = tree.children(node).length > 0,
      open = this.opened.has(node);
    const place = tree.place(node),
      share = tree.share(node),
      unit = tree.unit();
    const twist = make(
      "span.twist",
      {
        "aria-hidden": "true",
        onclick: (event) => {
          event.stopPropagation();
          this.toggle(node);
        },
      },
      below ? (open ? "▾" : "▸") : "",
    );
    const kind = make("span.kind", { title: tree.kind(node) });
    kind.style.background = `var(--${tree.kind(node)}, var(--frame))`;
    const name = make(
      "div.name",
      { role: "gridcell" },
      twist,
      kind,
      make("span.text", { title: tree.name(node) }, readable(tree.name(node))),
      tree.phase(node) ? make("span.at", tree.phase(node)) : null,
      place
        ? make(
            "span.at",
            { title: `${place[0]}:${place[1]}` },
            place[1] ? `${short(place[0])}:${place[1]}` : short(place[0]),
          )
        : null,
      tree.nodeFindings.get(node)?.map((at) => findingTag(at)) ?? null,
    );
    name.style.paddingLeft = `${(level - 1) * 14}px`;
    const own = tree.metrics.get(tree.metric)?.own[node];
    const count = tree.metrics.get("count")?.own[node];
    return make(
      "div",
      {
        role: "row",
        id: `row-${node}`,
        class: chosen.matches.has(node) ? "match" : "",
        "aria-level": level,
        "aria-rowindex": index + 1,
        "aria-expanded": below ? String(open) : null,
        "aria-selected": String(node === chosen.node),
        "data-node": node,
        onclick: () => chosen.set(node),
        ondblclick: () => this.toggle(node),
      },
      name,
      make("div.part", { role: "gridcell" }, bar(share), make("span", percent(share))),
      make("div.number", { role: "gridcell" }, format(tree.value(node), unit)),
      make("div.number.quiet", { role: "gridcell" }, own ? format(own, unit) : ""),
      make("div.number.quiet", { role: "gridcell" }, count ? format(count, "1") : ""),
    );
  },

  toggle(node) {
    if (!tree.children(node).length) return;
    if (!this.opened.delete(node)) this.opened.add(node);
    this.lay();
  },

  key(event) {
    const at = this.rows.findIndex((row) => row.node === chosen.node),
      node = chosen.node;
    const to = moved(event.key, at, this.rows.length, this.list.page);
    if (to !== null) chosen.set(this.rows[to].node);
    else if (event.key === "ArrowRight" && tree.children(node).length) {
      if (this.opened.has(node)) chosen.set(tree.children(node)[0]);
      else this.toggle(node);
    } else if (event.key === "ArrowLeft") {
      if (this.opened.has(node)) this.toggle(node);
      else if (tree.parents[node] >= 0) chosen.set(tree.parents[node]);
    } else if (event.key === "Enter" || event.key === " ") this.toggle(node);
    else return;
    event.preventDefault();
  },

  // Bring the chosen node into sight, open what is above it.
  seen() {
    const node = chosen.node;
    if (node < 0) return;
    const closed = tree
      .path(node)
      .slice(0, -1)
      .filter((each) => !this.opened.has(each));
    if (closed.length || !this.rows.length) {
      for (const each of closed) this.opened.add(each);
      this.lay();
    }
    this.list.show(this.rows.findIndex((row) => row.node === node));
    this.list.box.setAttribute("aria-activedescendant", `row-${node}`);
    this.side.replaceChildren(...nodeFacts(node));
  },

  show(node) {
    if (node !== undefined && node >= 0 && node < tree.count) chosen.set(node);
    this.list.refresh();
    this.seen();
    this.list.box.focus({ preventScroll: true });
  },
};
