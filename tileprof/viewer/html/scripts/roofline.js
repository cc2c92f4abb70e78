// Kernels below the measured roofs of their device: work for each byte, work in each second.

const SPACE = "http://www.w3.org/2000/svg";

function shape(tag, attributes, ...children) {
  const node = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// The device's roofs that kernels with flops and bytes are on; null where something is missing.
function roofPoints() {
  const held = data.kernels,
    points = [];
  (held.name ?? []).forEach((name, place) => {
    const [flops, bytes, time] = [held.flops?.[place], held.bytes?.[place], held.time[place]];
    if (flops > 0 && bytes > 0 && time > 0)
      points.push({ name, place, x: flops / bytes, y: flops / (time * 1e-9), time });
  });
  const device = held.device?.[points[0]?.place];
  const roofs = data.roofs.filter((each) => each[0] === device);
  // As estimates are capped: what a copy reaches, else what reading does.
  const memory = ["hbm_copy", "hbm_read"].flatMap((name) =>
    roofs.filter((each) => each[1] === name),
  );
  const compute = roofs.filter((each) => each[3] === "flop/s");
  return points.length && memory.length && compute.length
    ? { points, memory, compute, device }
    : null;
}

function roofline() {
  const held = roofPoints();
  if (!held) return make("div");
  const { points, memory, compute, device } = held;
  const slope = memory[0][2],
    top = Math.max(...compute.map((each) => each[2]));
  const xs = [...points.map((p) => p.x), ...compute.map((each) => each[2] / slope)];
  const ys = [...points.map((p) => p.y), top];
  const ends = (values) => [
    Math.floor(Math.log10(Math.min(...values))),
    Math.ceil(Math.log10(Math.max(...values)) + 0.15),
  ];
  const [x0, x1] = ends(xs),
    [y0, y1] = ends(ys),
    wide = 720,
    high = 340,
    left = 92,
    foot = 40;
  const x = (value) => left + ((Math.log10(value) - x0) / (x1 - x0)) * (wide - left - 20);
  const y = (value) => high - foot - ((Math.log10(value) - y0) / (y1 - y0)) * (high - foot - 16);
  const svg = shape("svg", {
    viewBox: `0 0 ${wide} ${high}`,
    role: "img",
    "aria-label": `Roofline of ${device}: ${points.length} kernels`,
  });
  const words = (at, up, anchor, text) =>
    svg.append(shape("text", { x: at, y: up, "text-anchor": anchor }, text));
  const line = (x1, x2, y1, y2) => svg.append(shape("line", { class: "grid", x1, x2, y1, y2 }));
  for (let power = x0; power <= x1; power += 1) {
    const at = x(10 ** power);
    line(at, at, y(10 ** y0), y(10 ** y1));
    words(at, high - foot + 15, "middle", String(10 ** power));
  }
  for (let power = y0; power <= y1; power += 1) {
    const at = y(10 ** power);
    line(x(10 ** x0), x(10 ** x1), at, at);
    words(left - 8, at + 4, "end", format(10 ** power, "flop/s"));
  }
  let last = Infinity;
  for (const [, name, value] of [...compute].sort((a, b) => a[2] - b[2])) {
    const from = Math.max(10 ** x0, 10 ** y0 / slope);
    const bend = `L ${x(value / slope)} ${y(value)} L ${x(10 ** x1)} ${y(value)}`;
    svg.append(shape("path", { class: "limit", d: `M ${x(from)} ${y(slope * from)} ${bend}` }));
    if (last - y(value) < 11) continue; // its name would cover the one below
    last = y(value);
    words(wide - 24, last - 4, "end", `${name} ${format(value, "flop/s")}`);
  }
  const longest = Math.max(...points.map((p) => p.time));
  for (const point of points.slice(0, 12)) {
    const [at, end] = x(point.x) > wide / 2 ? [-12, "end"] : [12, "start"];
    const whole = readable(point.name);
    const name = whole.length > 40 ? `${whole.slice(0, 39)}…` : whole;
    words(x(point.x) + at, y(point.y) + 4, end, name);
  }
  for (const point of points)
    svg.append(
      shape(
        "circle",
        { cx: x(point.x), cy: y(point.y), r: 3 + 7 * Math.sqrt(point.time / longest) },
        shape(
          "title",
          {},
          `${point.name}: ${format(point.y, "flop/s")}, ${digits(point.x)} flop a byte, ${format(point.time, "ns")}`,
        ),
      ),
    );
  const axis = `flop for each byte; ${memory[0][1]} ${format(slope, "bytes/s")}`;
  words(wide / 2, high - 6, "middle", axis);
  return make("section.roof", make("h3", `Roofs of ${device}, as measured`), make("div.scrolled", svg));
}
