"""Timelines on the page of a report in a real browser: pictures, mouse, keys, links, speed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.analyzer.made import stored
from tests.profile.cta_samples import profile
from tests.viewer.browser import Browser
from tests.viewer.html_reports import HOSTILE, large, report
from tests.viewer.samples import profile_of
from tests.viewer.test_html_browser import MOST_BYTES, MOST_ELEMENTS, Shown, browser, shown
from tests.viewer.timelines_made import all_kinds, crowded, damaged
from tests.viewer.traces import STEP, traced
from tileprof.profile import Profile

__all__ = ["browser", "shown"]

PANEL = "#panel-timelines"
CANVAS = f"{PANEL} .drawn canvas"
EDGE = 200
"""Pixels of a timeline that names of rows take."""


def detail(page: Browser) -> str:
    """What is said of what is chosen."""
    (text,) = page.texts(f"{PANEL} .detail")
    return text


def drawn(page: Browser, what: str = "bars") -> int:
    """How many bars or points are in sight."""
    return int(page.run(f"document.querySelector('{CANVAS}').dataset.{what}"))


def at(page: Browser, part: float, y: float) -> tuple[float, float]:
    """A place in the window: a part of the time, so many pixels below the top row."""
    left, top, width = page.run(f"""(() => {{
        const b = document.querySelector('{CANVAS}').getBoundingClientRect();
        return [b.x, b.y, b.width]; }})()""")
    return left + EDGE + part * (width - EDGE), top + y


def color(page: Browser, part: float, y: float) -> list[int]:
    """The colour of a pixel of the picture."""
    found: list[int] = page.run(f"""(() => {{
        const c = document.querySelector('{CANVAS}'), wide = c.clientWidth;
        const x = {EDGE} + {part} * (wide - {EDGE});
        return [...c.getContext('2d').getImageData(Math.round(x), {y}, 1, 1).data]; }})()""")
    return found


def named(page: Browser, name: str) -> list[int]:
    """A colour of the page's styles."""
    text = page.run(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}')")
    return [*bytes.fromhex(text.strip().removeprefix("#")), 255]


def move(page: Browser, x: float, y: float, pressed: bool = False) -> None:
    """Move the mouse."""
    told = {"button": "left", "buttons": 1} if pressed else {}
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, **told)
    page.settle()


def drag(page: Browser, begin: tuple[float, float], end: tuple[float, float]) -> None:
    """Press, move, let go."""
    for kind, (x, y) in (("mousePressed", begin), ("mouseReleased", end)):
        if kind == "mouseReleased":
            move(page, x, y, True)
        page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    page.settle()


# -- the tab


def test_a_recording_without_timelines_has_no_tab(shown: Shown) -> None:
    """Its address leads to the findings, as any that is not known."""
    for made in (report(stored("h200-stalls")), report(profile_of())):
        page = shown(made, "#timelines")
        assert all("Timelines" not in text for text in page.texts("#tabs a"))
        assert page.texts("#tabs [aria-selected=true]")[0].startswith("Findings")


def test_the_tab_has_the_parts_that_were_recorded(shown: Shown) -> None:
    """And the first of them is open."""
    page = shown(report(all_kinds()))
    page.click("#tab-timelines")
    page.until(f"!document.querySelector('{PANEL}').hidden")
    tabs = f"{PANEL} [role=tab]"
    assert page.texts(tabs) == ["Warps of a CTA", "Program", "Counters"]
    assert page.texts(f"{tabs}[aria-selected=true]") == ["Warps of a CTA"]
    page = shown(report(profile()), "#timelines")
    assert page.texts(tabs) == ["Warps of a CTA"]


# -- the warps of a CTA


def test_warps_of_a_cta_are_drawn(shown: Shown) -> None:
    """The median first: a bar for each innermost visit, in the colour of its site."""
    page = shown(report(profile()), "#timelines")
    choice = f"{PANEL} select"
    assert page.run(f"document.querySelector('{choice}').selectedOptions[0].text") == (
        "gemm, launch 3 on cuda:0: SM 17 CTA 132, the median and first of 8"
    )
    assert drawn(page) == 20
    # Flights have 14, 8 and 14 pixels, warps 18 each; warp 0 waits for `a` from 10 to 400 ns.
    assert color(page, 200 / 1100, 36 + 18 + 3) == named(page, "wait-0")
    assert color(page, 425 / 1100, 36 + 18 + 3) == named(page, "work-1")
    assert color(page, 150 / 1100, 36 + 3) == named(page, "work-0")
    assert color(page, 950 / 1100, 36 + 3)[3] == 0  # the producer ended at 900
    assert page.texts(f"{PANEL} .legend .key")[0] == "consumer / wait for a 43.0 %"


