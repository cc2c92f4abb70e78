// Traffic between the memories of a GPU while a kernel ran, as its counters say.

const SECTOR = 32; // bytes of a sector of the caches

// What there is of a kernel at a place of `data.memory`; null for what was not counted.
function trafficOf(place) {
  const held = data.memory,
    of = (name) => held[name]?.[place] ?? null,
    bytes = (name) => (of(name) === null ? null : of(name) * SECTOR),
    rate = (above, below) => (of(below) ? of(above) / of(below) : null),
    kernel = held.place[place],
    time = data.kernels.time[kernel],
    moved = (of("dram_read_bytes") ?? 0) + (of("dram_write_bytes") ?? 0);
  const peaks = data.roofs.filter((each) => each[0] === data.kernels.device?.[kernel]);
  const peak = ["hbm_copy", "hbm_read"].flatMap((name) => peaks.filter((p) => p[1] === name))[0];
  const speed = time > 0 ? moved / (time * 1e-9) : null;
  return {
    loads: bytes("load_sectors"),
    stores: bytes("store_sectors"),
    local: of("local_bytes"),
    perLoad: rate("load_sectors", "load_requests"),
    perStore: rate("store_sectors", "store_requests"),
    l1: rate("l1_hit_sectors", "l1_sectors"),
    l2: rate("l2_hit_sectors", "l2_sectors"),
    toL2: bytes("l2_sectors"),
    read: of("dram_read_bytes"),
    written: of("dram_write_bytes"),
    sharedLoads: of("shared_loads"),
    sharedStores: of("shared_stores"),
    loadConflicts: rate("shared_load_conflicts", "shared_loads"),
    storeConflicts: rate("shared_store_conflicts", "shared_stores"),
    speed,
    ofPeak: peak && speed ? [speed / peak[2], peak[1]] : null,
  };
}

function memoryChart() {
  const places = data.memory.place;
  if (!places.length) return make("div");
  const drawing = make("div.scrolled"),
    draw = (place) => drawing.replaceChildren(memoryDrawing(place));
  const select = make(
    "select",
    { "aria-label": "Memory traffic of which kernel", onchange: () => draw(Number(select.value)) },
    places.map((kernel, place) =>
      make("option", { value: String(place) }, readable(data.kernels.name[kernel])),
    ),
  );
  draw(0);
  return make(
    "section.memory",
    make("h3", "Memory traffic"),
    make("p", select, make("span.quiet", " sums over all launches, by hardware counters")),
    drawing,
  );
}

function memoryDrawing(place) {
  const held = trafficOf(place),
    name = data.kernels.name[data.memory.place[place]];
  const svg = shape("svg", {
    viewBox: "0 0 760 250",
    role: "img",
    "aria-label": `Memory traffic of ${name}`,
  });
  const words = (x, y, anchor, text, look = "") =>
    svg.append(shape("text", { x, y, "text-anchor": anchor, class: look }, text));
  const box = (x, y, title, lines) => {
    svg.append(shape("rect", { class: "box", x, y, width: 116, height: 74, rx: 5 }));
    words(x + 58, y + 20, "middle", title, "title");
    lines
      .filter(Boolean)
      .forEach((text, row) => words(x + 58, y + 38 + 15 * row, "middle", text));
  };
  const widest = Math.max(
    ...[held.loads, held.stores, held.local, held.toL2, held.read, held.written].map(Number),
    1,
  );
  // An arrow with its amount, as thick as its part of the greatest one.
  const flow = (from, to, y, amount, text) => {
    if (amount === null) return;
    const thick = 1 + 9 * Math.sqrt(amount / widest),
      step = to > from ? 6 : -6;
    svg.append(
      shape("line", { class: "flow", x1: from, x2: to - step, y1: y, y2: y, "stroke-width": thick }),
      shape("path", { class: "tip", d: `M ${to} ${y} l ${-step} -5 v 10 z` }),
    );
    words((from + to) / 2, y - 8, "middle", text);
  };
  const share = (value, what) => (value === null ? null : `${percent(value)} % ${what}`),
    each = (value, what) => (value === null ? null : `${digits(value)} ${what}`);
  const [kernel, l1, l2, dram] = [4, 226, 436, 640],
    right = (x) => x + 116;
  box(kernel, 20, "kernel", [
    each(held.perLoad, "sectors/load"),
    each(held.perStore, "sectors/store"),
  ]);
  box(l1, 20, "L1", [share(held.l1, "hits")]);
  box(l2, 20, "L2", [share(held.l2, "hits")]);
  box(dram, 20, "device memory", [
    held.speed === null ? null : format(held.speed, "bytes/s"),
    held.ofPeak && `${Math.round(held.ofPeak[0] * 100)} % of ${held.ofPeak[1]}`,
  ]);
  flow(l1, right(kernel), 38, held.loads, `loads ${format(held.loads, "bytes")}`);
  flow(right(kernel), l1, 64, held.stores, `stores ${format(held.stores, "bytes")}`);
  if (held.local) flow(right(kernel), l1, 88, held.local, `local ${format(held.local, "bytes")}`);
  flow(l2, right(l1), 57, held.toL2, format(held.toL2, "bytes"));
  flow(dram, right(l2), 42, held.read, `read ${format(held.read, "bytes")}`);
  flow(right(l2), dram, 72, held.written, `written ${format(held.written, "bytes")}`);
  if (held.sharedLoads || held.sharedStores) {
    box(l1, 150, "shared memory", [
      each(held.loadConflicts, "conflicts/load"),
      each(held.storeConflicts, "conflicts/store"),
    ]);
    svg.append(shape("path", { class: "flow thin", d: `M ${kernel + 58} 94 V 187 H ${l1}` }));
    const at = (kernel + 58 + l1) / 2;
    words(at, 179, "middle", `${format(held.sharedLoads, "1")} loads`);
    words(at, 203, "middle", `${format(held.sharedStores, "1")} stores`);
  }
  return svg;
}
