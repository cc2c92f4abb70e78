// A long list of rows of one height, of which only those in sight are in the document.

const AROUND = 10;

class Rows {
  // `draw(index)` makes the element of a row; `label` names the list to those who cannot see it.
  constructor(name, label, role, height, draw) {
    this.height = height;
    this.draw = draw;
    this.count = 0;
    this.all = make("div.all", { role: "presentation" });
    this.box = make(
      "div",
      { class: `rows ${name}`, role, tabindex: 0, "aria-label": label },
      this.all,
    );
    this.box.addEventListener("scroll", () => this.later());
    new ResizeObserver(() => this.later()).observe(this.box);
  }

  // There are so many rows now.
  set(count) {
    this.count = count;
    this.all.style.height = `${count * this.height}px`;
    this.refresh();
  }

  later() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.refresh();
    });
  }

  refresh() {
    const seen = Math.ceil((this.box.clientHeight || 600) / this.height);
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.height) - AROUND);
    const last = Math.min(this.count, first + seen + 2 * AROUND);
    const made = [];
    for (let index = first; index < last; index += 1) {
      const row = this.draw(index);
      row.classList.add("row");
      row.style.top = `${index * this.height}px`;
      made.push(row);
    }
    this.all.replaceChildren(...made);
  }

  // Bring a row into sight; into the middle if it was out of it.
  show(index) {
    const top = index * this.height,
      box = this.box;
    if (top < box.scrollTop || top + this.height > box.scrollTop + box.clientHeight)
      box.scrollTop = top - (box.clientHeight - this.height) / 2;
    this.refresh();
  }

  // How many rows are in sight.
  get page() {
    return Math.max(1, Math.floor(this.box.clientHeight / this.height) - 1);
  }
}

// Where a key moves a choice in a list of so many; null for other keys.
function moved(key, at, count, page) {
  const to = {
    ArrowDown: at + 1,
    ArrowUp: at - 1,
    PageDown: at + page,
    PageUp: at - page,
    Home: 0,
    End: count - 1,
  }[key];
  return to === undefined || !count ? null : Math.max(0, Math.min(count - 1, to));
}
