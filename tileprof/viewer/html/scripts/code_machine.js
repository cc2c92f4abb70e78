// The right side of the code's view: machine code or a compiler's text, and one instruction.

const OPCODE = /^(@!?U?P\w+\s+)?(\S+)([\s\S]*)$/;

const machineSide = {
  rightRow(index) {
    return this.rightLines ? this.textRow(index) : this.sassRow(index);
  },

  textRow(index) {
    const line = this.mapped?.[index] ?? 0,
      own = this.views()[this.tab].file === this.file;
    const here = own && line ? this.lineSums().get(line) : null;
    const first = line && this.mapped[index - 1] !== line;
    const row = make(
      "div",
      {
        role: "option",
        id: `right-${index}`,
        class: own && line && line === this.line ? "same" : "",
        "aria-selected": String(index === this.at),
        onclick: () => {
          this.at = index;
          if (line && own) this.chooseLine(line);
          else this.right.refresh();
        },
      },
      make("span.gut", String(index + 1)),
      make(
        "span.hot",
        here && first ? `${percent(here.weight / (this.held().weight || 1))} %` : "",
      ),
      make("span.why", first ? `line ${line}` : ""),
      make("span", this.rightLines[index] || " "),
    );
    row.style.background = warmth((here?.weight ?? 0) / this.greatest);
    return row;
  },

  sassRow(index) {
    const sass = this.sass(),
      weight = sass.weight[index],
      whole = this.held().weight || 1;
    sass.most ??= Math.max(...sass.weight, 1);
    const [, guard = "", opcode, rest] = OPCODE.exec(sass.text[index]) ?? [
      null,
      "",
      sass.text[index],
      "",
    ];
    const row = make(
      "div",
      {
        role: "option",
        id: `right-${index}`,
        class: this.isChosen(sass.place[index]) ? "same" : "",
        "aria-selected": String(index === this.at),
        onclick: () => this.chooseInstruction(index),
      },
      make("span.gut", sass.offset[index].toString(16).padStart(4, "0")),
      make("span.hot", weight ? `${percent(weight / whole)} %` : ""),
      make("span.why", code.why(sass.stalls[index])),
      make(
        "span",
        "  ".repeat(sass.depth[index]),
        guard,
        make("span.op", opcode),
        rest,
        this.begun.get(sass.offset[index])?.map(findingTag),
      ),
    );
    row.style.background = warmth(weight / sass.most);
    return row;
  },

  chooseInstruction(index) {
    this.at = index;
    const sass = this.sass(),
      place = sass.place[index];
    this.right.show(index);
    this.right.box.setAttribute("aria-activedescendant", `right-${index}`);
    if (place >= 0) {
      const [file, line] = sass.places[place];
      if (file !== this.file) {
        this.file = file;
        this.files.value = String(file);
        this.source();
      }
      this.chooseLine(line);
    }
    this.tell();
  },

  // What is known of the chosen instruction: why it waits, and for what.
  tell() {
    const sass = this.sass();
    if (this.rightLines || !sass || this.at < 0) {
      this.detail.replaceChildren(make("span.quiet", this.rightLines ? "" : data.code.sampling));
      return;
    }
    const at = this.at,
      weight = sass.weight[at],
      idle = sass.not_issued[at];
    const blames = sass.blames.filter((each) => each[0] === at);
    this.detail.replaceChildren(
      make(
        "div",
        make("code", `${sass.offset[at].toString(16).padStart(4, "0")}  ${sass.text[at]}`),
        make(
          "span.quiet",
          `  ${code.amount(this.unit, weight)}`,
          idle ? `, at ${format(idle, "1")} of them no other warp issued` : "",
        ),
      ),
      bars(code.reasons(sass.stalls[at])),
      ...blames
        .slice(0, 6)
        .map(([, stall, producer, through]) =>
          make(
            "div",
            make("span.quiet", `${data.code.stalls[stall]}: waits for `),
            this.jump(producer),
            make("span.quiet", ` through ${through}`),
          ),
        ),
    );
  },

  jump(offset) {
    const index = this.sass().offset.indexOf(offset);
    return make(
      "button.mono.op",
      { onclick: () => this.chooseInstruction(index) },
      `${offset.toString(16).padStart(4, "0")} ${this.sass().text[index] ?? ""}`,
    );
  },
};
