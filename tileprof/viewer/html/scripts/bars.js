// Rows of bars over time: what each warp, thread or stream did when.

const BAR = 18,
  NAMED = 14,
  FLIGHT = 8;

// The columns of a page as one record for each bar; `rows` are [name, thin, unknown stretches].
function barsOf(held) {
  const many = new Map(held.many.map(([at, count, busy]) => [at, { count, busy }])),
    bars = [];
  let at = 0;
  held.counts.forEach((count, row) => {
    let now = 0;
    for (const end = at + count; at < end; at += 1) {
      const begin = now + held.gap[at];
      now = begin + held.length[at];
      bars.push({ at, row, begin, end: now, what: held.what[at], many: many.get(at) });
    }
  });
  return bars;
}

class Bars extends TimeCanvas {
  // `look(bar)`: its colour and text; `words(bar)`: elements that tell of it; `chose(bar)` is told.
  constructor(label, held, { look, words, chose, zoomed }) {
    super(label, held.begin ?? 0, held.whole, 200, zoomed);
    Object.assign(this, { held, look, words, chose, chosen: null, only: null, links: new Map() });
    this.bars = barsOf(held);
    this.rows = held.rows.map(() => []);
    for (const bar of this.bars) this.rows[bar.row].push(bar);
    this.tops = [];
    let top = 0;
    held.rows.forEach((_, row) => {
      this.tops.push(top);
      top += this.tall(row);
    });
    this.bottom = top;
    for (const [to, by] of held.launches ?? []) this.links.set(to, by);
  }

  height() {
    return this.bottom + 2;
  }
  tall(row) {
    const [name, thin] = this.held.rows[row];
    return !thin ? BAR : name ? NAMED : FLIGHT;
  }

  draw(pen, color) {
    let drawn = 0;
    this.held.rows.forEach(([name, thin, unknown], row) => {
      const y = this.tops[row],
        high = this.tall(row);
      pen.fillStyle = color("quiet");
      pen.fillText(fitted(name, this.edge - 12), 0, y + high / 2);
      for (const [begin, end] of unknown) this.hatch(pen, color, begin, end, y, high - 2);
      pen.save();
      pen.beginPath();
      pen.rect(this.edge, y, this.room, high);
      pen.clip();
      for (const bar of this.rows[row])
        if (bar.end >= this.from && bar.begin <= this.to) {
          if (thin) this.bar(pen, color, bar, y + (high - FLIGHT) / 2, FLIGHT - 2, thin);
          else this.bar(pen, color, bar, y, high - 2, thin);
          drawn += 1;
        }
      pen.restore();
    });
    if (this.chosen) this.arrow(pen, color);
    this.canvas.dataset.bars = drawn;
  }

  bar(pen, color, bar, y, high, thin) {
    const { color: name, text } = this.look(bar),
      x = this.x(bar.begin),
      wide = Math.max(this.x(bar.end) - x - 0.5, 0.75);
    const full = bar.many ? 0.3 + (0.7 * bar.many.busy) / Math.max(bar.end - bar.begin, 1) : 1;
    pen.globalAlpha =
      this.only !== null && this.only !== bar.what ? 0.15 : Math.min(full, 1) * (thin ? 0.75 : 1);
    pen.fillStyle = color(name) || color("frame");
    pen.fillRect(x, y, wide, high);
    if (bar.many && wide > 3) {
      pen.fillStyle = color("panel");
      pen.fillRect(x, y + high / 2 - 1, wide, 2);
    }
    const left = Math.max(x, this.edge),
      shown = thin || bar.many ? "" : fitted(text, x + wide - left - 8);
    if (shown) {
      pen.fillStyle = color("ink");
      pen.fillText(shown, left + 4, y + high / 2 + 0.5);
    }
    if (bar === this.chosen) {
      pen.globalAlpha = 1;
      pen.strokeStyle = color("accent");
      pen.lineWidth = 2;
      pen.strokeRect(x, y + 1, Math.max(wide, 2), high - 2);
    }
    pen.globalAlpha = 1;
  }

  // From the call that launched what is chosen.
  arrow(pen, color) {
    const by = this.bars[this.links.get(this.chosen.at)];
    if (!by) return;
    pen.strokeStyle = color("accent");
    pen.lineWidth = 1;
    pen.save();
    pen.beginPath();
    pen.rect(this.edge, 0, this.room, this.bottom);
    pen.clip();
    pen.beginPath();
    pen.moveTo(this.x(by.begin), this.tops[by.row] + this.tall(by.row) / 2);
    pen.lineTo(this.x(this.chosen.begin), this.tops[this.chosen.row] + BAR / 2);
    pen.stroke();
    pen.restore();
  }

  // The bar at a place, or the next one within two pixels.
  at(x, y) {
    const row = this.tops.findLastIndex((top) => top <= y);
    if (row < 0 || y > this.bottom || x < this.edge) return null;
    const away = (bar) => Math.max(this.x(bar.begin) - x, x - this.x(bar.end), 0);
    let best = null;
    for (const bar of this.rows[row])
      if (away(bar) <= 2 && (!best || away(bar) < away(best))) best = bar;
    return best;
  }
  told(x, y) {
    const bar = this.at(x, y);
    return bar && this.words(bar);
  }
  choose(x, y) {
    this.set(this.at(x, y));
  }

  set(bar) {
    this.chosen = bar;
    if (bar) {
      const box = this.box,
        top = this.tops[bar.row];
      if (top < box.scrollTop || top + AXIS + BAR > box.scrollTop + box.clientHeight)
        box.scrollTop = top - box.clientHeight / 2;
      this.reveal(bar.begin, bar.end);
    } else this.paint();
    this.chose(bar);
  }

  focus() {
    return this.chosen ? (this.chosen.begin + this.chosen.end) / 2 : undefined;
  }

  // Keys go from bar to bar: along a row, or to what is at the same time in another one.
  along(key) {
    const now = this.chosen,
      first = this.rows.find((row) => row.length);
    if (key === "Enter" && now) {
      const beside = Math.max((now.end - now.begin) * 0.1, 1);
      this.zoom(now.begin - beside, now.end + beside);
      return true;
    }
    if (!first || !/^(Arrow|Home|End)/.test(key)) return false;
    if (!now) {
      this.set(first[0]);
      return true;
    }
    const row = this.rows[now.row],
      at = row.indexOf(now);
    const place = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: row.length - 1 }[key];
    const to = place === undefined ? this.beside(now, key === "ArrowDown" ? 1 : -1) : row[place];
    if (to) this.set(to);
    return true;
  }

  beside(bar, step) {
    const middle = (bar.begin + bar.end) / 2;
    const away = (each) => Math.max(each.begin - middle, middle - each.end, 0);
    for (let row = bar.row + step; row in this.rows; row += step)
      if (this.rows[row].length)
        return this.rows[row].reduce((best, each) => (away(each) < away(best) ? each : best));
    return null;
  }
}
