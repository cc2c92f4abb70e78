// Hardware counters over time: a curve for each, one above the other, read at one time.

const CURVE = 62;

class Curves extends TimeCanvas {
  // `chose(time)` is told the time that is read, null for none.
  constructor(label, held, { chose, zoomed }) {
    super(label, held.begin, held.whole, 200, zoomed);
    Object.assign(this, { held, chose, chosen: null });
    this.tops = held.metrics.map((metric) =>
      metric.unit === "share" ? 1 : Math.max(...metric.values.map((each) => each ?? 0)) || 1,
    );
  }

  height() {
    return this.held.metrics.length * CURVE + 2;
  }
  // Of a time, which value is the one there.
  index(time) {
    const { begin, whole, points } = this.held;
    return Math.max(0, Math.min(points - 1, Math.floor(((time - begin) / whole) * points)));
  }
  // Of a value, when it begins.
  edgeOf(index) {
    return this.held.begin + (index / this.held.points) * this.held.whole;
  }

  draw(pen, color) {
    this.held.metrics.forEach((metric, row) => {
      const y = row * CURVE,
        high = CURVE - 12;
      pen.fillStyle = color("text");
      pen.fillText(fitted(metric.name, this.edge - 12), 0, y + 12);
      pen.fillStyle = color("quiet");
      const told = `mean ${format(metric.mean, metric.unit)}, most ${format(metric.most, metric.unit)}`;
      pen.fillText(fitted(told, this.edge - 12), 0, y + 28);
      pen.fillStyle = color("strong");
      pen.fillRect(this.edge, y + high + 4, this.room, 1);
      this.curve(pen, color, metric.values, this.tops[row], y + 4, high);
    });
    if (this.chosen !== null) {
      pen.fillStyle = color("accent");
      const x = this.x(this.chosen);
      if (x >= this.edge) pen.fillRect(x, 0, 1, this.height());
    }
    this.canvas.dataset.points = this.index(this.to) - this.index(this.from) + 1;
  }

  // Steps, filled below, with gaps where there is nothing.
  curve(pen, color, values, top, y, high) {
    pen.save();
    pen.beginPath();
    pen.rect(this.edge, y, this.room, high);
    pen.clip();
    pen.fillStyle = color("work-0");
    const last = this.index(this.to);
    for (let at = this.index(this.from); at <= last; at += 1) {
      const value = values[at];
      if (value === null) {
        this.hatch(pen, color, this.edgeOf(at), this.edgeOf(at + 1), y, high);
        continue;
      }
      const left = Math.floor(this.x(this.edgeOf(at))),
        right = Math.floor(this.x(this.edgeOf(at + 1))),
        tall = value > 0 ? Math.max((value / top) * high, 1) : 0;
      pen.fillRect(left, y + high - tall, Math.max(right - left, 1), tall);
    }
    pen.restore();
  }

  told(x, y) {
    const row = Math.floor(y / CURVE),
      metric = this.held.metrics[row];
    if (!metric || x < this.edge) return null;
    const value = metric.values[this.index(this.time(x))];
    const when = timeText(this.time(x), this.span / 1000, this.to);
    return [
      make("div.mono", `${metric.name} ${this.text(metric, value)}`),
      make("div.quiet", `at ${when}`),
    ];
  }
  text(metric, value) {
    return value === null ? "not sampled" : format(value, metric.unit);
  }

  choose(x) {
    this.set(x < this.edge ? null : this.time(x));
  }
  set(time) {
    this.chosen = time;
    if (time !== null && (time < this.from || time > this.to)) this.reveal(time, time);
    else this.paint();
    this.chose(time);
  }
  focus() {
    return this.chosen ?? undefined;
  }

  // Arrow keys go from point to point.
  along(key) {
    const at = this.chosen === null ? this.index(this.from) - 1 : this.index(this.chosen);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: this.held.points - 1 }[key];
    if (to === undefined) return false;
    const index = Math.max(0, Math.min(this.held.points - 1, to));
    this.set((this.edgeOf(index) + this.edgeOf(index + 1)) / 2);
    return true;
  }
}
