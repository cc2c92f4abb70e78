// The page: its head, one panel for each view, links to places in them, the search.

const VIEWS = [
  findingsView,
  treeView,
  flameView,
  ...(data.kernels.name?.length ? [kernelsView] : []),
  ...(TIMELINES.length ? [timelinesView] : []),
  codeView,
];

function head() {
  const held = data.header,
    facts = document.getElementById("facts");
  // A program that ran on the host alone has none of it, which the marks of evidence say.
  const onDevices = held.launches > 0 || held.device_time > 0 || !held.host_time;
  document.getElementById("command").textContent = held.command;
  document.getElementById("command").title = held.command;
  const fact = (name, value) => make("span", make("span.quiet", `${name} `), make("b", value));
  facts.append(
    ...held.devices.map((each) =>
      make("span", { title: each }, each.split(",").slice(0, 4).join(",")),
    ),
    ...(onDevices
      ? [
          fact("device time", format(held.device_time, "ns") || "none"),
          fact("in kernels", format(held.kernel_time, "ns") || "none"),
        ]
      : []),
    held.host_time ? fact("host time", format(held.host_time, "ns")) : "",
    onDevices ? fact("launches", format(held.launches, "1")) : "",
    ...held.told.map(([name, value]) => make("span.quiet", `${name} ${value}`)),
    make(
      "span.tiers",
      held.tiers.map(([name, on, meaning]) =>
        make(
          "span",
          {
            class: `chip ${on ? "on" : "off"}`,
            title: `${on ? "recorded" : "not recorded"}: ${meaning}`,
            "aria-label": `${name}: ${on ? "recorded" : "not recorded"}`,
          },
          name,
        ),
      ),
    ),
  );
}

function panels() {
  const tabs = document.getElementById("tabs"),
    main = document.getElementById("main");
  for (const view of VIEWS) {
    view.tab_ = make(
      "a",
      {
        role: "tab",
        id: `tab-${view.id}`,
        href: `#${view.id}`,
        "aria-controls": `panel-${view.id}`,
        "aria-selected": "false",
      },
      view.title,
      view.number === undefined ? null : ` ${view.number}`,
    );
    view.panel = make("section.panel", {
      id: `panel-${view.id}`,
      role: "tabpanel",
      "aria-labelledby": `tab-${view.id}`,
      hidden: true,
    });
    tabs.append(view.tab_);
    main.append(view.panel);
  }
  tabs.addEventListener("keydown", (event) => {
    const at = VIEWS.findIndex((view) => view.tab_ === document.activeElement);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step && at >= 0) VIEWS[(at + step + VIEWS.length) % VIEWS.length].tab_.focus();
  });
}

// A view is built when it is first seen.
function open(view, ...place) {
  for (const each of VIEWS) {
    each.panel.hidden = each !== view;
    each.tab_.setAttribute("aria-selected", String(each === view));
  }
  if (!view.built) {
    view.built = true;
    view.build(view.panel);
  }
  view.show(...place);
}

// `#finding-3`, `#node-12`, `#code-2-0-18`, `#tree`, `#timelines/cta/3`: what the address asks for.
function route() {
  const [, name = "findings", rest = ""] = /^#([a-z]+)(.*)$/.exec(location.hash) ?? [];
  const numbers = (rest.match(/-(-?\d+)/g) ?? []).map((each) => Number(each.slice(1)));
  const parts = rest.startsWith("/") ? rest.slice(1).split("/") : numbers;
  const view =
    { finding: findingsView, node: treeView }[name] ??
    VIEWS.find((each) => each.id === name) ??
    findingsView;
  open(view, ...(view === timelinesView ? parts : numbers));
}

// -- search: what is found is marked in the tree and the flame graph; Enter goes on

const search = { found: [], at: -1 };

function find(text) {
  search.found = tree.search(text);
  search.at = -1;
  chosen.matches = new Set(search.found);
  const output = document.getElementById("matches");
  output.textContent = text.trim() ? `${search.found.length.toLocaleString("en")} found` : "";
  if (treeView.built) treeView.list.refresh();
  if (flameView.built) flameView.paint();
}

function next(step) {
  if (!search.found.length) return;
  search.at = (search.at + step + search.found.length) % search.found.length;
  const input = document.getElementById("search");
  if (treeView.panel.hidden && flameView.panel.hidden) {
    history.pushState(null, "", "#tree");
    open(treeView);
  }
  chosen.set(search.found[search.at]);
  if (!treeView.panel.hidden) treeView.list.refresh();
  document.getElementById("matches").textContent =
    `${search.at + 1} of ${search.found.length.toLocaleString("en")}`;
  input.focus();
}

function searching() {
  const input = document.getElementById("search");
  input.addEventListener("input", () => find(input.value));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      input.value = "";
      find("");
    } else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.matches("input, select")) return;
    event.preventDefault();
    input.focus();
  });
}

// On paper, findings are open, and colours are the light ones.
function printing() {
  addEventListener("beforeprint", () => {
    if (!findingsView.panel.hidden)
      data.findings.forEach((_, place) => findingsView.open(place, true));
    document.documentElement.dataset.theme = "light";
  });
  addEventListener("afterprint", () => theme.show());
}

head();
theme.start();
panels();
searching();
printing();
addEventListener("hashchange", route);
route();
// When the first view is on the screen; how long a page takes to open is told by it.
requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("ready")));
