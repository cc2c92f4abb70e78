// A stretch of time on a canvas that is zoomed and moved in: what bars and curves share.

const AXIS = 22,
  DRAGGED = 4,
  STEPS = [1, 2, 5, 10];

// The least round step of which so many fit, in ns.
function timeStep(length, most) {
  const power = 10 ** Math.floor(Math.log10(Math.max(length / most, 1e-3)));
  return power * STEPS.find((each) => power * each * most >= length * 0.999);
}

// A time in the unit of the greatest beside it, with the digits that its step needs.
function timeText(time, step, greatest) {
  const unit = Math.max(0, Math.min(3, Math.floor(Math.log10(Math.max(greatest, 1)) / 3)));
  const size = 1000 ** unit,
    places = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return `${(time / size).toFixed(places)} ${SCALES.ns[unit]}`;
}

class TimeCanvas {
  // From `begin` on so many ns; names of rows have `edge` pixels. `zoomed` is told new ends.
  constructor(label, begin, whole, edge, zoomed) {
    Object.assign(this, {
      begin,
      end: begin + whole,
      edge,
      zoomed,
      from: begin,
      to: begin + whole,
    });
    this.canvas = make("canvas", { tabindex: 0, role: "img", "aria-label": label });
    this.axis = make("canvas.axis", { "aria-hidden": "true" });
    this.swept = make("div.swept", { hidden: true });
    this.tip = make("div.tip", { hidden: true });
    const body = make("div.drawn", this.canvas, this.swept);
    this.box = make("div.times", this.axis, body, this.tip);
    this.watch = new ResizeObserver(() => this.paint());
    this.watch.observe(this.box);
    this.canvas.addEventListener("mousedown", (event) => this.press(event));
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => this.leave());
    this.canvas.addEventListener("dblclick", () => this.all());
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  get span() {
    return this.to - this.from;
  }
  get room() {
    return Math.max(this.width - this.edge, 1);
  }
  x(time) {
    return this.edge + ((time - this.from) / this.span) * this.room;
  }
  time(x) {
    return this.from + ((x - this.edge) / this.room) * this.span;
  }
  get isWhole() {
    return this.from === this.begin && this.to === this.end;
  }

  // Show what is between two times, as far as there is that much.
  zoom(from, to) {
    const least = Math.min(10, this.end - this.begin),
      wide = Math.min(Math.max(to - from, least), this.end - this.begin);
    const middle = (from + to) / 2;
    this.from = Math.max(this.begin, Math.min(this.end - wide, middle - wide / 2));
    this.to = this.from + wide;
    this.paint();
    this.zoomed(this.isWhole ? null : [Math.floor(this.from), Math.ceil(this.to)]);
  }
  all() {
    this.zoom(this.begin, this.end);
  }
  // So many times as wide, with one time where it is.
  scale(times, about = (this.from + this.to) / 2) {
    this.zoom(about - (about - this.from) * times, about + (this.to - about) * times);
  }
  shift(part) {
    this.zoom(this.from + this.span * part, this.to + this.span * part);
  }
  // Bring a stretch into sight.
  reveal(begin, end) {
    if (end < this.from || begin > this.to || this.x(end) - this.x(begin) < 0.5) {
      const wide = Math.max(Math.min(this.span, Math.max(end - begin, 1) * 50), end - begin);
      this.zoom((begin + end - wide) / 2, (begin + end + wide) / 2);
    } else this.paint();
  }

  paint() {
    this.width = this.box.clientWidth - 32;
    if (this.width <= this.edge) return;
    this.ticks(...penOf(this.axis, this.width, AXIS));
    const height = this.height(),
      [pen, color] = penOf(this.canvas, this.width, height);
    pen.fillStyle = color("line");
    for (const time of this.marks()) pen.fillRect(Math.round(this.x(time)), 0, 1, height);
    this.draw(pen, color);
  }

  get step() {
    return timeStep(this.span, Math.max(1, Math.floor(this.room / 110)));
  }
  marks() {
    const found = [];
    for (let n = Math.ceil(this.from / this.step - 1e-9); n * this.step <= this.to; n += 1)
      found.push(n * this.step);
    return found;
  }
  ticks(pen, color) {
    pen.fillStyle = color("quiet");
    for (const time of this.marks()) {
      const text = timeText(time, this.step, this.to);
      const half = pen.measureText(text).width / 2;
      const x = Math.max(this.edge, Math.min(this.width - 2 * half, this.x(time) - half));
      pen.fillText(text, x, AXIS / 2);
    }
  }

  // Where nothing is known.
  hatch(pen, color, begin, end, y, high) {
    const left = Math.max(this.x(begin), this.edge),
      right = Math.min(this.x(end), this.width);
    if (right <= left) return;
    pen.save();
    pen.beginPath();
    pen.rect(left, y, right - left, high);
    pen.clip();
    pen.strokeStyle = color("strong");
    pen.beginPath();
    for (let x = Math.floor((left - high) / 6) * 6; x < right; x += 6) {
      pen.moveTo(x, y + high);
      pen.lineTo(x + high, y);
    }
    pen.stroke();
    pen.restore();
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  // A press that moves sweeps a stretch to zoom into; one that does not chooses.
  press(event) {
    if (event.button !== 0) return;
    const [start, y] = this.place(event);
    const ends = (moved) => {
      const at = Math.max(this.edge, Math.min(this.width, this.place(moved)[0]));
      const from = Math.max(this.edge, start);
      return [Math.min(from, at), Math.max(from, at)];
    };
    const sweep = (moved) => {
      const [left, right] = ends(moved);
      this.swept.hidden = right - left < DRAGGED;
      Object.assign(this.swept.style, { left: `${left}px`, width: `${right - left}px` });
    };
    const release = (moved) => {
      removeEventListener("mousemove", sweep);
      this.swept.hidden = true;
      const [left, right] = ends(moved);
      if (right - left >= DRAGGED) this.zoom(this.time(left), this.time(right));
      else this.choose(start, y);
    };
    addEventListener("mousemove", sweep);
    addEventListener("mouseup", release, { once: true });
  }

  hover(event) {
    const told = this.told(...this.place(event));
    this.tip.hidden = !told;
    if (told) showTip(this.tip, event, ...told);
  }
  leave() {
    this.tip.hidden = true;
  }

  wheel(event) {
    if (event.ctrlKey || event.metaKey)
      this.scale(1.25 ** Math.sign(event.deltaY), this.time(this.place(event)[0]));
    else if (event.shiftKey || event.deltaX)
      this.shift(0.15 * Math.sign(event.deltaX || event.deltaY));
    else return;
    event.preventDefault();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") this.scale(0.5, this.focus());
    else if (event.key === "-") this.scale(2, this.focus());
    else if (event.key === "<") this.shift(-0.25);
    else if (event.key === ">") this.shift(0.25);
    else if (event.key === "Escape") this.all();
    else if (!this.along(event.key)) return;
    event.preventDefault();
  }
}