def test_a_cta_is_chosen_from_the_list(shown: Shown) -> None:
    """The address follows, and leads there again."""
    page = shown(report(profile()), "#timelines")
    page.run(f"""(() => {{ const e = document.querySelector('{PANEL} select');
        e.value = '1'; e.dispatchEvent(new Event('change')); }})()""")
    assert drawn(page) == 17
    page.until("location.hash === '#timelines/cta/2'")
    assert "2.20 µs" in page.texts(f"{PANEL} .tools")[0]
    page = shown(report(profile()), "#timelines/cta/2")
    assert drawn(page) == 17


def test_pointing_at_a_bar_tells_of_it(shown: Shown) -> None:
    """Where in the kernel, when, how long; of a flight what waited for it. A click keeps it."""
    page = shown(report(profile()), "#timelines")
    move(page, *at(page, 550 / 1100, 36 + 18 + 9))
    (tip,) = page.texts(f"{PANEL} .tip")
    assert tip.splitlines() == [
        "consumer / wait for gemm", "250 ns from 450 ns on, warp 0 (consumer)",
    ]  # fmt: skip
    move(page, *at(page, 550 / 1100, 14 + 4))
    (tip,) = page.texts(f"{PANEL} .tip")
    assert tip.splitlines() == [
        "producer / load a, under way", "600 ns from 300 ns on, ring of a, by warp 4",
        "until consumer / wait for a of warp 0 (consumer), which waited 200 ns",
    ]  # fmt: skip
    move(page, *at(page, 1000 / 1100, 36 + 9))  # after the producer's end
    assert page.texts(f"{PANEL} .tip") == []
    page.click_at(*at(page, 425 / 1100, 36 + 18 + 9))
    assert detail(page).splitlines() == [
        "consumer / gemm", "50.0 ns from 400 ns on, warp 0 (consumer)", "gemm.py:14",
    ]  # fmt: skip


def test_a_line_of_a_site_leads_to_the_code(shown: Shown) -> None:
    """Where the page has the file."""
    made = profile()
    source = "".join(f"line {n}\n" for n in range(7, 20))
    kernels = tuple(replace(k, source=source) for k in made.tables.kernels)
    page = shown(report(replace(made, tables=replace(made.tables, kernels=kernels))), "#timelines")
    page.click_at(*at(page, 425 / 1100, 36 + 18 + 9))
    page.click(f"{PANEL} .detail a")
    page.until("!document.querySelector('#panel-code').hidden")
    (line,) = page.texts("#panel-code .source [aria-selected=true]")
    assert line.split()[0] == "14"


def test_keys_go_from_bar_to_bar(shown: Shown) -> None:
    """Along a row, to what is at the same time beside it; Enter zooms to it, Escape out."""
    page = shown(report(profile()), "#timelines")
    page.key("ArrowDown")
    assert detail(page).startswith("producer / load a, under way")
    page.key("ArrowDown", "ArrowDown", "ArrowDown")
    assert detail(page).startswith("producer\n500 ns from 400 ns on, warp 4")
    page.key("ArrowLeft")
    assert detail(page).startswith("producer / load a\n")
    page.key("ArrowDown")
    assert detail(page).startswith("consumer / wait for a\n390 ns from 10 ns on, warp 0")
    page.key("End")
    assert detail(page).startswith("consumer\n100 ns from 900 ns on, warp 0")
    page.key("Home", "ArrowRight", "ArrowRight", "Enter")
    assert detail(page).startswith("consumer / gemm\n")
    page.until("location.hash === '#timelines/cta/1/395/455'")
    assert drawn(page) < 12
    page.key("-")
    page.until("location.hash === '#timelines/cta/1/365/485'")
    page.key("Escape")
    page.until("location.hash === '#timelines/cta/1'")
    assert drawn(page) == 20


def test_a_stretch_is_swept_out_and_linked(shown: Shown) -> None:
    """By the mouse; the address has its ends in ns, and opens it again."""
    page = shown(report(profile()), "#timelines")
    drag(page, at(page, 0.5, 45), at(page, 0.75, 60))
    page.until("location.hash.split('/').length === 5")
    begin, end = map(int, page.run("location.hash").split("/")[3:])
    assert begin == pytest.approx(550, abs=3)
    assert end == pytest.approx(825, abs=3)
    seen = drawn(page)
    assert seen < 20
    page = shown(report(profile()), f"#timelines/cta/1/{begin}/{end}")
    assert drawn(page) == seen
    page.click(f"{PANEL} button[aria-label='All of the time']")
    assert drawn(page) == 20


