// One block step by step: what each op reads and writes, the buffers, the slots of its loop.

const stepsView = {
  id: "steps",
  title: "Steps",

  build(panel) {
    this.select = make("select", {
      "aria-label": "Block",
      onchange: () => state.set({ shown: Number(this.select.value), move: 0 }),
    });
    this.slider = make("input", {
      type: "range",
      min: 0,
      "aria-label": "Step",
      oninput: () => this.go(Number(this.slider.value)),
    });
    this.player = make("button.plain", { onclick: () => this.play() }, "Play");
    const button = (text, label, to) =>
      make("button.plain", { "aria-label": label, onclick: () => this.go(to()) }, text);
    this.said = make("section.card.wide", { "aria-live": "polite" });
    this.buffers = make("div");
    this.ring = make("div.stack");
    panel.append(
      make(
        "div.line.stepping",
        make("label", make("span.quiet", "block "), this.select),
        button("«", "First step", () => 0),
        button("‹", "Step back", () => state.move - 1),
        this.slider,
        button("›", "Step forward", () => state.move + 1),
        button("»", "Last step", () => state.moves.length - 1),
        this.player,
      ),
      this.said,
      this.buffers,
      this.ring,
      make(
        "ul.legend",
        make("li", make("span", { class: "swatch of-read" }), "read"),
        make("li", make("span", { class: "swatch of-written" }), "written"),
        make("li", make("span", { class: "swatch of-held" }), "touched or filled before"),
        make("li", "hatched: only some elements of the box"),
        make("li", "keys: ← → a step, Page Up and Page Down ten"),
      ),
    );
    document.addEventListener("keydown", (event) => this.key(event));
    theme.listeners.push(() => this.paint());
    state.on((changed) => {
      if (changed.includes("launch") || changed.includes("shown")) this.renew();
      else if (changed.includes("move")) this.paint();
      else if (changed.includes("line") && this.open) this.toLine();
    });
    this.renew();
  },

  show() {
    this.paint();
  },

  renew() {
    const { launch, shown } = state;
    this.stop();
    this.select.replaceChildren(
      ...launch.shown.map((each) => make("option", { value: each }, launch.named(each))),
    );
    this.select.value = shown;
    const seen = new Map();
    for (const step of state.moves.flat()) {
      const key = bufferKey(step.site);
      if (!seen.has(key)) seen.set(key, new BufferMap(launch, step));
    }
    this.maps = [...seen.values()];
    this.buffers.replaceChildren(
      ...SPACES.flatMap(([space, title]) => {
        const own = this.maps.filter((each) => each.site.space === space);
        return own.length
          ? [make("h3", title), make("div.cards", own.map((each) => each.card))]
          : [];
      }),
    );
    this.rings = pipelineMaps(launch);
    const drawn = new Set(this.rings.flatMap((each) => each.held.buffers));
    // What the author asks for, where the compiler made no ring of it.
    if (Object.keys(launch.rings).some((name) => !drawn.has(name))) this.rings.push(new RingMap(launch));
    this.ring.replaceChildren(...this.rings.map((each) => each.card));
    this.paint();
  },

  go(to) {
    state.set({ move: Math.max(0, Math.min(state.moves.length - 1, to)) });
  },

  // The next step of the line that was chosen in the source.
  toLine() {
    const moves = state.moves,
      order = moves.map((_, at) => (state.move + 1 + at) % moves.length);
    const found = order.find((at) => moves[at][0].site.line === state.line);
    if (found !== undefined) this.go(found);
  },

  key(event) {
    if (!this.open || event.target.matches("input, select, [role=listbox], [role=tab]")) return;
    const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.go(state.move + step);
  },

  play() {
    if (this.timer) {
      this.stop();
      return;
    }
    this.player.textContent = "Pause";
    this.timer = setInterval(() => {
      if (state.move + 1 >= state.moves.length || !this.open) this.stop();
      else this.go(state.move + 1);
    }, 350);
  },

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    if (this.player) this.player.textContent = "Play";
  },

  paint() {
    const moves = state.moves;
    this.slider.max = Math.max(moves.length - 1, 0);
    this.slider.value = state.move;
    this.tell(moves[state.move] ?? [], moves.length);
    for (const each of this.maps) each.paint(moves, state.move);
    for (const each of this.rings) each.paint(moves, state.move);
  },

  tell(move, count) {
    const { launch } = state;
    if (!move.length) {
      this.said.replaceChildren(make("p", "This block accesses nothing."));
      return;
    }
    const [{ site, trip }] = move;
    this.said.replaceChildren(
      make(
        "div",
        make("b", `step ${state.move + 1} of ${count.toLocaleString("en")}`),
        make("span.quiet", `: ${site.op}, line ${site.line}${trip >= 0 ? `, iteration ${trip}` : ""}`),
      ),
      ...move.map((step) => make("div", ...this.sentence(step))),
      launch.dropped
        ? make("div.warning", `${plural(launch.dropped, "later access")} of the shown blocks left out`)
        : "",
    );
  },

  sentence(step) {
    const { site } = step,
      ring = state.launch.rings[site.buffer],
      slot = site.space === "shared" && ring && step.trip >= 0;
    const way = { read: "reads", write: "writes", atomic: "combines" }[site.access];
    const idle = step.points - step.active;
    return [
      make("span", {
        class: `swatch ${site.access === "read" ? "of-read" : "of-written"}`,
      }),
      `${way} `,
      make("code", `${site.buffer}${boxText(step.low, step.high)}`),
      `, ${format(step.bytes, "bytes")} of ${site.space} memory`,
      slot
        ? `, slot ${step.trip % ring} (phase ${Math.floor(step.trip / ring) % 2})`
        : "",
      step.guarded ? make("span.warning", `, ${plural(step.guarded, "element")} outside`) : "",
      idle
        ? make("span.warning", `, ${idle.toLocaleString("en")} of ${plural(step.points, "point")} left out by a mask`)
        : step.points > 1
          ? make("span.quiet", `, ${plural(step.points, "point")}`)
          : "",
    ];
  },
};
