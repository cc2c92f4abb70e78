// The page: its head, a tab for each view, the launch that is shown, places in the address.

const VIEWS = [blocksView, stepsView, accessesView, layoutsView];

function head() {
  const { launch } = state,
    kernel = launch.kernel;
  document.getElementById("command").textContent = kernel.name;
  const fact = (name, value) => make("span", make("span.quiet", `${name} `), make("b", value));
  document
    .getElementById("facts")
    .replaceChildren(
      fact("grid", launch.grid.join(" × ")),
      fact("blocks", launch.blocks.toLocaleString("en")),
      make(
        "span",
        make("span.quiet", "blocks access "),
        make("b", format(launch.moved, "bytes")),
        make(
          "span.quiet",
          launch.moved === launch.least
            ? " of global memory, each byte once"
            : ` of global memory, ${times(launch.moved, launch.least)} the ${format(launch.least, "bytes")} that must move`,
        ),
      ),
      make("span.quiet", kernel.problem ? `not on ${kernel.target}` : `layouts of ${kernel.target}`),
    );
}

function launchSelect() {
  const select = document.getElementById("launch");
  select.hidden = launches.length < 2;
  select.append(
    ...launches.map((each, at) =>
      make("option", { value: at }, `launch ${at}: ${each.kernel.name}, line ${each.line}`),
    ),
  );
  select.addEventListener("change", () => state.chooseLaunch(Number(select.value)));
  state.on((changed) => {
    if (changed.includes("launch")) head();
  });
}

function panels() {
  const tabs = document.getElementById("tabs"),
    box = document.getElementById("views");
  for (const view of VIEWS) {
    view.tab_ = make(
      "a",
      { role: "tab", id: `tab-${view.id}`, href: `#${view.id}`, "aria-selected": "false" },
      view.title,
    );
    view.panel = make("section.panel", {
      id: `panel-${view.id}`,
      role: "tabpanel",
      "aria-labelledby": `tab-${view.id}`,
      hidden: true,
    });
    tabs.append(view.tab_);
    box.append(view.panel);
  }
  tabs.addEventListener("keydown", (event) => {
    const at = VIEWS.findIndex((view) => view.tab_ === document.activeElement);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step && at >= 0) VIEWS[(at + step + VIEWS.length) % VIEWS.length].tab_.focus();
  });
}

// A view is built when it is first seen.
function open(view) {
  for (const each of VIEWS) {
    each.open = each === view;
    each.panel.hidden = !each.open;
    each.tab_.setAttribute("aria-selected", String(each.open));
  }
  if (!view.built) {
    view.built = true;
    view.build(view.panel);
  }
  view.show();
  codePane.mark();
}

function route() {
  open(VIEWS.find((each) => `#${each.id}` === location.hash) ?? blocksView);
}

theme.start();
launchSelect();
head();
panels();
codePane.build(document.getElementById("code"));
addEventListener("hashchange", route);
route();
// When the first view is on the screen; how long a page takes to open is told by it.
requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("ready")));
