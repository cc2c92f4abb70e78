// Hardware counters over time, and what each says at the time that is chosen.

const counterTimeline = {
  id: "counters",
  title: "Counters",
  list: (held) => held.series,
  name: (series) => `${series.device}, every ${format(series.interval, "ns")}`,

  draw(view, held, series) {
    view.drawing = new Curves(`Counters of ${series.device}`, series, {
      chose: (time) => view.detail.replaceChildren(this.readings(view, series, time)),
      zoomed: (span) => view.zoomed(span),
    });
    view.detail.replaceChildren(this.readings(view, series, null));
    const each = digits(series.rows / series.points),
      rows = series.rows.toLocaleString("en");
    return [
      series.rows > series.points && `${rows} samples, a point is the mean of ${each}`,
      ...held.notes,
    ];
  },

  // A row for each counter: its value at that time, its highest and its lowest stretch.
  readings(view, series, time) {
    const at = time === null ? null : view.drawing.index(time),
      when = at === null ? "" : `at ${timeText(time, series.whole / 1000, time)}`;
    const value = ({ unit, values }) =>
      at === null ? "" : values[at] === null ? "not sampled" : format(values[at], unit);
    const head = ["counter", when, "highest stretch", "lowest, with work"].map((text) =>
      make("th", { scope: "col" }, text),
    );
    const rows = series.metrics.map((metric) =>
      make(
        "tr",
        make("td.mono", metric.name),
        make("td.number", value(metric)),
        this.stretch(view, metric.highest, metric.unit),
        this.stretch(view, metric.lowest, metric.unit),
      ),
    );
    return make("table.readings", make("thead", make("tr", head)), make("tbody", rows));
  },

  // Its mean, which leads to it, and what ran meanwhile.
  stretch(view, held, unit) {
    if (!held) return make("td");
    const [begin, end, mean, ran] = held,
      go = () => view.drawing.zoom(2 * begin - end, 2 * end - begin);
    return make(
      "td",
      make("button.link", { onclick: go }, format(mean, unit)),
      ran ? ` ${ran}` : "",
    );
  },
};
