// The kernel's source beside every view: bytes of each line, the line of the step that is shown.

const codePane = {
  build(box) {
    this.box = box;
    this.caption = make("div.tools");
    this.list = make("div.lines.source", { role: "listbox", tabindex: 0, "aria-label": "Source" });
    this.notes = make("div.detail", { "aria-live": "polite" });
    box.append(this.caption, make("div.scroll", this.list), this.notes);
    this.list.addEventListener("keydown", (event) => this.key(event));
    state.on((changed) => {
      if (changed.includes("launch")) this.show();
      else if (changed.includes("line") || changed.includes("move") || changed.includes("shown"))
        this.mark();
    });
    this.show();
  },

  // Bytes of global tensors, and of all buffers, by line.
  sums() {
    const sums = new Map();
    for (const site of state.launch.sites) {
      const held = sums.get(site.line) ?? { moved: 0, all: 0 };
      held.all += site.bytes;
      if (site.space === "global") held.moved += site.bytes;
      sums.set(site.line, held);
    }
    return sums;
  },

  show() {
    const { file, first, lines } = state.launch.kernel.source;
    this.caption.replaceChildren(
      make("code", { title: file }, file ? `${short(file)}:${first}` : "no source"),
      make("span.quiet", "bytes of global memory by line"),
    );
    const sums = this.sums(),
      most = Math.max(...[...sums.values()].map((each) => each.moved), 1);
    this.rows = lines.map((text, at) => {
      const line = first + at,
        sum = sums.get(line);
      const row = make(
        "div.row",
        {
          role: "option",
          id: `line-${line}`,
          "aria-selected": "false",
          title: sum ? `${format(sum.all, "bytes")} in all memories` : null,
          onclick: () => state.set({ line }),
        },
        make("span.gut", String(line)),
        make("span.hot", sum?.moved ? format(sum.moved, "bytes") : ""),
        make("span", text || " "),
        make(
          "span.tag.warning",
          state.launch.kernel.notes.some((each) => each[0] === line && each[4]) ? "missed" : "",
        ),
      );
      row.style.background = warmth((sum?.moved ?? 0) / most);
      return row;
    });
    this.list.replaceChildren(...this.rows);
    this.mark();
  },

  key(event) {
    const { first, lines } = state.launch.kernel.source,
      at = (state.line || first) - first;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: lines.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    state.set({ line: first + Math.max(0, Math.min(lines.length - 1, to)) });
  },

  mark() {
    const first = state.launch.kernel.source.first;
    const here = stepsView.open ? state.moves[state.move]?.[0].site.line : 0;
    this.rows.forEach((row, at) => {
      row.classList.toggle("same", first + at === here);
      row.setAttribute("aria-selected", String(first + at === state.line));
    });
    const chosen = this.rows[(here || state.line) - first];
    if (chosen) {
      const box = this.list.parentElement;
      const top = chosen.offsetTop - box.offsetTop;
      if (top < box.scrollTop || top + 18 > box.scrollTop + box.clientHeight)
        box.scrollTop = top - box.clientHeight / 2;
    }
    this.tell(here || state.line);
  },

  // What the compiler decided about a line.
  tell(line) {
    const { notes, costs, target, problem } = state.launch.kernel;
    const mine = notes.filter((each) => each[0] === line),
      paid = costs.filter((each) => each.line === line),
      moved = (state.launch.requests?.places ?? []).filter((each) => each.line === line);
    if (problem) {
      this.notes.replaceChildren(make("div.warning", `not on ${target}: ${problem}`));
      return;
    }
    this.notes.replaceChildren(
      make(
        "div",
        make("code", line ? `line ${line}` : "no line chosen"),
        make("span.quiet", ` on ${target}`),
      ),
      ...mine.map(([, subject, decision, against, missed]) =>
        make(
          "div",
          make("code", subject),
          `: ${decision}`,
          against ? make(missed ? "span.warning" : "span.quiet", `; not ${against}`) : "",
        ),
      ),
      ...paid.map((each) =>
        make("div", make("code", `${each.access} ${each.buffer}`), `: ${costText(each)}`),
      ),
      ...moved.map((each) =>
        make(
          "div",
          make("code", `${each.access} ${each.buffer}`),
          `: ${movedText(each, each)}${each.requests ? ` in ${plural(each.requests, "request")}` : ""} of all blocks`,
        ),
      ),
      line && !mine.length && !paid.length && !moved.length
        ? make("div.quiet", "The compiler notes nothing about this line.")
        : "",
    );
  },
};

// `4 wavefronts a request, 2 needed: a 2-way bank conflict`.
function costText(cost) {
  const unit = cost.space === "global" ? "sector" : "wavefront";
  const said = `${cost.width} B a thread, ${plural(cost.taken, unit)} a request, ${cost.needed} needed`;
  if (cost.taken === cost.needed) return said;
  const ways = times(cost.taken, cost.needed);
  return `${said}: ${cost.space === "global" ? `${ways} the sectors` : `bank conflict, ${ways} the wavefronts`}`;
}
