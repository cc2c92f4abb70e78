// A ring of slots as the target runs it: who fills, who reads, who waits for whom on which barrier.
//
// The order follows from the waits alone. Lengths are not times: a load is drawn as LOAD units, work
// on a slot as WORK, whatever they take on a GPU.

const LOAD = 3;
const WORK = 2;
const UNIT = 17;
const LANE = 22;
const BAR = 16;
// Under the bars of a slot stand the phases that its barriers complete.
const PHASES = 11;
const LANE_NAMES = 92;
const SHOWN_UNITS = 39;

// When each iteration's copies start and have landed, its work starts and ends, its slot is free.
function schedule(held, count) {
  const { slots, lag, ahead, kind } = held,
    issue = [],
    full = [],
    start = [],
    end = [],
    free = [];
  const copy = (n, at) => {
    issue[n] = at;
    full[n] = at + LOAD;
  };
  if (kind === "cp.async") {
    for (let n = 0; n < Math.min(ahead, count); n += 1) copy(n, n);
    let now = Math.min(ahead, count);
    for (let n = 0; n < count; n += 1) {
      now = Math.max(now, full[n]);
      if (n + ahead < count) copy(n + ahead, now);
      start[n] = now + 1;
      now = end[n] = free[n] = start[n] + WORK;
    }
    return { issue, full, start, end, free };
  }
  for (let n = 0; n < count; n += 1) {
    const before = n ? issue[n - 1] + 1 : 0,
      behind = n - slots;
    copy(n, behind < 0 ? before : Math.max(before, free[behind]));
    start[n] = Math.max(n ? end[n - 1] : 0, full[n]);
    end[n] = start[n] + WORK;
    free[n] = end[n];
    // With a lag the slot before is freed once this one's product has started.
    if (lag && n) free[n - 1] = Math.max(end[n - 1], start[n] + 1);
  }
  return { issue, full, start, end, free };
}

class PipelineMap {
  constructor(launch, held) {
    this.launch = launch;
    this.held = held;
    this.mbarrier = held.kind === "mbarrier";
    this.canvas = make("canvas", { role: "img", "aria-label": "Slots and barriers in order" });
    this.canvas.addEventListener("click", (event) => this.click(event));
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", untold);
    this.told = make("ol.waits");
    this.card = make(
      "section.card.wide.pipeline",
      make("h2", `Slots and ${this.mbarrier ? "barriers" : "groups"} of ${held.buffers.join(", ")}`),
      make("p.key", this.about()),
      make("div.ring", this.canvas),
      this.legend(),
      this.told,
    );
  }

  about() {
    const { slots, ahead, arrivals } = this.held,
      target = this.launch.kernel.target;
    if (!this.mbarrier)
      return (
        `On ${target} all threads copy with cp.async, ${plural(ahead, "iteration")} ahead, into ${plural(slots, "slot")}. ` +
        "The copies of an iteration are a group; a thread waits for its own groups in order, and a barrier makes those of all threads visible."
      );
    return (
      `On ${target} one thread of a producer warp group starts the copies (TMA), ${plural(arrivals, "consumer warp")} work on what has landed, ` +
      `in ${plural(slots, "slot")}. Each slot has two barriers: full (the bytes are there) and empty (it may be filled again). ` +
      "A barrier's phase, 0 or 1, changes each time it completes, so that nobody mistakes one use of a slot for the next."
    );
  }

  legend() {
    const item = (kind, text) => make("li", make("span", { class: `swatch ${kind}` }), text);
    return make(
      "ul.legend",
      item("of-landing", "bytes on their way"),
      item("of-held", "full, waits to be read"),
      item("of-read", "read by the work of an iteration"),
      item("of-written", this.mbarrier ? "producer starts copies" : "copies started"),
      item("of-waiting", "waits"),
      make("li", "numbers are iterations; arrows: what the marked iteration waits for, and what waits for it"),
      this.mbarrier ? make("li", "full 0, empty 0: the barrier of the slot completes this phase") : "",
      make("li", "order by the waits alone: lengths are not times"),
    );
  }

  // Iterations of the block that is shown.
  count(moves) {
    let last = -1;
    for (const move of moves)
      for (const step of move)
        if (this.held.buffers.includes(step.site.buffer)) last = Math.max(last, step.trip);
    return last + 1;
  }

  paint(moves, place) {
    const count = this.count(moves),
      here = moves[place]?.[0].trip ?? -1;
    this.at = Math.max(0, Math.min(count - 1, here));
    this.card.hidden = count === 0;
    if (!count) return;
    if (this.counted !== count) {
      this.counted = count;
      this.times = schedule(this.held, count);
    }
    this.draw(count);
    this.tell(count);
  }

