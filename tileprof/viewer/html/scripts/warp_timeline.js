// What the warps of a CTA did when, below what was under way asynchronously; colours are sites.

const warpTimeline = {
  id: "cta",
  title: "Warps of a CTA",
  list: (held) => held.ctas,
  name: (cta) => `${cta.launch}: ${cta.name}`,

  draw(view, held, cta) {
    const kernel = held.kernels[cta.kernel],
      { sites } = kernel,
      flights = new Map(cta.flights.map(([bar, ...rest]) => [bar, rest]));
    const look = (bar) => ({ color: sites[bar.what].color, text: sites[bar.what].name }),
      words = (bar) => this.words(kernel, cta, flights.get(bar.at), bar);
    view.bars(this.name(cta), cta, look, words, (bar) => [
      ...words(bar),
      this.line(kernel, sites[bar.what]),
    ]);
    const whole = cta.times.reduce((sum, [, ns]) => sum + ns, 0) || 1;
    for (const [site, ns] of [...cta.times].sort((a, b) => b[1] - a[1]))
      view.legend.append(
        view.key(site, sites[site].color, `${sites[site].path} ${percent(ns / whole)} %`),
      );
    const left = held.left.toLocaleString("en");
    return [joinedText(cta), held.left && `${left} further CTAs are not on this page`];
  },

  words(kernel, cta, flight, bar) {
    const { path } = kernel.sites[bar.what],
      told = [
        make("div.mono", severalText(bar), path, flight ? ", under way" : ""),
        make("div", barTime(bar, rowName(cta, bar.row))),
      ];
    if (!flight) return told;
    const [site, row, waited] = flight,
      by = row >= 0 ? ` of ${cta.rows[row][0]}` : "",
      ns = format(waited, "ns") || "0";
    return [...told, make("div", `until ${kernel.sites[site].path}${by}, which waited ${ns}`)];
  },

  // Where a site is, as a link where the page has that file.
  line(kernel, { at }) {
    if (!at) return "";
    const text = `${short(at[0])}:${at[1]}`;
    if (kernel.unit < 0 || at[2] < 0) return make("div.quiet", text);
    return make("a", { href: `#code-${kernel.unit}-${at[2]}-${at[1]}` }, text);
  },
};
