// The first view: the grid, the chosen block, each tensor, and bytes against what must move.

const blocksView = {
  id: "blocks",
  title: "Blocks",

  build(panel) {
    this.facts = make("section.card.block", { "aria-live": "polite" });
    this.maps = make("div.cards");
    panel.append(make("div.cards", gridMap.build(), this.facts), this.maps, legend());
    theme.listeners.push(() => this.paint());
    state.on((changed) => {
      if (changed.includes("launch")) this.renew();
      else if (changed.includes("block")) this.paint();
      else if (changed.includes("sharing")) gridMap.paint();
    });
    this.renew();
  },

  renew() {
    this.tensors = state.launch.tensors.map((each) => new TensorMap(state.launch, each));
    this.maps.replaceChildren(...this.tensors.map((each) => each.card));
    this.paint();
  },

  show() {},

  paint() {
    gridMap.paint();
    for (const each of this.tensors) each.paint();
    this.tell();
  },

  tell() {
    const launch = state.launch,
      block = state.block,
      at = indices(block, launch.grid);
    const fact = (name, value) => make("tr", make("td.quiet", name), make("td.number", value));
    const steps = launch.shown.includes(block);
    this.facts.replaceChildren(
      make("h2", `Block ${launch.named(block)}`),
      make(
        "div.line",
        ...at.map((index, axis) =>
          make("label.quiet", `${"xyz"[axis]} `, stepper(index, launch.grid[axis], (to) => gridMap.go(axis, to))),
        ),
      ),
      make(
        "table.facts-table",
        ...Object.entries(MEASURES).map(([name, each]) =>
          fact(each.title, format(launch[name][block] ?? null, each.unit) || "0"),
        ),
      ),
      make(
        "button.plain",
        {
          disabled: !steps,
          title: steps ? null : "This block's accesses are not in the page",
          onclick: () => {
            state.set({ shown: block, move: 0 });
            location.hash = "#steps";
          },
        },
        steps ? "Step by step →" : "not kept step by step",
      ),
      steps
        ? ""
        : make(
            "div.key",
            "kept: ",
            ...launch.shown
              .slice(0, 8)
              .flatMap((each) => [
                make("button.link", { onclick: () => state.choose(each) }, launch.named(each)),
                " ",
              ]),
            launch.shown.length > 8 ? "…" : "",
          ),
    );
  },
};

// A number between 0 and `count - 1` that is typed or stepped.
function stepper(value, count, set) {
  const input = make("input.short", {
    type: "number",
    min: 0,
    max: count - 1,
    onchange: () => set(Number(input.value) || 0),
  });
  input.value = value;
  return input;
}

function legend() {
  const entry = (name, text) => make("li", make("span", { class: `swatch ${name}` }), text);
  return make(
    "ul.legend",
    entry("of-read", "read by the chosen block"),
    entry("of-written", "written by it"),
    entry("of-shared", "darker: more blocks access it"),
    entry("of-framed", "blocks that share the element under the mouse; a click keeps them"),
  );
}
