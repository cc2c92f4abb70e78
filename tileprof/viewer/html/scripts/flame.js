// The flame graph: a bar for each node, below the one that called it, as wide as its part.

const ROW = 20,
  LEAST = 0.6;

const flameView = {
  id: "flame",
  title: "Flame graph",
  root: -1,
  drawn: [],

  build(panel) {
    this.canvas = make("canvas", { tabindex: 0, role: "img" });
    this.box = make("div.flame", this.canvas);
    this.tip = make("div.tip", { hidden: true });
    this.said = make("span.mono", { "aria-live": "polite" });
    const kinds = [...new Set(data.tree.symbols.kind.map((kind) => data.tree.kinds[kind]))];
    const key = kinds.map((kind) => {
      const box = make("span.kind");
      box.style.background = `var(--${kind}, var(--frame))`;
      return make("span.key", box, kind);
    });
    panel.append(
      make(
        "div.tools",
        make("button.plain", { onclick: () => this.zoom(-1) }, "All"),
        make("span.quiet", "click or Enter: zoom; Escape: out; arrow keys move"),
        make("span.grow"),
        key,
      ),
      this.box,
      this.tip,
      make("div.tools", this.said),
    );
    new ResizeObserver(() => this.paint()).observe(this.box);
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => {
      this.tip.hidden = true;
    });
    this.canvas.addEventListener("click", (event) => {
      const node = this.at(event);
      if (node >= 0) this.zoom(node);
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    chosen.listeners.push(() => {
      if (!panel.hidden) this.paint();
    });
    theme.listeners.push(() => this.paint());
  },

  zoom(node) {
    this.root = node;
    if (node >= 0) chosen.set(node);
    else this.paint();
  },

  // Bars in sight: nodes above the one that fills the width, it, and what is below it.
  layout(width) {
    const bars = [],
      above = this.root >= 0 ? tree.path(this.root) : [];
    above.forEach((node, level) => bars.push({ node, level, x: 0, width }));
    const pending = [{ node: this.root, level: above.length, x: 0, width }];
    while (pending.length) {
      const { node, level, x, width: room } = pending.pop();
      const below = tree.children(node).filter((each) => tree.value(each) > 0);
      const sum = below.reduce((part, each) => part + tree.value(each), 0);
      // Children that overlap may hold more than what called them; they share its width.
      const whole = Math.max(node < 0 ? sum : tree.value(node), sum);
      let left = x;
      for (const each of below) {
        const part = (tree.value(each) / whole) * room;
        if (part < LEAST) break;
        const bar = { node: each, level, x: left, width: part };
        bars.push(bar);
        pending.push({ ...bar, level: level + 1 });
        left += part;
      }
    }
    return bars;
  },

  paint() {
    const width = this.box.clientWidth - 32;
    if (width <= 0) return;
    this.drawn = this.layout(width);
    const height = (Math.max(0, ...this.drawn.map((each) => each.level)) + 1) * ROW + 2,
      [pen, color] = penOf(this.canvas, width, height);
    const searching = chosen.matches.size > 0;
    for (const { node, level, x, width: wide } of this.drawn) {
      const here = searching && chosen.matches.has(node);
      pen.globalAlpha = searching && !here ? 0.4 : 1;
      pen.fillStyle = color(tree.kind(node)) || color("frame");
      pen.fillRect(x, level * ROW, Math.max(wide - 1, 0.6), ROW - 1);
      if (here) {
        pen.fillStyle = color("mark");
        pen.fillRect(x, level * ROW + ROW - 4, Math.max(wide - 1, 0.6), 3);
      }
      if (node === chosen.node) {
        pen.strokeStyle = color("accent");
        pen.lineWidth = 2;
        pen.strokeRect(x + 1, level * ROW + 1, Math.max(wide - 3, 1), ROW - 3);
      }
      pen.fillStyle = color("ink");
      pen.fillText(fitted(this.named(node), wide - 8), x + 4, level * ROW + ROW / 2);
    }
    this.canvas.setAttribute(
      "aria-label",
      `Flame graph of ${tree.metric}, ${this.drawn.length} bars; the call tree has the same as text`,
    );
    this.canvas.dataset.bars = this.drawn.length;
    if (chosen.node >= 0) this.said.textContent = this.words(chosen.node);
  },

  // A file's own code is called after the file: a bar has no place beside its name.
  named(node) {
    const name = tree.name(node),
      place = name === "<module>" ? tree.place(node) : null;
    return place ? short(place[0]) : readable(name);
  },

  words(node) {
    return `${this.named(node)}  ${format(tree.value(node), tree.unit())} (${percent(tree.share(node))} %)`;
  },

  at(event) {
    const box = this.canvas.getBoundingClientRect(),
      x = event.clientX - box.left,
      level = Math.floor((event.clientY - box.top) / ROW);
    return (
      this.drawn.find((each) => each.level === level && each.x <= x && x < each.x + each.width)
        ?.node ?? -1
    );
  },

  hover(event) {
    const node = this.at(event);
    this.tip.hidden = node < 0;
    if (node < 0) return;
    const place = tree.place(node);
    showTip(
      this.tip,
      event,
      make("div.mono", this.words(node)),
      make("div.quiet", tree.kind(node), place ? ` · ${place[0]}:${place[1]}` : ""),
    );
  },

  key(event) {
    const node = chosen.node,
      seen = (each) => this.drawn.some((bar) => bar.node === each);
    const beside = tree.children(node < 0 ? -1 : tree.parents[node]).filter(seen),
      at = beside.indexOf(node);
    const to = {
      ArrowUp: tree.parents[node],
      ArrowDown: tree.children(node).filter(seen)[0],
      ArrowRight: beside[at + 1],
      ArrowLeft: beside[at - 1],
    }[event.key];
    if (event.key === "Enter") this.zoom(node);
    else if (event.key === "Escape") this.zoom(-1);
    else if (event.key.startsWith("Arrow")) {
      if (to !== undefined && to >= 0) chosen.set(to);
    } else return;
    event.preventDefault();
  },

  show(node) {
    if (node !== undefined && node >= 0 && node < tree.count) this.zoom(node);
    if (chosen.node < 0 && tree.count) chosen.node = tree.children(-1)[0];
    this.paint();
    this.canvas.focus({ preventScroll: true });
  },
};
