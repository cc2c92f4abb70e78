// What is known of one node, and how a finding is named where it belongs.

function findingTag(place) {
  const each = data.findings[place];
  return make(
    "a",
    { class: `tag ${each.severity}`, href: `#finding-${place + 1}`, title: each.title },
    `#${place + 1} ${gainText(each.gain.kernel ?? each.gain.program, false) || each.severity}`,
  );
}

// All that is known of a node.
function nodeFacts(node) {
  const place = tree.place(node),
    kernel = tree.nodeKernels.get(node);
  const rows = [...tree.metrics.values()]
    .map((metric) => {
      const total = tree.total(metric.name)[node],
        own = metric.own[node];
      if (Number.isNaN(total) || (!total && !own)) return null;
      return make(
        "tr",
        make("th", { scope: "row" }, metric.name.replaceAll("_", " ")),
        make("td.number", format(total, metric.unit)),
        make("td.number.quiet", own && own !== total ? format(own, metric.unit) : ""),
      );
    })
    .filter(Boolean);
  const links = [make("a", { href: `#flame-${node}` }, "In the flame graph")];
  if (kernel !== undefined && data.kernels.unit[kernel] >= 0)
    links.push(
      make("a", { href: `#code-${data.kernels.unit[kernel]}` }, "Source and machine code"),
    );
  return [
    make("h2", tree.name(node)),
    make("p.quiet", [tree.kind(node), tree.phase(node)].filter(Boolean).join(", ")),
    place ? make("p.path.mono", place[1] ? `${place[0]}:${place[1]}` : place[0]) : null,
    make("p.links", links),
    (tree.nodeFindings.get(node) ?? []).map((at) =>
      make("p", findingTag(at), ` ${data.findings[at].title}`),
    ),
    make(
      "table",
      make("thead", make("tr", make("th"), make("th.number", "total"), make("th.number", "self"))),
      make("tbody", rows),
    ),
  ]
    .flat()
    .filter(Boolean);
}
