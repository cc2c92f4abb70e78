// Timelines: of the warps of a CTA, of the program, of hardware counters; those that there are.

const TIMELINES = [warpTimeline, eventTimeline, counterTimeline].filter(
  (each) => each.id in data.timelines,
);

const timelinesView = {
  id: "timelines",
  title: "Timelines",
  part: TIMELINES[0],
  which: -1,
  spans: {},

  build(panel) {
    this.tabs = make("div.tabs", { role: "tablist", "aria-label": "Kinds" });
    this.choice = make("select", {
      "aria-label": "Which one",
      onchange: () => this.turn(this.part, Number(this.choice.value)),
    });
    const plain = (text, label, does) =>
      make("button.plain", { "aria-label": label, onclick: does }, text);
    this.note = make("span.quiet");
    this.legend = make("div.tools.legend");
    this.holder = make("div.holder");
    this.detail = make("div.detail", { "aria-live": "polite" });
    panel.append(
      make(
        "div.tools",
        this.tabs,
        this.choice,
        plain("All", "All of the time", () => this.drawing?.all()),
        plain("+", "Half of the time", () => this.drawing?.scale(0.5)),
        plain("−", "Twice the time", () => this.drawing?.scale(2)),
        this.note,
      ),
      this.legend,
      this.holder,
      this.detail,
    );
    theme.listeners.push(() => this.drawing?.paint());
  },

  // `#timelines/cta/3/300/700`: the third CTA, from 300 to 700 ns.
  show(id, which, from, to) {
    const part = TIMELINES.find((each) => each.id === id);
    this.draw(part ?? this.part, part ? Number(which) - 1 : this.which);
    if (part && Number(to) > Number(from)) this.drawing?.zoom(Number(from), Number(to));
    this.drawing?.canvas.focus({ preventScroll: true });
  },

  // By the reader: the address follows, once nothing changes any more.
  turn(part, which) {
    this.draw(part, which);
    this.address();
  },
  zoomed(span) {
    this.spans[this.axis()] = span;
    this.address();
  },
  address() {
    clearTimeout(this.later);
    this.later = setTimeout(() => {
      if (this.panel.hidden) return;
      const place = [this.part.id, this.which + 1, ...(this.spans[this.axis()] ?? [])];
      history.replaceState(null, "", `#timelines/${place.join("/")}`);
    }, 100);
  },
  // Counters and events have one axis, so what was zoomed into there is kept from one to the other.
  axis() {
    return this.part === warpTimeline ? `cta${this.which}` : "program";
  },

  draw(part, which) {
    const held = data.timelines[part.id],
      list = held.damaged ? [] : part.list(held);
    this.part = part;
    this.which =
      which in list
        ? which
        : Math.max(
            0,
            list.findIndex((each) => each.median),
          );
    this.drawing?.watch.disconnect();
    this.drawing = null;
    this.tabs.replaceChildren(...TIMELINES.map((each) => this.tab(each)));
    this.choice.replaceChildren(
      ...list.map((each, value) => make("option", { value }, part.name(each))),
    );
    this.choice.hidden = !list.length || part === eventTimeline;
    this.choice.value = String(this.which);
    for (const each of [this.legend, this.holder, this.detail, this.note]) each.replaceChildren();
    if (held.damaged) this.holder.append(make("p.empty", held.damaged));
    else this.fill(held, list[this.which]);
    this.legend.hidden = !this.legend.childElementCount;
  },

  fill(held, one) {
    const notes = this.part.draw(this, held, one);
    this.note.textContent = [format(one.whole, "ns"), ...notes].filter(Boolean).join("; ");
    this.holder.append(this.drawing.box);
    const { begin, end } = this.drawing,
      [from, to] = this.spans[this.axis()] ?? [begin, end];
    if (from < end && to > begin)
      [this.drawing.from, this.drawing.to] = [Math.max(from, begin), Math.min(to, end)];
    this.drawing.paint();
  },

  tab(part) {
    return make(
      "button",
      {
        role: "tab",
        "aria-selected": String(part === this.part),
        "data-part": part.id,
        onclick: () => this.turn(part, -1),
      },
      part.title,
    );
  },

  // -- what parts that have bars share

  // `words(bar)`: elements that tell of it; `more(bar)`: those with links, of what is chosen.
  bars(label, held, look, words, more) {
    const told = (bar) => this.detail.replaceChildren(...(bar ? more(bar) : [howTo()]));
    this.drawing = new Bars(label, held, {
      look,
      words,
      chose: told,
      zoomed: (span) => this.zoomed(span),
    });
    told(null);
  },

  // An entry of the legend; where it is pressed, what it stands for does stand out.
  key(what, color, text) {
    const box = make("span.kind");
    box.style.background = `var(--${color}, var(--frame))`;
    if (what === null) return make("span.key", box, text);
    const press = (event) => {
      this.drawing.only = this.drawing.only === what ? null : what;
      for (const each of this.legend.querySelectorAll("button"))
        each.setAttribute("aria-pressed", "false");
      event.currentTarget.setAttribute("aria-pressed", String(this.drawing.only === what));
      this.drawing.paint();
    };
    return make("button.key", { "aria-pressed": "false", onclick: press }, box, text);
  },
};
