// Units of code: what their source lines have in sum, which lines and instructions belong together.

const code = (() => {
  const held = data.code,
    texts = new Map();
  const linesOf = (text) => (text ? text.split("\n") : []);

  // Samples by file and line, from the instructions of a unit.
  function sums(unit) {
    const found = new Map(),
      sass = unit?.sass;
    for (const [file, line, weight] of unit?.lines ?? []) {
      if (!found.has(file)) found.set(file, new Map());
      found.get(file).set(line, { weight, stalls: new Map() });
    }
    if (!sass || found.size) return found;
    sass.place.forEach((place, index) => {
      if (place < 0 || !sass.weight[index]) return;
      const [file, line] = sass.places[place];
      if (!found.has(file)) found.set(file, new Map());
      const lines = found.get(file),
        here = lines.get(line) ?? { weight: 0, stalls: new Map() };
      here.weight += sass.weight[index];
      add(here.stalls, sass.stalls[index]);
      lines.set(line, here);
    });
    return found;
  }

  function add(stalls, flat) {
    for (let at = 0; at < flat.length; at += 2)
      stalls.set(flat[at], (stalls.get(flat[at]) ?? 0) + flat[at + 1]);
  }

  const made = new Map();
  return {
    units: held.units,
    files: held.files,
    // `1,234 samples`, or executions; or a time.
    amount(place, weight) {
      const { measure } = held.units[place];
      return measure === "ns" ? format(weight, "ns") : `${format(weight, "1")} ${measure}`;
    },
    lines(file) {
      if (!texts.has(file)) texts.set(file, linesOf(held.files[file].text));
      return texts.get(file);
    },
    sums(place) {
      if (!made.has(place)) made.set(place, sums(held.units[place]));
      return made.get(place);
    },
    // The files that a unit's samples are in, those with text and the most samples first.
    filesOf(place) {
      const weights = [...this.sums(place)].map(([file, lines]) => [
        file,
        [...lines.values()].reduce((sum, each) => sum + each.weight, 0),
      ]);
      const home = held.units[place]?.file ?? -1;
      if (home >= 0 && !weights.some(([file]) => file === home)) weights.push([home, 0]);
      const rank = ([file, weight]) => (held.files[file].text ? 1 : 0) * 1e15 + weight;
      return weights.sort((a, b) => rank(b) - rank(a)).map(([file]) => file);
    },
    // Reasons and samples of a flat list or a map, the most first.
    reasons(stalls) {
      const sum = new Map(stalls instanceof Map ? stalls : []);
      if (!(stalls instanceof Map)) add(sum, stalls);
      return [...sum].sort((a, b) => b[1] - a[1]).map(([place, n]) => [held.stalls[place], n]);
    },
    why(stalls) {
      const found = this.reasons(stalls),
        whole = found.reduce((sum, each) => sum + each[1], 0);
      return found
        .slice(0, 2)
        .filter((each) => each[1] >= 0.1 * whole)
        .map(([name, n]) => `${name} ${Math.round((n / whole) * 100)}`)
        .join(", ");
    },
  };
})();

// Where a finding is among the code: `#code-2-1-18` is unit 2, file 1, line 18; without a line,
// `#code-2--1-0-80` is the instruction at offset 80.
function codeLink(each) {
  const unit = Math.max(each.unit, -1);
  if (each.at && each.at[2] >= 0) return `#code-${unit}-${each.at[2]}-${each.at[1]}`;
  return each.sass ? `#code-${unit}--1-0-${each.sass[0]}` : `#code-${unit}`;
}

// Some lines around the place of a finding, with their heat.
function excerpt(each) {
  const [, line, file] = each.at,
    held = code.files[file],
    text = code.lines(file);
  const sums = each.unit >= 0 ? code.sums(each.unit).get(file) : null;
  const whole = code.units[each.unit]?.weight || 0,
    box = make("div.excerpt");
  const most = sums ? Math.max(...[...sums.values()].map((here) => here.weight)) : 0;
  for (
    let at = Math.max(line - 5, held.first);
    at <= line + 5 && at - held.first < text.length;
    at += 1
  ) {
    const weight = sums?.get(at)?.weight ?? 0;
    const row = make(
      "div",
      { class: at === line ? "here" : "" },
      make("span.quiet", `${String(at).padStart(5)} `),
      make("span.number", weight && whole ? `${percent(weight / whole)} % ` : ""),
      make("span", text[at - held.first]),
    );
    if (most) row.style.background = warmth(weight / most);
    box.append(row);
  }
  return box;
}