def test_the_wheel_zooms_about_the_mouse(shown: Shown) -> None:
    """With Ctrl; what is under it stays there."""
    page = shown(report(profile()), "#timelines")
    x, y = at(page, 0.5, 63)
    for _ in range(4):
        page.call(
            "Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-50,
            modifiers=2,
        )  # fmt: skip
    page.until("location.hash.split('/').length === 5")
    begin, end = map(int, page.run("location.hash").split("/")[3:])
    assert end - begin == pytest.approx(1100 / 1.25**4, abs=3)
    assert (begin + end) / 2 == pytest.approx(550, abs=3)


def test_a_site_of_the_legend_stands_out(shown: Shown) -> None:
    """The others are faint, until it is pressed again."""
    page = shown(report(profile()), "#timelines")
    wait, work = (200 / 1100, 57), (425 / 1100, 57)
    full = named(page, "work-1")
    assert color(page, *work) == full
    page.click(f"{PANEL} .legend button")
    assert page.texts(f"{PANEL} .legend [aria-pressed=true]") == ["consumer / wait for a 43.0 %"]
    assert color(page, *wait) == named(page, "wait-0")
    assert color(page, *work)[3] < 60
    page.click(f"{PANEL} .legend button")
    assert color(page, *work) == full


# -- hardware counters


def test_counters_are_drawn_and_read(shown: Shown) -> None:
    """A curve for each, its gap marked; keys and clicks choose a time, at which values are told."""
    page = shown(report(all_kinds()), "#timelines/counters")
    assert drawn(page, "points") == 150
    full, gap = named(page, "work-0"), named(page, "strong")
    assert color(page, 0.9, 40) == full
    assert color(page, 0.9, 8) != full  # 80 %, so not up to the top
    assert color(page, 0.1, 40) != full  # 0
    hatched = [color(page, 0.3 + n / 1000, 40)[:3] for n in range(60)]
    assert full[:3] not in hatched
    assert max(sum(c == s for c, s in zip(h, gap)) for h in hatched) == 3
    page.click_at(*at(page, 0.9, 40))
    (_, when, *_), use, read = [text.split("\t") for text in page.texts(f"{PANEL} .readings tr")]
    assert float(when.removeprefix("at ").removesuffix(" µs")) == pytest.approx(14.5, abs=0.05)
    assert (use[:2], read[0]) == (["dram_use", "80.0 %"], "dram_read")
    assert float(read[1].removesuffix(" TB/s")) == pytest.approx(0.9 * 200 * 1e10 / 1e12, 0.02)
    assert use[2] == "80.0 % gemm 100%"
    page.key("Home")
    assert page.texts(f"{PANEL} .readings tr")[1].split("\t")[1] == "0"
    move(page, *at(page, 0.3, 40))
    assert page.texts(f"{PANEL} .tip")[0].startswith("dram_use not sampled")


def test_the_highest_stretch_is_shown(shown: Shown) -> None:
    """By its number; the same stretch is then seen of the program, for both have one axis."""
    page = shown(report(all_kinds()), "#timelines/counters")
    page.click(f"{PANEL} .readings tbody tr:nth-child(2) button")  # the bytes/s that grow
    page.until("location.hash.split('/').length === 5")
    begin, end = map(int, page.run("location.hash").split("/")[3:])
    assert 96_000 - 90_500 + 8_000 < begin < end <= 96_000 - 90_500 + 10_000
    page.click(f"{PANEL} [data-part=program]")
    page.until(f"location.hash === '#timelines/program/1/{begin}/{end}'")
    assert drawn(page) == 1  # the kernel, not the call of its launch


# -- the program


def test_the_program_is_drawn_as_it_nests(shown: Shown) -> None:
    """Rows of a thread, the innermost below; then streams; a kernel leads to its launch."""
    page = shown(report(traced(*STEP)), "#timelines/program")
    assert drawn(page) == 6
    assert color(page, 0.9, 6) == named(page, "scope")
    assert color(page, 0.4, 18 + 6) == named(page, "op")
    assert color(page, 0.2, 36 + 6) == named(page, "api")
    assert color(page, 0.8, 54 + 6) == named(page, "kernel")
    assert color(page, 0.2, 54 + 6)[3] == 0
    assert sorted(page.texts(f"{PANEL} .legend .key")) == ["api", "kernel", "op", "scope"]
    page.click_at(*at(page, 0.8, 54 + 6))
    assert detail(page).splitlines()[:3] == [
        'gemm<"ß">', "4.50 µs from 3.001 µs on, cuda:0 stream 7",
        "kernel; backward; launched by cuLaunchKernel, 2.00 µs before",
    ]  # fmt: skip
    assert any(color(page, 0.28 + n / 1000, 57)[3] for n in range(20))  # the line to its launch
    page.click(f"{PANEL} .detail button")
    assert detail(page).startswith("cuLaunchKernel\n1.00 µs from 1.000 µs on, MainThread")
    page.click(f"{PANEL} .detail a")
    page.until("location.hash === '#node-2'")
    assert "cuLaunchKernel" in page.texts("#panel-tree [aria-selected=true]")[0]


