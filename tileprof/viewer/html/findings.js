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
  return [each.kernel || each.path.at(-1), line].filter(Boolean).join(" · ");
}

// The main number of a finding: of its kernel, else of the program.
function mainGain(each) {
  if (each.gain.kernel) return `${gainText(each.gain.kernel, false)} kernel`;
  return each.gain.program ? `${gainText(each.gain.program, false)} program` : "";
}

const findingsView = {
  id: "findings", title: "Findings", number: data.findings.length,
  off: new Set(), kernel: "",

  build(panel) {
    this.list = make("div", { class: "findings" });
    this.shown = make("span", { class: "quiet", "aria-live": "polite" });
    panel.append(this.filters(), make("div", { class: "scroll" }, this.list));
    this.cards = data.findings.map((each, place) => this.card(each, place));
    this.list.append(
      this.times(), ...this.cards, this.none = make("p", { class: "empty" }), this.runs(),
    );
    this.filter();
    if (data.findings.length) this.open(0, true);
  },

  filters() {
    const counts = SEVERITIES.map((name) => data.findings.filter((f) => f.severity === name).length);
    const chips = SEVERITIES.filter((_, i) => counts[i]).map((name) => {
      const chip = make("button", {
        type: "button", class: `chip ${name}`, "aria-pressed": "true", title: MEANING[name],
        onclick: () => {
          if (!this.off.delete(name)) this.off.add(name);
          chip.setAttribute("aria-pressed", String(!this.off.has(name)));
          this.filter();
        },
      }, `${name} ${counts[SEVERITIES.indexOf(name)]}`);
      return chip;
    });
    const kernels = [...new Set(data.findings.map((each) => each.kernel))].filter(Boolean);
    this.select = make("select", {
      "aria-label": "Findings of which kernel",
      onchange: () => { this.kernel = this.select.value; this.filter(); },
    }, make("option", { value: "" }, "all kernels"), kernels.map((name) => make("option", { value: name }, name)));
    return make("div", { class: "tools", hidden: !data.findings.length }, chips, kernels.length > 1 ? this.select : null, this.shown);
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
    this.none.textContent = all ? "No finding passes the filters." : "Nothing to change was found.";
  },

  // A strip of where the devices' time goes: a part for each of the longest kernels.
  times() {
    const head = data.header, kernels = data.kernels, whole = head.device_time;
    if (!whole) return make("div");
    const strip = make("div", { class: "strip", role: "group", "aria-label": "Device time by kernel" });
    let rest = head.kernel_time;
    kernels.name.slice(0, 12).forEach((name, place) => {
      const time = kernels.time[place], share = time / whole;
      if (share < 0.004) return;
      rest -= time;
      const said = `${name}: ${format(time, "ns")} (${percent(share)} %)`;
      const link = make("a", { href: `#node-${kernels.node[place]}`, title: said, "aria-label": said }, share > 0.04 ? name : "");
      link.style.width = `${share * 100}%`;
      link.style.background = `color-mix(in srgb, var(--kernel) ${100 - 6 * place}%, var(--raised))`;
      strip.append(link);
    });
    const others = make("a", { href: "#kernels", title: `other kernels: ${format(rest, "ns")}`, "aria-label": "other kernels" });
    others.style.width = `${(rest / whole) * 100}%`;
    others.style.background = "color-mix(in srgb, var(--kernel) 25%, var(--raised))";
    const idle = whole - head.kernel_time;
    const waiting = make("a", { class: "idle", href: "#tree", title: `idle or copying: ${format(idle, "ns")}` }, idle / whole > 0.08 ? "idle, copies" : "");
    waiting.style.width = `${(idle / whole) * 100}%`;
    strip.append(...(rest > 0.001 * whole ? [others] : []), ...(idle > 0.001 * whole ? [waiting] : []));
    return strip;
  },

  card(each, place) {
    const body = make("div", { class: "inside", hidden: true, id: `inside-${place + 1}` });
    const head = make("button", {
      type: "button", "aria-expanded": "false", "aria-controls": body.id,
      onclick: () => this.open(place, body.hidden),
    },
      make("span", { class: "quiet number" }, String(place + 1)),
      make("span", { class: `severity ${each.severity}`, title: MEANING[each.severity] }, each.severity),
      make("span", { class: "gain" }, mainGain(each)),
      make("span", { class: "title" }, each.title),
      make("span", { class: "where mono" }, whereText(each)),
    );
    return make("article", { class: "finding", id: `finding-${place + 1}`, "aria-label": `Finding ${place + 1}` }, head, body);
  },

  open(place, opened) {
    const card = this.cards[place], [head, body] = card.children;
    if (opened && !body.childElementCount) body.append(...this.inside(data.findings[place], place));
    body.hidden = !opened;
    head.setAttribute("aria-expanded", String(opened));
  },

  inside(each, place) {
    const told = (name, tiers) => {
      const facts = each.evidence.filter((fact) => tiers(fact[0]));
      return facts.length ? [make("h3", {}, name), make("dl", { class: "evidence" }, facts.flatMap(([tier, text, samples]) => [
        make("dt", {}, make("span", { class: "chip" }, tier)),
        make("dd", {}, text, samples ? make("span", { class: "quiet" }, ` (${format(samples, "1")} samples)`) : null),
      ]))] : [];
    };
    const { kernel, program } = each.gain;
    const gains = [
      kernel && `the kernel ${gainText(kernel)} as fast`, program && `the program ${gainText(program)}`,
    ].filter(Boolean).join(", ");
    const left = make("div", {},
      told("Known without running", (tier) => tier === "static"),
      told("Measured", (tier) => tier !== "static"),
      each.author ? [make("h3", {}, "Advice"), make("p", {}, each.author)] : null,
      each.compiler ? [make("h3", {}, "To the compiler's developers"), make("p", {}, each.compiler)] : null,
      make("h3", {}, "Gain"),
      make("p", {}, gains || "none is told: nothing that was measured bounds it"),
      make("p", { class: "quiet" }, `confidence ${each.confidence}; rule `, make("code", {}, each.rule)),
    );
    return [left, make("div", {}, this.placeOf(each), this.links(each, place))];
  },

  placeOf(each) {
    const op = each.op ? [make("span", { class: "quiet" }, " in "), make("code", {}, each.op)] : [];
    const line = each.at ? `${each.at[0]}:${each.at[1]}` : each.kernel;
    return [
      make("h3", {}, "Place"),
      make("p", {}, make("code", {}, line), op),
      each.path.length ? make("p", { class: "path" }, each.path.join(" › ")) : null,
      each.at && each.at[2] >= 0 ? excerpt(each) : null,
    ];
  },

  links(each, place) {
    const code = each.unit >= 0 || (each.at && each.at[2] >= 0);
    return make("p", { class: "links" },
      code ? make("a", { href: codeLink(each) }, "Source and machine code") : null,
      each.node >= 0 ? make("a", { href: `#node-${each.node}` }, "In the call tree") : null,
      make("a", { href: `#finding-${place + 1}` }, "Link to this finding"),
    );
  },

  // What the profile has not, and the runs that would add it.
  runs() {
    if (!data.runs.length) return make("div");
    return make("section", { class: "runs" }, make("h3", {}, "To know more"), make("ul", {}, data.runs.map(([tier, run, rules]) =>
      make("li", {}, make("span", { class: "chip off" }, tier), " ", commands(run),
        rules.length ? make("span", { class: "quiet" }, ` – would make surer: ${rules.join(", ")}`) : null))));
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

// Words, with what stands between backquotes as code.
function commands(text) {
  return text.split("`").map((part, place) => (place % 2 ? make("code", {}, part) : part));
}
