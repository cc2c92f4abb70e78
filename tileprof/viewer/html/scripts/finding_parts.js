// What stands in the findings' view: the inside of a finding, runs to come.

const findingParts = {
  inside(each, place) {
    const told = (name, tiers) => {
      const facts = each.evidence.filter((fact) => tiers(fact[0]));
      return facts.length
        ? [
            make("h3", name),
            make(
              "dl.evidence",
              facts.flatMap(([tier, text, samples]) => [
                make("dt", make("span.chip", tier)),
                make(
                  "dd",
                  commands(text),
                  samples ? make("span.quiet", ` (${format(samples, "1")} samples)`) : null,
                ),
              ]),
            ),
          ]
        : [];
    };
    const { kernel, program } = each.gain;
    const gains = [
      kernel && `the kernel ${gainText(kernel)} as fast`,
      program && `the program ${gainText(program)}`,
    ]
      .filter(Boolean)
      .join(", ");
    const left = make(
      "div",
      told("Known without running", (tier) => tier === "static"),
      told("Measured", (tier) => tier !== "static"),
      each.author ? [make("h3", "Advice"), make("p", commands(each.author))] : null,
      each.compiler
        ? [make("h3", "To the compiler's developers"), make("p", commands(each.compiler))]
        : null,
      make("h3", "Gain"),
      make("p", gains || "unknown: no measurement bounds it"),
      make("p.quiet", `confidence ${each.confidence}; rule `, make("code", each.rule)),
    );
    return [left, make("div", this.placeOf(each), this.links(each, place))];
  },

  placeOf(each) {
    const op = each.op ? [make("span.quiet", " in "), make("code", each.op)] : [];
    const line = each.at ? `${each.at[0]}:${each.at[1]}` : each.kernel;
    return [
      make("h3", "Place"),
      make("p", make("code", line), op),
      each.path.length ? make("p.path", each.path.join(" › ")) : null,
      each.at && each.at[2] >= 0 ? excerpt(each) : null,
    ];
  },

  links(each, place) {
    const code = each.unit >= 0 || (each.at && each.at[2] >= 0);
    return make(
      "p.links",
      code ? make("a", { href: codeLink(each) }, each.unit >= 0 ? "Source and machine code" : "Source") : null,
      each.node >= 0 ? make("a", { href: `#node-${each.node}` }, "In the call tree") : null,
      make("a", { href: `#finding-${place + 1}` }, "Link to this finding"),
    );
  },

  // What the words beside facts mean, and those of severities.
  legend() {
    const seen = new Set(data.findings.map((each) => each.severity));
    const row = (chip, meaning) => [make("dt", chip), make("dd", meaning)];
    return make(
      "section.meanings",
      make("h3", "Evidence"),
      make(
        "dl.evidence",
        data.header.tiers.flatMap(([name, on, meaning]) =>
          row(
            make("span", { class: `chip ${on ? "on" : "off"}` }, name),
            on ? meaning : `${meaning} (not recorded)`,
          ),
        ),
        SEVERITIES.filter((name) => seen.has(name)).flatMap((name) =>
          row(make("span", { class: `severity ${name}` }, name), MEANING[name]),
        ),
      ),
    );
  },

  // What the profile has not, and the runs that would add it.
  runs() {
    if (!data.runs.length) return make("div");
    return make(
      "section.runs",
      make("h3", "To know more"),
      make(
        "ul",
        data.runs.map(([tier, run, rules]) =>
          make(
            "li",
            make("span.chip.off", tier),
            " ",
            commands(run),
            rules.length ? make("span.quiet", ` – would confirm: ${rules.join(", ")}`) : null,
          ),
        ),
      ),
    );
  },
};

// Words, with what stands between backquotes as code.
function commands(text) {
  return text.split("`").map((part, place) => (place % 2 ? make("code", part) : part));
}
