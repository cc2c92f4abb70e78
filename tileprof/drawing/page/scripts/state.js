// What the reader has chosen: launch, block, step, line. Views listen to changes.

const state = {
  launch: launches[0],
  block: 0,
  // Position in the moves of the block that is shown step by step.
  move: 0,
  shown: launches[0].shown[0] ?? 0,
  line: 0,
  // Blocks that share the element under the mouse, or one that was clicked.
  sharing: [],
  listeners: [],
  on(listener) {
    this.listeners.push(listener);
  },
  set(changes) {
    Object.assign(this, changes);
    for (const listener of this.listeners) listener(Object.keys(changes));
  },
  choose(block) {
    const last = this.launch.blocks - 1;
    this.set({ block: Math.max(0, Math.min(last, block)), sharing: [] });
  },
  chooseLaunch(number) {
    const launch = launches[number];
    this.set({ launch, block: 0, move: 0, shown: launch.shown[0] ?? 0, line: 0, sharing: [] });
  },
  get moves() {
    return this.launch.moves(this.shown);
  },
};

const tip = document.getElementById("tip");

function told(event, ...lines) {
  tip.hidden = false;
  showTip(tip, event, ...lines.filter(Boolean).map((line) => make("div", line)));
}

function untold() {
  tip.hidden = true;
}
