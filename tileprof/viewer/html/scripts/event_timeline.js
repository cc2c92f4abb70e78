// What ran when in the program: its threads, below them the streams of its devices.

const eventTimeline = {
  id: "program",
  title: "Program",
  list: (held) => [held],
  name: () => "",

  draw(view, held) {
    const look = (bar) => ({ color: this.kind(held, bar.what), text: this.called(held, bar.what) });
    const launch = (bar) => view.drawing.bars[view.drawing.links.get(bar.at)],
      words = (bar) => this.words(held, bar, launch(bar));
    view.bars("The program's threads and streams", held, look, words, (bar) => [
      ...words(bar),
      this.links(view, held, bar, launch(bar)),
    ]);
    for (const kind of new Set(held.nodes.map((_, what) => this.kind(held, what))))
      view.legend.append(view.key(null, kind, kind));
    return [
      joinedText(held),
      held.left && `${held.left.toLocaleString("en")} rows with less time are not on this page`,
      held.note && `lost: ${held.note}`,
    ];
  },

  // A node of the call tree, or one that is in it only as a part of the one above.
  kind: (held, what) => held.others[what]?.[0] ?? tree.kind(held.nodes[what]),
  called(held, what) {
    const node = held.nodes[what],
      other = held.others[what];
    if (!other) return tree.name(node);
    return other[1] || (node >= 0 ? `part of ${tree.name(node)}` : "not in the call tree");
  },

  words(held, bar, launch) {
    const kind = this.kind(held, bar.what),
      phase = held.others[bar.what] ? "" : tree.phase(held.nodes[bar.what]);
    const by =
      launch &&
      `launched by ${this.called(held, launch.what)}, ${format(bar.begin - launch.begin, "ns") || "0"} before`;
    return [
      make("div.mono", severalText(bar), this.called(held, bar.what)),
      make("div", barTime(bar, rowName(held, bar.row))),
      make("div.quiet", [kind, phase, by].filter(Boolean).join("; ")),
    ];
  },

  links(view, held, bar, launch) {
    const node = held.nodes[bar.what],
      go = () => view.drawing.set(launch);
    return make(
      "div.links",
      node >= 0 ? make("a", { href: `#node-${node}` }, "call tree") : null,
      launch ? make("button.link", { onclick: go }, "its launch") : null,
    );
  },
};