  draw(count) {
    const { slots } = this.held,
      { issue, full, start, end, free } = this.times,
      total = free[count - 1] + 1,
      n = this.at;
    this.first = Math.max(0, Math.min(total - SHOWN_UNITS, issue[n] - 14));
    const shown = Math.min(SHOWN_UNITS, total - this.first),
      below = this.mbarrier ? PHASES : 0,
      height = (slots + 2) * LANE + slots * below + 14;
    this.width = LANE_NAMES + shown * UNIT + 26;
    const [pen, color] = penOf(this.canvas, this.width, height);
    const x = (time) => LANE_NAMES + (Math.max(0, Math.min(shown, time - this.first))) * UNIT,
      y = (lane) => 7 + lane * LANE + Math.max(0, lane - 1) * below;
    this.boxes = [];
    const label = (lane, text) => {
      pen.textAlign = "left";
      pen.fillStyle = color("quiet");
      pen.fillText(fitted(text, LANE_NAMES - 8), 0, y(lane) + BAR / 2);
    };
    const box = (lane, from, to, name, trip, what, faint) => {
      const [left, right] = [x(from), x(to)];
      if (right <= left) return;
      pen.globalAlpha = faint ? 0.4 : 1;
      pen.fillStyle = color(name);
      pen.fillRect(left + 0.5, y(lane), right - left - 1, BAR);
      pen.globalAlpha = 1;
      this.boxes.push([left, right, y(lane), y(lane) + BAR, trip, what]);
      if (trip === n) {
        pen.strokeStyle = color("text");
        pen.strokeRect(left + 1, y(lane) + 0.5, right - left - 2, BAR - 1);
      }
    };
    const number = (lane, from, to, trip) => {
      if (x(to) - x(from) < 9) return;
      pen.textAlign = "center";
      pen.fillStyle = color("text");
      pen.fillText(String(trip), (x(from) + x(to)) / 2, y(lane) + BAR / 2);
    };
    const phase = (lane, time, text) => {
      if (time < this.first || time > this.first + shown) return;
      const at = x(time);
      pen.fillStyle = color("quiet");
      pen.fillRect(at - 0.5, y(lane) + BAR, 1, 4);
      pen.textAlign = "left";
      pen.save();
      pen.font = pen.font.replace(/[\d.]+px/, "9px");
      pen.fillText(text, at + 2, y(lane) + BAR + 8);
      pen.restore();
    };
    const waiting = (lane, from, to, trip, what) => {
      const [left, right] = [x(from), x(to)];
      if (right <= left) return;
      pen.strokeStyle = color("quiet");
      pen.beginPath();
      for (let at = left + 3; at < right; at += 4) {
        pen.moveTo(at, y(lane) + BAR - 2);
        pen.lineTo(Math.min(at + 4, right), y(lane) + 2);
      }
      pen.stroke();
      this.boxes.push([left, right, y(lane), y(lane) + BAR, trip, what]);
    };
    label(0, this.mbarrier ? "producer" : "all: copies");
    for (let slot = 0; slot < slots; slot += 1) label(slot + 1, `slot ${slot}`);
    label(slots + 1, this.mbarrier ? "consumers" : "all: work");
    for (let trip = 0; trip < count; trip += 1) {
      if (free[trip] < this.first || issue[trip] > this.first + shown) continue;
      const lane = 1 + (trip % slots),
        use = Math.floor(trip / slots) % 2;
      const before = trip ? issue[trip - 1] + 1 : 0;
      if (this.mbarrier && issue[trip] > before)
        waiting(0, before, issue[trip], trip, `producer waits until slot ${trip % slots} is empty`);
      box(0, issue[trip], issue[trip] + 1, "write", trip, `copies of iteration ${trip} are started`);
      number(0, issue[trip], issue[trip] + 1, trip);
      box(lane, issue[trip], full[trip], "held", trip, `iteration ${trip}: bytes on their way`, true);
      box(lane, full[trip], start[trip], "held", trip, `iteration ${trip}: full, not read yet`);
      box(lane, start[trip], free[trip], "read", trip, `iteration ${trip}: read; full has completed phase ${use}`);
      number(lane, start[trip], free[trip], trip);
      if (this.mbarrier) {
        phase(lane, full[trip], `full ${use}`);
        phase(lane, free[trip], `empty ${use}`);
      }
      const idle = trip ? end[trip - 1] : 0;
      const from = this.mbarrier ? start[trip] : start[trip] - 1;
      if (from > idle) waiting(slots + 1, idle, from, trip, `waits until iteration ${trip} has landed`);
      box(slots + 1, start[trip], end[trip], "read", trip, `work of iteration ${trip}`);
      number(slots + 1, start[trip], end[trip], trip);
    }
    const arrow = (time, from, to, until) => {
      if (time < this.first || time > this.first + shown) return;
      const [left, right] = [x(time), x(until)],
        top = y(from) + (from < to ? BAR : 0),
        tip = y(to) + (from < to ? 0 : BAR),
        way = Math.sign(tip - top) || 1;
      pen.strokeStyle = pen.fillStyle = color("text");
      pen.beginPath();
      pen.moveTo(left, top);
      pen.lineTo(right, tip - 3 * way);
      pen.stroke();
      pen.beginPath();
      pen.moveTo(right, tip);
      pen.lineTo(right - 3.5, tip - 6 * way);
      pen.lineTo(right + 3.5, tip - 6 * way);
      pen.fill();
    };
    const lane = 1 + (n % slots);
    arrow(full[n], lane, slots + 1, start[n]);
    if (this.mbarrier && n + slots < count) arrow(free[n], lane, 0, issue[n + slots]);
    if (this.mbarrier && n >= slots) arrow(free[n - slots], lane, 0, issue[n]);
  }

