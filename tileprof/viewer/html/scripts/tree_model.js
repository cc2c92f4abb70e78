// The tree: totals by the law of each metric, children in order, paths, what a search finds.

const tree = (() => {
  const held = data.tree,
    parents = held.parents,
    count = parents.length;
  const symbols = held.symbols;
  const nodeKernels = new Map(),
    nodeFindings = new Map();
  (data.kernels.node ?? []).forEach((node, kernel) => {
    if (node >= 0) nodeKernels.set(node, kernel);
  });
  data.findings.forEach((each, place) => {
    if (each.node >= 0)
      nodeFindings.set(each.node, [...(nodeFindings.get(each.node) ?? []), place]);
  });

  // A node's parent is before it, so one pass from the end adds everything up.
  function totals(metric) {
    const sums = metric.own.map((value) => (value === null ? NaN : value));
    if (metric.adds === "last") return sums;
    const join = { sum: (a, b) => a + b, min: Math.min, max: Math.max }[metric.adds];
    for (let node = count - 1; node >= 0; node -= 1) {
      const above = parents[node];
      if (above < 0 || Number.isNaN(sums[node])) continue;
      sums[above] = Number.isNaN(sums[above]) ? sums[node] : join(sums[above], sums[node]);
    }
    return sums;
  }

  const made = new Map();
  const metrics = new Map(held.metrics.map((each) => [each.name, each]));
  const model = {
    count,
    parents,
    metrics,
    metric: metrics.has(held.main) ? held.main : ([...metrics.keys()][0] ?? ""),
    nodeKernels,
    nodeFindings,
    total(name) {
      if (!metrics.has(name)) return [];
      if (!made.has(name)) made.set(name, totals(metrics.get(name)));
      return made.get(name);
    },
    value: (node) => model.total(model.metric)[node] || 0,
    whole: () => metrics.get(model.metric)?.whole || 0,
    unit: () => metrics.get(model.metric)?.unit ?? "1",
    share: (node) => (model.whole() ? model.value(node) / model.whole() : 0),
    name: (node) => symbols.name[held.symbol[node]],
    kind: (node) => held.kinds[symbols.kind[held.symbol[node]]],
    phase: (node) => symbols.phase[held.symbol[node]],
    place(node) {
      const symbol = held.symbol[node],
        file = symbols.files[symbols.file[symbol]];
      return file ? [file, symbols.line[symbol]] : null;
    },
    path(node) {
      const found = [];
      for (let at = node; at >= 0; at = parents[at]) found.push(at);
      return found.reverse();
    },
    // The children of all nodes, the greatest first; sorted once for each metric.
    order() {
      if (this.sorted === this.metric) return;
      this.below = Array.from({ length: count + 1 }, () => null);
      for (let node = 0; node < count; node += 1) (this.below[parents[node] + 1] ??= []).push(node);
      const values = this.total(this.metric);
      for (const each of this.below)
        each?.sort((a, b) => (values[b] || 0) - (values[a] || 0) || a - b);
      this.sorted = this.metric;
    },
    children(node) {
      this.order();
      return this.below[node + 1] ?? [];
    },
    // Nodes whose name has the text in it, in the order of the tree.
    search(text) {
      const wanted = text.trim().toLowerCase();
      if (!wanted) return [];
      const fits = symbols.name.map((name) => name.toLowerCase().includes(wanted));
      const found = [],
        pending = [...this.children(-1)].reverse();
      while (pending.length) {
        const node = pending.pop();
        if (fits[held.symbol[node]]) found.push(node);
        const below = this.children(node);
        for (let at = below.length - 1; at >= 0; at -= 1) pending.push(below[at]);
      }
      return found;
    },
  };
  return model;
})();

// What both drawings of the tree share: the chosen node, what was found, who wants to know.
const chosen = {
  node: -1,
  matches: new Set(),
  listeners: [],
  set(node) {
    this.node = node;
    this.tell();
  },
  tell() {
    for (const listener of this.listeners) listener();
  },
};
