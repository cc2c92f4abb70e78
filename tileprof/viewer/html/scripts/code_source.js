// The left side of the code's view: source lines with their heat, and what is known of one.

// Stall reasons, the most first, as bars.
function bars(reasons) {
  const whole = reasons.reduce((sum, each) => sum + each[1], 0);
  return make(
    "div.reasons",
    reasons
      .slice(0, 5)
      .flatMap(([name, n]) => [
        make("span", name),
        bar(n / whole),
        make("span.number.quiet", `${percent(n / whole)} %`),
      ]),
  );
}

const sourceSide = {
  lineSums() {
    return code.sums(this.unit).get(this.file) ?? new Map();
  },
  first() {
    return code.files[this.file]?.first ?? 1;
  },

  source() {
    const lines = this.file >= 0 ? code.lines(this.file) : [];
    this.greatest = Math.max(...[...this.lineSums().values()].map((each) => each.weight), 1);
    this.findings = new Map();
    data.findings.forEach((each, place) => {
      if (each.at && each.at[2] === this.file)
        this.findings.set(each.at[1], [...(this.findings.get(each.at[1]) ?? []), place]);
    });
    this.left.set(lines.length);
    this.facts.replaceChildren();
    this.left.box.toggleAttribute("data-empty", !lines.length);
    if (!lines.length)
      this.left.all.replaceChildren(
        make(
          "p.empty",
          this.file >= 0
            ? "The page does not hold the text of this file."
            : "No source line is known of this function.",
        ),
      );
  },

  sourceRow(index) {
    const line = index + this.first(),
      here = this.lineSums().get(line),
      whole = this.held()?.weight || 1;
    const row = make(
      "div",
      {
        role: "option",
        id: `line-${line}`,
        "aria-selected": String(line === this.line),
        title: here
          ? [code.amount(this.unit, here.weight), code.why(here.stalls)].filter(Boolean).join(": ")
          : null,
        onclick: () => this.chooseLine(line, true),
      },
      make("span.gut", String(line)),
      make("span.hot", here ? `${percent(here.weight / whole)} %` : ""),
      make("span", code.lines(this.file)[index] || " "),
      make("span", (this.findings.get(line) ?? []).map(findingTag)),
    );
    row.style.background = warmth((here?.weight ?? 0) / this.greatest);
    return row;
  },

  chooseLine(line, follow) {
    this.line = line;
    this.left.show(line - this.first());
    this.left.box.setAttribute("aria-activedescendant", `line-${line}`);
    this.tellLine();
    if (follow) this.follow();
    else this.right.refresh();
  },

  // What is known of the chosen line: why it waits, what the compiler decided, findings.
  tellLine() {
    const here = this.lineSums().get(this.line),
      remarks = (this.held()?.remarks ?? []).filter(
        (each) => each[0] === this.line && this.held().file === this.file,
      );
    const said = here ? code.amount(this.unit, here.weight) : "no samples";
    this.facts.replaceChildren(
      make(
        "div",
        make("code", `line ${this.line}`),
        make("span.quiet", `  ${said}`),
        (this.findings.get(this.line) ?? []).map(findingTag),
      ),
      here ? bars(code.reasons(here.stalls)) : "",
      ...remarks.map(([, op, chosen, rejected]) =>
        make(
          "div",
          make("code", op),
          `: ${chosen}`,
          make("span.quiet", rejected.map(([what, why]) => `; not ${what}: ${why}`).join("")),
        ),
      ),
    );
  },

  // The hottest instruction of the chosen line, or its first line of a text, into sight.
  follow() {
    if (!this.line) return;
    if (this.rightLines) {
      const at = this.mapped?.indexOf(this.line) ?? -1;
      if (at >= 0) this.right.show(at);
      else this.right.refresh();
      return;
    }
    const sass = this.sass();
    if (!sass) return;
    let best = -1;
    sass.place.forEach((place, index) => {
      if (this.isChosen(place) && (best < 0 || sass.weight[index] > sass.weight[best]))
        best = index;
    });
    this.at = best;
    if (best >= 0) this.right.show(best);
    else this.right.refresh();
    this.tell();
  },

  isChosen(place) {
    const held = place >= 0 ? this.sass().places[place] : null;
    return held !== null && held[0] === this.file && held[1] === this.line;
  },
};
