// The findings: filters, a row for each, opened by its deep link `#finding-3`.

const SEVERITIES = ["suggestion", "symptom", "warning", "stop", "ignore"];
const MEANING = {
  suggestion: "a cause that was seen to cost time, with the gain of a change",
  symptom: "measured, its cause is not known",
  warning: "a cause, of which nothing was measured",
  stop: "nothing is left to gain here",
  ignore: "true, and it costs nothing",
};

function whereText(each) {
  const line = each.at ? `${short(each.at[0])}:${each.at[1]}` : "";
  return [readable(each.kernel) || each.path.at(-1), line].filter(Boolean).join(" · ");
}

// The main number of a finding: of its kernel, else of the program.
function mainGain(each) {
  if (each.gain.kernel) return `${gainText(each.gain.kernel, false)} kernel`;
  return each.gain.program ? `${gainText(each.gain.program, false)} program` : "";
}

const findingsView = {
  ...findingParts,
  id: "findings",
  title: "Findings",
  number: data.findings.length,
  off: new Set(),
  kernel: "",

  build(panel) {
    this.list = make("div.findings");
    this.shown = make("span.quiet", { "aria-live": "polite" });
    panel.append(this.filters(), make("div.scroll", this.list));
    this.cards = data.findings.map((each, place) => this.card(each, place));
    this.none = make("p.empty");
    this.list.append(accountOf(data.account), ...this.cards, this.none, this.runs(), this.legend());
    this.filter();
    if (data.findings.length) this.open(0, true);
  },

  filters() {
    const counts = SEVERITIES.map(
      (name) => data.findings.filter((f) => f.severity === name).length,
    );
    const chips = SEVERITIES.filter((_, i) => counts[i]).map((name) => {
      const chip = make(
        "button",
        {
          class: `chip ${name}`,
          "aria-pressed": "true",
          title: MEANING[name],
          onclick: () => {
            if (!this.off.delete(name)) this.off.add(name);
            chip.setAttribute("aria-pressed", String(!this.off.has(name)));
            this.filter();
          },
        },
        `${name} ${counts[SEVERITIES.indexOf(name)]}`,
      );
      return chip;
    });
    const kernels = [...new Set(data.findings.map((each) => each.kernel))].filter(Boolean);
    this.select = make(
      "select",
      {
        "aria-label": "Findings of which kernel",
        onchange: () => {
          this.kernel = this.select.value;
          this.filter();
        },
      },
      make("option", { value: "" }, "all kernels"),
      kernels.map((name) => make("option", { value: name }, readable(name))),
    );
    return make(
      "div.tools",
      { hidden: !data.findings.length },
      chips,
      kernels.length > 1 ? this.select : null,
      this.shown,
    );
  },

  filter() {
    let seen = 0;
    data.findings.forEach((each, place) => {
      const shown = !this.off.has(each.severity) && (!this.kernel || each.kernel === this.kernel);
      this.cards[place].hidden = !shown;
      seen += shown;
    });
    const all = data.findings.length;
    this.shown.textContent = seen === all ? "" : `${seen} of ${all}`;
    this.none.hidden = seen > 0;
    this.none.textContent = all ? "No finding passes the filters." : "No optimisation found.";
  },

  card(each, place) {
    const body = make("div.inside", { hidden: true, id: `inside-${place + 1}` });
    const head = make(
      "button",
      {
        "aria-expanded": "false",
        "aria-controls": body.id,
        onclick: () => this.open(place, body.hidden),
      },
      make("span.quiet.number", String(place + 1)),
      make(
        "span",
        { class: `severity ${each.severity}`, title: MEANING[each.severity] },
        each.severity,
      ),
      make("span.gain", mainGain(each)),
      make("span.title", each.title),
      make("span.where.mono", whereText(each)),
    );
    return make(
      "article.finding",
      { id: `finding-${place + 1}`, "aria-label": `Finding ${place + 1}` },
      head,
      body,
    );
  },

  open(place, opened) {
    const card = this.cards[place],
      [head, body] = card.children;
    if (opened && !body.childElementCount) body.append(...this.inside(data.findings[place], place));
    body.hidden = !opened;
    head.setAttribute("aria-expanded", String(opened));
  },

  show(number) {
    for (const card of this.cards) card.classList.remove("target");
    const card = this.cards[number - 1];
    if (!card) return;
    card.hidden = false;
    this.open(number - 1, true);
    card.classList.add("target");
    card.scrollIntoView({ block: "nearest" });
    // Later, since a browser that opens a page at a link takes the focus away itself.
    const focus = () => requestAnimationFrame(() => card.firstChild.focus({ preventScroll: true }));
    if (document.readyState === "complete") focus();
    else addEventListener("load", focus, { once: true });
  },
};
