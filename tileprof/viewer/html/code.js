// Source lines beside machine code and compilers' texts; a choice on one side shows on the other.

const OPCODE = /^(@!?U?P\w+\s+)?(\S+)([\s\S]*)$/;

// Stall reasons, the most first, as bars.
function bars(reasons) {
  const whole = reasons.reduce((sum, each) => sum + each[1], 0);
  return make("div", { class: "reasons" }, reasons.slice(0, 5).flatMap(([name, n]) => [
    make("span", {}, name), bar(n / whole), make("span", { class: "number quiet" }, `${percent(n / whole)} %`)]));
}

const codeView = {
  id: "code", title: "Code", unit: 0, file: -1, tab: 0, line: 0, at: -1,

  build(panel) {
    this.units = make("select", { "aria-label": "Function", onchange: () => this.open(Number(this.units.value)) },
      code.units.map((each, place) => make("option", { value: place }, each.weight ? `${each.title} – ${percent(each.weight / this.whole())} %` : each.title)));
    this.files = make("select", { "aria-label": "Source file", onchange: () => { this.file = Number(this.files.value); this.line = 0; this.source(); } });
    this.note = make("span", { class: "quiet" });
    this.kinds = make("div", { class: "tabs", role: "tablist", "aria-label": "Code of the function" });
    this.left = new Rows("lines source", "Source lines", "listbox", 18, (index) => this.sourceRow(index));
    this.right = new Rows("lines sass", "Machine code", "listbox", 18, (index) => this.rightRow(index));
    this.facts = make("div", { class: "detail", "aria-live": "polite" });
    this.detail = make("div", { class: "detail", "aria-live": "polite" });
    panel.append(make("div", { class: "code" },
      make("div", { class: "half" }, make("div", { class: "tools" }, this.units, this.files), this.left.box, this.facts),
      make("div", { class: "half" }, make("div", { class: "tools" }, this.kinds, make("span", { class: "grow" }), this.note), this.right.box, this.detail)));
    this.left.box.addEventListener("keydown", (event) => this.leftKey(event));
    this.right.box.addEventListener("keydown", (event) => this.rightKey(event));
    this.open(Math.max(0, data.findings.find((each) => each.unit >= 0)?.unit ?? 0));
  },

  whole() { return code.units.reduce((sum, each) => sum + each.weight, 0) || 1; },
  held() { return code.units[this.unit]; },
  sass() { return this.held()?.sass ?? null; },
  text() { return this.views()[this.tab]?.text ?? null; },
  views() {
    const unit = this.held();
    return unit ? [...(unit.sass ? [{ label: "SASS", text: null }] : []), ...unit.texts] : [];
  },

  open(unit, file, line) {
    this.unit = unit;
    this.units.value = String(unit);
    const files = code.filesOf(unit);
    if (file !== undefined && !files.includes(file)) files.push(file);
    this.files.replaceChildren(...files.map((each) => make("option", { value: each }, code.files[each].name)));
    this.file = file ?? files[0] ?? -1;
    this.files.value = String(this.file);
    this.line = 0;
    this.at = -1;
    this.begun = new Map();
    data.findings.forEach((each, place) => {
      if (each.unit === unit && each.sass) this.begun.set(each.sass[0], [...(this.begun.get(each.sass[0]) ?? []), place]);
    });
    this.choose(0);
    this.source();
    const sums = this.lineSums(), hottest = [...sums].sort((a, b) => b[1].weight - a[1].weight)[0];
    if (line ?? hottest?.[0]) this.chooseLine(line ?? hottest[0], true);
  },

  choose(tab) {
    this.tab = tab;
    const unit = this.held(), views = this.views();
    this.kinds.replaceChildren(...views.map((each, place) => make("button", {
      type: "button", role: "tab", "aria-selected": String(place === tab), onclick: () => { this.choose(place); this.follow(); },
    }, each.label)));
    this.note.textContent = unit ? [unit.architecture, unit.note].filter(Boolean).join("; ") : "";
    const text = views[tab]?.text;
    this.rightLines = text ? text.split("\n") : null;
    this.mapped = views[tab]?.lines ?? null;
    this.right.box.setAttribute("aria-label", views[tab]?.label ?? "Machine code");
    this.right.set(text ? this.rightLines.length : this.sass()?.text.length ?? 0);
    this.tell();
  },

  // -- source

  lineSums() { return code.sums(this.unit).get(this.file) ?? new Map(); },
  first() { return code.files[this.file]?.first ?? 1; },

  source() {
    const lines = this.file >= 0 ? code.lines(this.file) : [];
    this.greatest = Math.max(...[...this.lineSums().values()].map((each) => each.weight), 1);
    this.findings = new Map();
    data.findings.forEach((each, place) => {
      if (each.at && each.at[2] === this.file) this.findings.set(each.at[1], [...(this.findings.get(each.at[1]) ?? []), place]);
    });
    this.left.set(lines.length);
    this.facts.replaceChildren();
    this.left.box.toggleAttribute("data-empty", !lines.length);
    if (!lines.length) this.left.all.replaceChildren(make("p", { class: "empty" }, this.file >= 0 ? "The page does not hold the text of this file." : "No source line is known of this function."));
  },

  sourceRow(index) {
    const line = index + this.first(), here = this.lineSums().get(line), whole = this.held()?.weight || 1;
    const row = make("div", {
      role: "option", id: `line-${line}`, "aria-selected": String(line === this.line),
      title: here ? `${format(here.weight, "1")} ${code.sampled ? "samples" : "executions"}: ${code.why(here.stalls)}` : null,
      onclick: () => this.chooseLine(line, true),
    }, make("span", { class: "gut" }, String(line)), make("span", { class: "hot" }, here ? `${percent(here.weight / whole)} %` : ""),
      make("span", {}, code.lines(this.file)[index] || " "), make("span", {}, (this.findings.get(line) ?? []).map(findingTag)));
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
    const here = this.lineSums().get(this.line), remarks = (this.held()?.remarks ?? []).filter((each) => each[0] === this.line && this.held().file === this.file);
    const said = here ? `${format(here.weight, "1")} ${code.sampled ? "samples" : "executions"}` : "no samples";
    this.facts.replaceChildren(
      make("div", {}, make("code", {}, `line ${this.line}`), make("span", { class: "quiet" }, `  ${said}`), (this.findings.get(this.line) ?? []).map(findingTag)),
      here ? bars(code.reasons(here.stalls)) : "",
      ...remarks.map(([, op, chosen, rejected]) => make("div", {}, make("code", {}, op), `: ${chosen}`,
        make("span", { class: "quiet" }, rejected.map(([what, why]) => `; not ${what}: ${why}`).join("")))));
  },

  // The hottest instruction of the chosen line, or its first line of a text, into sight.
  follow() {
    if (!this.line) return;
    if (this.rightLines) {
      const at = this.mapped?.indexOf(this.line) ?? -1;
      if (at >= 0) this.right.show(at); else this.right.refresh();
      return;
    }
    const sass = this.sass();
    if (!sass) return;
    let best = -1;
    sass.place.forEach((place, index) => {
      if (this.isChosen(place) && (best < 0 || sass.weight[index] > sass.weight[best])) best = index;
    });
    this.at = best;
    if (best >= 0) this.right.show(best); else this.right.refresh();
    this.tell();
  },

  isChosen(place) {
    const held = place >= 0 ? this.sass().places[place] : null;
    return held !== null && held[0] === this.file && held[1] === this.line;
  },

  // -- machine code, or a compiler's text

  rightRow(index) { return this.rightLines ? this.textRow(index) : this.sassRow(index); },

  textRow(index) {
    const line = this.mapped?.[index] ?? 0, own = this.views()[this.tab].file === this.file;
    const here = own && line ? this.lineSums().get(line) : null;
    const first = line && this.mapped[index - 1] !== line;
    const row = make("div", { role: "option", id: `right-${index}`, class: own && line && line === this.line ? "same" : "", "aria-selected": String(index === this.at), onclick: () => { this.at = index; if (line && own) this.chooseLine(line); else this.right.refresh(); } },
      make("span", { class: "gut" }, String(index + 1)), make("span", { class: "hot" }, here && first ? `${percent(here.weight / (this.held().weight || 1))} %` : ""),
      make("span", { class: "why" }, first ? `line ${line}` : ""), make("span", {}, this.rightLines[index] || " "));
    row.style.background = warmth((here?.weight ?? 0) / this.greatest);
    return row;
  },

  sassRow(index) {
    const sass = this.sass(), weight = sass.weight[index], whole = this.held().weight || 1;
    sass.most ??= Math.max(...sass.weight, 1);
    const [, guard = "", opcode, rest] = OPCODE.exec(sass.text[index]) ?? [null, "", sass.text[index], ""];
    const row = make("div", { role: "option", id: `right-${index}`, class: this.isChosen(sass.place[index]) ? "same" : "", "aria-selected": String(index === this.at), onclick: () => this.chooseInstruction(index) },
      make("span", { class: "gut" }, sass.offset[index].toString(16).padStart(4, "0")),
      make("span", { class: "hot" }, weight ? `${percent(weight / whole)} %` : ""),
      make("span", { class: "why" }, code.why(sass.stalls[index])),
      make("span", {}, "  ".repeat(sass.depth[index]), guard, make("span", { class: "op" }, opcode), rest, this.begun.get(sass.offset[index])?.map(findingTag)));
    row.style.background = warmth(weight / sass.most);
    return row;
  },

  chooseInstruction(index) {
    this.at = index;
    const sass = this.sass(), place = sass.place[index];
    this.right.show(index);
    this.right.box.setAttribute("aria-activedescendant", `right-${index}`);
    if (place >= 0) {
      const [file, line] = sass.places[place];
      if (file !== this.file) { this.file = file; this.files.value = String(file); this.source(); }
      this.chooseLine(line);
    }
    this.tell();
  },

  // What is known of the chosen instruction: why it waits, and for what.
  tell() {
    const sass = this.sass();
    if (this.rightLines || !sass || this.at < 0) {
      this.detail.replaceChildren(make("span", { class: "quiet" }, this.rightLines ? "" : data.code.sampling));
      return;
    }
    const at = this.at, weight = sass.weight[at];
    const blames = sass.blames.filter((each) => each[0] === at);
    this.detail.replaceChildren(
      make("div", {}, make("code", {}, `${sass.offset[at].toString(16).padStart(4, "0")}  ${sass.text[at]}`), make("span", { class: "quiet" },
        `  ${format(weight, "1")} ${code.sampled ? "samples" : "executions"}${sass.not_issued[at] ? `, at ${format(sass.not_issued[at], "1")} of them no other warp issued` : ""}`)),
      bars(code.reasons(sass.stalls[at])),
      ...blames.slice(0, 6).map(([, stall, producer, through]) => make("div", {}, make("span", { class: "quiet" }, `${data.code.stalls[stall]}: waits for `), this.jump(producer), make("span", { class: "quiet" }, ` through ${through}`))));
  },

  jump(offset) {
    const index = this.sass().offset.indexOf(offset);
    return make("button", { type: "button", class: "mono op", onclick: () => this.chooseInstruction(index) }, `${offset.toString(16).padStart(4, "0")} ${this.sass().text[index] ?? ""}`);
  },

  leftKey(event) {
    const count = this.left.count, to = moved(event.key, this.line - this.first(), count, this.left.page);
    if (to !== null) this.chooseLine(to + this.first(), true);
    else if (event.key === "Enter") this.right.box.focus();
    else return;
    event.preventDefault();
  },

  rightKey(event) {
    const to = moved(event.key, this.at, this.right.count, this.right.page);
    if (to === null) return;
    event.preventDefault();
    if (!this.rightLines) this.chooseInstruction(to);
    else { this.at = to; this.right.show(to); }
  },

  show(unit, file, line, offset) {
    if (unit !== undefined && (unit === -1 || unit in code.units)) {
      this.open(unit, file >= 0 && file in code.files ? file : undefined, line || undefined);
      const index = this.sass()?.offset.indexOf(offset) ?? -1;
      if (index >= 0) this.chooseInstruction(index);
    }
    else this.open(this.unit, this.file >= 0 ? this.file : undefined, this.line || undefined);
    this.left.box.focus({ preventScroll: true });
  },
};
