"""All CTAs' timelines of a profile as one page that needs nothing but a browser.

In: a profile with timelines of CTAs.  Out: HTML with plotly's script in it and a list to choose a
CTA from; light or dark as the browser is.
"""

from __future__ import annotations

import html

from tileprof.errors import from_extra
from tileprof.profile import Profile
from tileprof.viewer.ctas.ctas import Ctas
from tileprof.viewer.figures.cta_timeline import figure_of

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font-family: sans-serif; margin: 1em; background: #fff; color: #222; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #16181d; color: #ddd; }} }}
</style>
<script>{plotly}</script>
</head>
<body>
<label>CTA <select id="choice">{options}</select></label>
<div id="figure"></div>
<script>
const figures = [{figures}];
const choice = document.getElementById("choice");
function show() {{
  const chosen = figures[choice.value];
  Plotly.react("figure", chosen.data, chosen.layout, {{responsive: true, scrollZoom: true}});
}}
choice.addEventListener("change", show);
show();
</script>
</body>
</html>
"""


def cta_page(profile: Profile) -> str:
    """The page; UsageError where the profile has no timelines of CTAs, MissingDependencyError where
    plotly is not installed."""
    with from_extra("plotly"):
        from plotly.offline import get_plotlyjs

    ctas = Ctas(profile)
    first = ctas.pick()
    order = [first, *(at for at in range(len(ctas.held.ctas)) if at != first)]
    options = (f'<option value="{n}">{_option(ctas, at)}</option>' for n, at in enumerate(order))
    # A text that ends a script must not stand in one.
    figures = (figure_of(ctas, at).to_json().replace("</", "<\\/") for at in order)
    return _PAGE.format(
        title=html.escape(profile.tables.provenance.get("command", "tileprof")),
        plotly=get_plotlyjs(),
        options="".join(options),
        figures=",\n".join(figures),
    )


def _option(ctas: Ctas, cta: int) -> str:
    launch = ctas.launch_name(ctas.held.ctas[cta].launch)
    return html.escape(f"{launch}: {ctas.cta_name(cta)}, {ctas.chosen(cta)}")