# -- what all share


@pytest.mark.parametrize("part", ["cta", "counters", "program"])
def test_the_picture_has_the_colours_of_the_theme(shown: Shown, part: str) -> None:
    """It is drawn anew when they are switched."""
    name, *place = {
        "cta": ("wait-0", 200 / 1100, 57), "counters": ("work-0", 0.9, 40),
        "program": ("kernel", 0.8, 20),
    }[part]  # fmt: skip
    page = shown(report(all_kinds()), f"#timelines/{part}", dark=True)
    dark = color(page, *map(float, place))
    assert dark == named(page, str(name))
    page.click("#theme")
    light = color(page, *map(float, place))
    page.run("localStorage.clear()")
    assert light == named(page, str(name)) != dark


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_names_in_bars_can_be_read(shown: Shown, theme: str) -> None:
    """Contrast of at least 4.5 to 1, as WCAG 2.1 (1.4.3) asks for."""
    page = shown(report(profile()), dark=theme == "dark")

    def luminance(name: str) -> float:
        parts = [part / 255 for part in named(page, name)[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bars = [*(f"work-{n}" for n in range(8)), *(f"wait-{n}" for n in range(4)), "around"]
    for name in bars:
        low, high = sorted((luminance(name), luminance("ink")))
        assert (high + 0.05) / (low + 0.05) >= 4.5, name


@pytest.mark.parametrize("part", ["cta", "program"])
def test_a_damaged_part_says_what_is_wrong(shown: Shown, part: str) -> None:
    """As a text; the counters are drawn all the same."""
    page = shown(report(damaged()), f"#timelines/{part}")
    assert "are damaged </script><b>" in page.texts(f"{PANEL} .empty")[0]
    assert page.texts(f"{PANEL} select") == []
    page.click(f"{PANEL} [data-part=counters]")
    assert drawn(page, "points") == 150


@pytest.mark.parametrize("part", ["cta", "counters", "program"])
def test_hostile_names_are_only_texts(shown: Shown, part: str) -> None:
    """In lists, legends, tips and what is said of bars."""
    page = shown(report(_hostile()), f"#timelines/{part}")
    page.key("ArrowRight", "ArrowRight", "ArrowDown")
    move(page, *at(page, 0.5, 50))
    assert page.run("window.bad") is None
    assert page.run("document.querySelectorAll('b:not(#facts b)').length") == 0
    assert HOSTILE[:40] in detail(page)


def _hostile() -> Profile:
    made = all_kinds()
    kernels = tuple(
        replace(k, name=HOSTILE, sites=tuple(replace(s, name=HOSTILE) for s in k.sites))
        for k in made.tables.kernels
    )
    (series,) = made.tables.series
    metrics = tuple(replace(m, name=HOSTILE) for m in series.metrics)
    tables = replace(made.tables, kernels=kernels, series=(replace(series, metrics=metrics),))
    symbols = tuple(replace(s, name=HOSTILE) for s in made.symbols)
    return replace(made, symbols=symbols, tables=tables)


def test_what_was_cut_is_told(shown: Shown) -> None:
    """Above the picture: how many are drawn together, how many CTAs and rows are left out."""
    page = shown(report(crowded(profile())), "#timelines/cta")
    (told,) = page.texts(f"{PANEL} .tools:first-child")
    assert "short ones are drawn together" in told
    assert "further CTAs are not on this page" in told
    page.click(f"{PANEL} [data-part=counters]")
    (told,) = page.texts(f"{PANEL} .tools:first-child")
    assert "9,000 samples, a point is the mean of 9.00" in told
    page.click(f"{PANEL} [data-part=program]")
    (told,) = page.texts(f"{PANEL} .tools:first-child")
    assert "rows with less time are not on this page" in told
    page.run(f"document.querySelector('{CANVAS}').focus()")
    page.key("ArrowDown")
    for _ in range(200):
        if "short ones, mostly" in detail(page):
            break
        page.key("ArrowRight")
    assert " busy" in detail(page)


@pytest.mark.sweep
def test_crowded_timelines_make_a_small_page(shown: Shown) -> None:
    """Beside 10,000 nodes; no timeline puts more than a few thousand elements into the page."""
    made = report(crowded(large().program.profile))
    for place in ("", "#timelines/cta/1", "#timelines/counters", "#timelines/program"):
        page = shown(made, place)
        assert page.run("document.querySelectorAll('*').length") < MOST_ELEMENTS
    assert Path(page.run("location.pathname")).stat().st_size <= MOST_BYTES
    page.click(f"{PANEL} button[aria-label='All of the time']")
    assert page.run("document.querySelectorAll('*').length") < MOST_ELEMENTS
