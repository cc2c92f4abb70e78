// The account above the findings: where the devices' time goes, idle time, what the kernels take.

const MOST_ACCOUNTED = 5;
const LEAST_LABELLED = 0.12;
const LEAST_NAMED = 0.0005;
const LIMITS = {
  memory: "moving its bytes at the memory's measured rate takes the floor's time",
  arithmetic: "doing its operations at the measured rate of their type takes the floor's time",
  launch: "launching it takes the floor's time",
  "": "what it moves and computes, or the device's rate, is not known",
};

// The section, or nothing where no device was timed.
function accountOf(held) {
  if (!held) return make("div");
  return make(
    "section.account",
    { "aria-label": "Where the devices' time goes" },
    held.headline.map((each) => make("p.headline", each)),
    make("p", "Devices' time in steps: ", make("b", format(held.time, "ns"))),
    accountBar(held),
    accountLegend(held),
    held.notes.map((each) => make("p.quiet", commands(each))),
    idleByReason(held),
    accountedKernels(held),
  );
}

// All of the time as one bar; of the causes, each leads to its finding.
function accountBar(held) {
  const said = held.parts
    .filter(([, , , time]) => time > 0)
    .map(([, name, , time]) => `${name} ${percent(time / held.time)} %`);
  const strip = make("div.strip", { role: "group", "aria-label": said.join(", ") });
  const part = (selector, kind, title, time, attributes = {}) => {
    const share = time / held.time,
      label = share >= LEAST_LABELLED ? `${percent(share)} %` : "",
      words = `${title}: ${percent(share)} %, ${format(time, "ns")}`,
      each = make(`${selector}.of-${kind}`, { title: words, ...attributes }, label);
    each.style.width = `${share * 100}%`;
    if (attributes.href) each.setAttribute("aria-label", words);
    strip.append(each);
  };
  for (const [kind, name, , time] of held.parts) {
    if (kind !== "causes") part("span", kind, name, time);
    else
      for (const [saved, place] of held.causes)
        if (saved > 0)
          part("a", kind, data.findings[place].title, saved, { href: `#finding-${place + 1}` });
  }
  return strip;
}

function accountLegend(held) {
  return make(
    "ul.legend",
    held.parts
      .filter(([, , , time]) => time >= LEAST_NAMED * held.time)
      .map(([kind, name, meaning, time]) =>
        make(
          "li",
          { title: meaning },
          make(`i.swatch.of-${kind}`),
          `${name} `,
          make("b", `${percent(time / held.time)} %`),
          make("span.quiet", ` ${format(time, "ns")}`),
        ),
      ),
  );
}

function idleByReason(held) {
  const named = held.idle.filter(([, time]) => time >= LEAST_NAMED * held.time),
    whole = held.idle.reduce((sum, [, time]) => sum + time, 0);
  if (!named.length) return null;
  return [
    make("h3", `Idle, a part of the above: ${percent(whole / held.time)} %`),
    make(
      "div.reasons.idle",
      named.flatMap(([reason, time]) => [
        make("span", reason),
        bar(time / whole),
        make("b.number", `${percent(time / held.time)} %`),
        make("span.number.quiet", format(time, "ns")),
      ]),
    ),
  ];
}

// A row for each of the longest kernels; all of them when that is asked for.
function accountedKernels(held) {
  const columns = held.kernels,
    count = columns.kernel.length,
    number = (value) => make("td.number", value === null ? "not known" : format(value, "ns"));
  if (!count) return null;
  const row = (place) =>
    make(
      "tr",
      make("td", kernelsView.link(columns.kernel[place])),
      number(columns.time[place]),
      number(columns.floor[place]),
      number(columns.named[place]),
      number(columns.shortfalls[place]),
      number(columns.unexplained[place]),
      make("td.quiet", { title: LIMITS[columns.limit[place]] }, columns.limit[place] || "–"),
      make("td.parts", { "aria-hidden": "true" }, kernelBar(columns, place)),
    );
  const rows = (end) => Array.from({ length: end }, (_, place) => row(place));
  const body = make("tbody", rows(Math.min(MOST_ACCOUNTED, count)));
  const more = make(
    "button.plain",
    {
      hidden: count <= MOST_ACCOUNTED,
      onclick: () => {
        body.replaceChildren(...rows(count));
        more.hidden = true;
      },
    },
    `Show all ${count.toLocaleString("en")} kernels`,
  );
  const heads = ["time", "floor", "named causes", "known limits", "unexplained"];
  return [
    make("h3", "Kernels in steps"),
    make(
      "table.table",
      make(
        "thead",
        make(
          "tr",
          make("th", { scope: "col" }, "kernel"),
          heads.map((name) => make("th.number", { scope: "col" }, name)),
          make("th", { scope: "col", title: "what sets the floor" }, "limit"),
          make("th.parts", { "aria-hidden": "true" }),
        ),
      ),
      body,
    ),
    more,
  ];
}

// The parts of a kernel's time, as long as it is beside the longest one.
function kernelBar(columns, place) {
  const strip = make("div.strip");
  for (const [kind, values] of [
    ["floor", columns.floor],
    ["causes", columns.named],
    ["shortfalls", columns.shortfalls],
    ["unexplained", columns.unexplained],
  ]) {
    const part = make(`span.of-${kind}`);
    part.style.width = `${((values[place] ?? 0) / columns.time[0]) * 100}%`;
    strip.append(part);
  }
  return strip;
}
