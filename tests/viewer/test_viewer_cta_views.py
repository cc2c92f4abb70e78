"""The timeline of a CTA in a terminal, as a figure, and as a page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import tileprof.figures
from tests.profile.cta_samples import KERNEL, ctas, profile
from tests.viewer.samples import matmul
from tileprof.errors import UsageError
from tileprof.profile import CtaTimelines, CtaVisits, KernelInfo, Profile
from tileprof.viewer import export, render_cta
from tileprof.viewer.text import width_of


def _renamed(name: str) -> Profile:
    """A kernel one of whose sites has that name."""
    made = profile()
    sites = tuple(replace(s, name=name) if s.id == 4 else s for s in KERNEL.sites)
    kernels = (KernelInfo("first", "cuda:0"), replace(KERNEL, sites=sites))
    return replace(made, tables=replace(made.tables, kernels=kernels))


@pytest.mark.parametrize("width", [40, 72])
def test_terminal(width: int, golden: Callable[[str], None]) -> None:
    """Rows of warps, producers first, above them what was under way; then what letters mean."""
    text = render_cta(profile(), "gemm", width=width)
    assert max(map(width_of, text.splitlines())) <= width
    golden(text)


def test_terminal_tells_what_is_missing() -> None:
    """After the last record of a warp nothing is known, or before the first; one that ended is
    gone."""
    made = ctas()
    ended, begun = replace(made.warps[0], missing="end"), replace(made.warps[2], missing="begin")
    warps = (ended, made.warps[1], begun, *made.warps[3:])
    visits = made.visits
    late = CtaVisits.typed(
        visits.warp, visits.site, np.where(visits.warp == 2, np.maximum(visits.begin, 300),
        visits.begin), np.where(visits.warp == 2, np.maximum(visits.end, 300), visits.end),
    )  # fmt: skip
    columns = late, made.flights
    held = CtaTimelines(made.launches, made.ctas, warps, made.queues, lambda: columns)
    rows = render_cta(profile(held), "gemm", 132, width=60).splitlines()
    [producer] = [row for row in rows if row.startswith("warp 4")]
    [consumer] = [row for row in rows if row.startswith("warp 0")]
    assert re.search(r"P\?+\|$", producer)
    assert re.search(r"C +\|$", consumer)
    [other] = [row for row in rows if row.startswith("warp 1")]
    assert re.search(r"\|\?+a+", other)


def test_terminal_shows_what_is_known() -> None:
    """Where all records end early, the time until then fills the rows."""
    made = ctas()
    warps = [replace(warp, missing="end", end=warp.end - 600) for warp in made.warps]
    held = CtaTimelines(made.launches, made.ctas, warps, made.queues)
    head = render_cta(profile(held), "gemm", 132, width=90).splitlines()[1]
    assert head.startswith("SM 17 CTA 132, the median and first of 8: the first 500 ns of 1.10 µs,")


def test_terminal_shows_a_part() -> None:
    """Only what is in it; letters stay, shares are those of the part."""
    whole = render_cta(profile(), "gemm", 132, width=90)
    text = render_cta(profile(), "gemm", 132, (0.4, 0.9), width=90)
    [consumer] = [row for row in text.splitlines() if row.startswith("warp 0")]
    # gemm to 450 ns, its wait to 700, then the next tile's.
    assert re.search(r"\|(G+)(g+)(a+)\|$", consumer)
    runs = [len(run) for run in re.findall(r"G+|g+|a+", consumer.partition("|")[2])]
    assert [round(10 * run / sum(runs)) for run in runs] == [1, 5, 4]
    assert "load a" not in text
    letter = re.compile(r"^(.) +[\d.]+ %  consumer / wait for gemm", re.MULTILINE)
    assert letter.findall(text) == letter.findall(whole) == ["g"]
    with pytest.raises(UsageError, match="nothing is between 5 and 4 µs"):
        render_cta(profile(), "gemm", 132, (5, 4))


def test_terminal_in_colour_is_the_same_text() -> None:
    """And in ASCII no character is another."""
    plain = render_cta(profile(), "gemm", 264, width=60)
    painted = render_cta(profile(), "gemm", 264, width=60, color=True)
    assert "\x1b[" in painted
    assert re.sub(r"\x1b\[\d*m", "", painted) == plain
    assert render_cta(_renamed("gemm → Σ"), width=60, unicode=False).isascii()


def test_letters_are_those_of_names() -> None:
    """Lower case for waits; the next free one where a letter is taken; never one for two."""
    legend = render_cta(_renamed("write"), "gemm", width=72).rpartition("|\n\n")[2]
    letters = dict(re.findall(r"^(.) +[\d.]+ %  (.+?)(?:  gemm.*)?$", legend, re.MULTILINE))
    assert letters["W"] == "consumer / write"
    assert letters["g"] == "consumer / wait for gemm"
    assert len(letters) == legend.count("%")


def _spans(figure: object) -> dict[str, list[tuple[float, float, float]]]:
    """Row, begin and length of each bar, by the name of its trace."""
    found = {}
    for trace in json.loads(figure.to_json())["data"]:  # type: ignore[attr-defined]
        columns = (np.asarray(trace[name], float).tolist() for name in ("y", "base", "x"))
        found[trace["name"]] = list(zip(*columns, strict=True))
    return found


def test_figure() -> None:
    """A bar for each time that a warp was innermost at a site; thin ones for flights above."""
    figure = tileprof.figures.cta_timeline(profile(), "gemm")
    spans = _spans(figure)
    rows = [round(0.45 * n + 0.225, 3) for n in range(3)] + [1.85, 2.85, 3.85]
    assert figure.layout.yaxis.tickvals == tuple(rows)
    assert figure.layout.yaxis.ticktext == (
        "ring of a, by warp 4", "", "wgmma, by warp 0",
        "warp 4 (producer)", "warp 0 (consumer)", "warp 1 (consumer)",
    )  # fmt: skip
    assert spans["load a"] == [(rows[3], 0.1, 0.1), (rows[3], 0.3, 0.1)]
    assert spans["load a (under way)"] == [(rows[0], 0.1, 0.3), (rows[1], 0.3, 0.6)]
    assert spans["gemm (under way)"] == [(rows[2], 0.4, 0.3)]
    assert spans["wait for gemm"] == [(rows[4], 0.45, 0.25)]
    [load] = [trace for trace in figure.data if trace.name == "load a"]
    assert "producer / load a</b><br>gemm.py:12" in load.hovertemplate
    assert figure.layout.title.text == (
        "gemm, launch 3 on cuda:0: SM 17 CTA 132, the median and first of 8, 1.10 µs"
    )
    colors = [trace.marker.color for trace in figure.data if not trace.name.endswith("under way)")]
    assert len(set(colors)) == 5  # Both stages are grey.


def test_names_are_no_markup() -> None:
    """What a kernel is called does not end the page's script."""
    page = export(_renamed("</script><b>"), "html-timeline")
    assert isinstance(page, str)
    assert "</script><b>" not in page
    assert page.count("</script>") == 2


def test_page() -> None:
    """All CTAs, the median first; nothing is fetched from anywhere."""
    page = export(profile(), "html-timeline")
    assert isinstance(page, str)
    options = re.findall(r'<option value="(\d)">([^<]+)<', page)
    assert options == [
        ("0", "gemm, launch 3 on cuda:0: SM 17 CTA 132, the median and first of 8"),
        ("1", "gemm, launch 3 on cuda:0: SM 3 CTA 264, the longest of 8"),
    ]
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=", page)
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    figures = json.loads(script[script.index("[") : script.index("];\n") + 1])
    assert [len(figure["data"]) for figure in figures] == [8, 6]


@pytest.mark.parametrize("form", ["perfetto", "html-timeline"])
def test_nothing_to_show(form: str) -> None:
    """It is said, with what to do."""
    with pytest.raises(UsageError, match="the profile has no timeline"):
        export(matmul(), form)
    with pytest.raises(UsageError, match="--instrument stages"):
        render_cta(matmul(), "gemm")
    with pytest.raises(UsageError, match="--instrument stages"):
        tileprof.figures.cta_timeline(matmul())