  // What the marked iteration waits for, in the order in which it happens.
  tell(count) {
    const n = this.at,
      { slots, fills, reads, bytes, arrivals, lag, pending, cluster, persistent } = this.held,
      slot = n % slots,
      use = Math.floor(n / slots),
      phase = use % 2;
    const uses = (list) =>
      [...new Set(list.map(([op, line, buffer]) => `${op.replace("async_", "")} ${buffer} (line ${line})`))].join(", ");
    const next = n + slots < count ? `iteration ${n + slots}` : "no later iteration of this loop";
    const lines = this.mbarrier
      ? [
          use
            ? `The producer waits for empty[${slot}] to complete phase ${(use - 1) % 2}: the consumers are done with iteration ${n - slots}.`
            : `The producer finds slot ${slot} empty: nobody used it before.`,
          `It tells full[${slot}] to expect ${format(bytes, "bytes")}${cluster > 1 ? ` (${cluster} blocks of a cluster fill it together)` : ""} and starts ${uses(fills)}. It does not wait for them.`,
          `The consumers wait for full[${slot}] to complete phase ${phase}: all bytes have landed.`,
          `They work on the slot: ${uses(reads)}.`,
          `One lane of each of ${plural(arrivals, "warp")} arrives at empty[${slot}]${lag ? " an iteration later, because the product still runs until then" : ""}, which completes its phase ${phase}. The slot is for ${next}.`,
        ]
      : [
          `All threads start ${uses(fills)} into slot ${slot} and close the group.`,
          `Before the work of iteration ${n} each thread waits until ${pending ? `at most ${plural(pending, "later group")} of its own ${pending === 1 ? "is" : "are"}` : "none of its groups is"} under way: its part of iteration ${n} has landed.`,
          "A barrier of all threads: everybody's part has landed, and everybody is done with the iteration before, whose slot may be filled again.",
          `They work on the slot: ${uses(reads)}. It is for ${next}.`,
        ];
    this.told.replaceChildren(
      make("b", `Iteration ${n}: slot ${slot}, its ${ordinal(use + 1)} use`),
      ...lines.map((text) => make("li", text)),
      persistent
        ? make("p.key", "A persistent block goes on with the next slot at its next tile; slots and phases here are those of its first tile.")
        : "",
    );
  }

  found(event) {
    const area = this.canvas.getBoundingClientRect(),
      across = event.clientX - area.left,
      down = event.clientY - area.top;
    return this.boxes?.findLast(([l, r, t, b]) => across >= l && across < r && down >= t && down < b);
  }

  hover(event) {
    const box = this.found(event);
    if (box) told(event, box[5]);
    else untold();
  }

  click(event) {
    const box = this.found(event);
    if (!box) return;
    const move = state.moves.findIndex((each) => each[0].trip === box[4]);
    if (move >= 0) state.set({ move });
  }
}

function ordinal(number) {
  const ends = { 1: "st", 2: "nd", 3: "rd" },
    teen = number % 100 > 10 && number % 100 < 14;
  return `${number}${teen ? "th" : (ends[number % 10] ?? "th")}`;
}

// The rings of a launch: those that its own lines fill.
function pipelineMaps(launch) {
  const own = new Set(launch.sites.map((site) => `${site.line} ${site.buffer}`));
  return launch.kernel.pipelines
    .filter((held) => held.fills.some(([, line, buffer]) => own.has(`${line} ${buffer}`)))
    .map((held) => new PipelineMap(launch, held));
}
