// Source lines beside machine code and compilers' texts; a choice on one side shows on the other.

const codeView = {
  ...sourceSide,
  ...machineSide,
  id: "code",
  title: "Code",
  unit: 0,
  file: -1,
  tab: 0,
  line: 0,
  at: -1,

  build(panel) {
    this.units = make(
      "select",
      { "aria-label": "Function", onchange: () => this.open(Number(this.units.value)) },
      code.units.map((each, place) =>
        make(
          "option",
          { value: place },
          each.weight
            ? `${each.title} – ${percent(each.weight / this.whole(each.measure))} %`
            : each.title,
        ),
      ),
    );
    this.files = make("select", {
      "aria-label": "Source file",
      onchange: () => {
        this.file = Number(this.files.value);
        this.line = 0;
        this.source();
      },
    });
    this.note = make("span.quiet");
    this.kinds = make("div.tabs", {
      role: "tablist",
      "aria-label": "Code of the function",
    });
    this.left = new Rows("lines source", "Source lines", "listbox", 18, (index) =>
      this.sourceRow(index),
    );
    this.right = new Rows("lines sass", "Machine code", "listbox", 18, (index) =>
      this.rightRow(index),
    );
    this.facts = make("div.detail", { "aria-live": "polite" });
    this.detail = make("div.detail", { "aria-live": "polite" });
    panel.append(
      make(
        // Without machine code the text has all of the width.
        code.units.length ? "div.code" : "div.code.alone",
        make("div.half", make("div.tools", this.units, this.files), this.left.box, this.facts),
        make(
          "div.half",
          make("div.tools", this.kinds, make("span.grow"), this.note),
          this.right.box,
          this.detail,
        ),
      ),
    );
    this.left.box.addEventListener("keydown", (event) => this.leftKey(event));
    this.right.box.addEventListener("keydown", (event) => this.rightKey(event));
    if (code.units.length) {
      this.open(Math.max(0, data.findings.find((each) => each.unit >= 0)?.unit ?? 0));
    } else {
      const at = data.findings.find((each) => each.at && each.at[2] >= 0)?.at;
      this.open(-1, at?.[2], at?.[1]);
    }
  },

  // All that was weighed in the same way.
  whole(measure) {
    const same = code.units.filter((each) => each.measure === measure);
    return same.reduce((sum, each) => sum + each.weight, 0) || 1;
  },
  held() {
    return code.units[this.unit];
  },
  sass() {
    return this.held()?.sass ?? null;
  },
  text() {
    return this.views()[this.tab]?.text ?? null;
  },
  views() {
    const unit = this.held();
    return unit ? [...(unit.sass ? [{ label: "SASS", text: null }] : []), ...unit.texts] : [];
  },

  open(unit, file, line) {
    this.unit = unit;
    this.units.value = String(unit);
    const files = code.filesOf(unit);
    if (file !== undefined && !files.includes(file)) files.push(file);
    this.files.replaceChildren(
      ...files.map((each) => make("option", { value: each }, code.files[each].name)),
    );
    this.file = file ?? files[0] ?? -1;
    this.files.value = String(this.file);
    this.line = 0;
    this.at = -1;
    this.begun = new Map();
    data.findings.forEach((each, place) => {
      if (each.unit === unit && each.sass)
        this.begun.set(each.sass[0], [...(this.begun.get(each.sass[0]) ?? []), place]);
    });
    this.choose(0);
    this.source();
    const sums = this.lineSums(),
      hottest = [...sums].sort((a, b) => b[1].weight - a[1].weight)[0];
    if (line ?? hottest?.[0]) this.chooseLine(line ?? hottest[0], true);
  },

  choose(tab) {
    this.tab = tab;
    const unit = this.held(),
      views = this.views();
    this.kinds.replaceChildren(
      ...views.map((each, place) =>
        make(
          "button",
          {
            role: "tab",
            "aria-selected": String(place === tab),
            onclick: () => {
              this.choose(place);
              this.follow();
            },
          },
          each.label,
        ),
      ),
    );
    this.note.textContent = unit ? [unit.architecture, unit.note].filter(Boolean).join("; ") : "";
    const text = views[tab]?.text;
    this.rightLines = text ? text.split("\n") : null;
    this.mapped = views[tab]?.lines ?? null;
    this.right.box.setAttribute("aria-label", views[tab]?.label ?? "Machine code");
    this.right.set(text ? this.rightLines.length : (this.sass()?.text.length ?? 0));
    this.tell();
  },

  leftKey(event) {
    const count = this.left.count,
      to = moved(event.key, this.line - this.first(), count, this.left.page);
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
    else {
      this.at = to;
      this.right.show(to);
    }
  },

  show(unit, file, line, offset) {
    if (unit !== undefined && (unit === -1 || unit in code.units)) {
      this.open(unit, file >= 0 && file in code.files ? file : undefined, line || undefined);
      const index = this.sass()?.offset.indexOf(offset) ?? -1;
      if (index >= 0) this.chooseInstruction(index);
    } else this.open(this.unit, this.file >= 0 ? this.file : undefined, this.line || undefined);
    this.left.box.focus({ preventScroll: true });
  },
};
