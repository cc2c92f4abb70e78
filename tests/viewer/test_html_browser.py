"""The page of a report in a real browser: what is seen, what keys and clicks do, how fast it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.analyzer.made import Made, program, report_of
from tests.analyzer.steps import training
from tests.viewer.browser import Browser, chromium
from tests.viewer.html_reports import (
    HOSTILE,
    SCALE,
    below_roofs,
    finding,
    hostile,
    large,
    report,
    sited,
    small,
)
from tests.viewer.samples import matmul, node, profile_of, with_children
from tileprof.analyzer import Place, Report, analyze
from tileprof.profile import Tables, TreeBuilder, with_frames
from tileprof.viewer.html import write_html

Shown = Callable[..., Browser]

MOST_BYTES = 6_000_000
MOST_ELEMENTS = 5_000
"""Seconds until a page is shown are measured by `benchmarks/costs.py`."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of the file."""
    started = Browser(chromium(), tmp_path_factory.mktemp("browser"))
    yield started
    started.close()


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Iterator[Shown]:
    """Show the page of a report; at the end, nothing went wrong in it and nothing was asked for."""
    path = tmp_path / "page.html"
    written: list[Report] = []

    def show(made: Report, place: str = "", dark: bool = False) -> Browser:
        # One report at several places is one page, which takes longer to write than to show.
        if not any(each is made for each in written):
            write_html(made, path)
            written[:] = [made]
        browser.open(path, place, dark)
        return browser

    yield show
    assert browser.errors == []
    assert {each.partition("#")[0] for each in browser.requests} <= {path.as_uri()}


def chosen(browser: Browser, panel: str) -> str:
    """The text of the chosen row of a panel."""
    (text,) = browser.texts(f"#panel-{panel} [aria-selected=true]")
    return text


def test_the_first_view_is_the_findings(shown: Shown) -> None:
    """With the head above them, the first one open and the others closed."""
    page = shown(small())
    assert page.texts("#command") == ["python train.py"]
    (facts,) = page.texts("#facts")
    assert "NVIDIA H200" in facts
    assert "in kernels 10.0 ms" in facts
    assert page.texts(".finding .title") == ["a suggestion at line 5", "a warning at line 6"]
    assert page.texts(".finding .gain") == ["2.00× kernel", ""]
    (inside,) = page.texts(".finding .inside")
    for text in (
        "load it once, with ld.v4",
        "the pass gave up",
        "90 % wait for it",
        "8,200 samples",
    ):
        assert text in inside
    assert "2.00× (1.50–4.00)" in inside
    (line,) = page.texts(".excerpt .here")
    assert "sum += square(a[i + k]);" in line
    assert "97.9 %" in line  # 9,900 of the function's 10,115 samples
    assert "tileprof run counts" in page.texts(".runs")[0]


def test_the_account_stands_above_the_findings(shown: Shown) -> None:
    """Its headline first; a legend for each part that takes time; five kernels, or all of them."""
    page = shown(analyze(training().profile()))
    order = page.run("""[...document.querySelectorAll('.findings > *')].map(e => e.className)""")
    assert order[:2] == ["account", "finding"]
    assert page.texts(".account .headline") == [
        "The first 3 suggestions together likely make it 1.32× as fast (1.12–1.49)."
    ]
    legend = [re.sub(r" [\d.]+ % .*", "", each) for each in page.texts(".legend li")]
    assert legend == [
        "causes named below",
        "unexplained",
        "copies",
        "waiting without a named cause",
    ]
    assert page.texts(".account h3")[0].upper().startswith("IDLE, A PART OF THE ABOVE: 14.2 %")
    assert page.texts(".account .idle > span:first-child") == ["waiting for its launch"]
    names = ".account tbody td:first-child"
    assert len(page.texts(names)) == 5
    assert page.texts(names)[0] == "nvjet_hsh_256x128_NTN"
    page.click(".account button")
    assert len(page.texts(names)) == 13
    assert page.texts(".account button") == []


@pytest.mark.parametrize("name", ["a training", "h200-gemm"])
def test_the_accounts_bar_is_filled_and_its_colours_are_those_of_the_legend(
    shown: Shown, name: str
) -> None:
    """All of its width has a part; a part has the colour of its entry, no two have the same."""
    page = shown(analyze(training().profile()) if name == "a training" else report_of(name))
    filled, colours, legend = page.run("""(() => {
        const strip = document.querySelector('.account > .strip'), parts = [...strip.children],
            sum = parts.reduce((sum, e) => sum + e.getBoundingClientRect().width, 0),
            colour = (e) => getComputedStyle(e).backgroundColor,
            seen = parts.filter((e) => e.getBoundingClientRect().width > 1);
        return [sum / strip.getBoundingClientRect().width, [...new Set(seen.map(colour))],
            [...document.querySelectorAll('.swatch')].map(colour)];
    })()""")
    assert filled == pytest.approx(1, abs=0.01)
    assert len(set(legend)) == len(legend) > 1
    assert set(colours) <= set(legend)


def test_a_cause_in_the_bar_leads_to_its_finding(shown: Shown) -> None:
    """The second part of the causes to the second suggestion."""
    page = shown(analyze(training().profile()))
    page.click(".account .strip a:nth-of-type(2)")
    page.until("document.querySelector('#finding-2.target')")
    titles = page.texts(".finding .title")
    link = "document.querySelector('.account .strip a:nth-of-type(2)').title"
    assert page.run(link).startswith(f"{titles[1]}: ")


def test_a_deep_link_opens_its_finding(shown: Shown) -> None:
    """At the start, and when the address changes."""
    page = shown(small(), "#finding-2")
    page.until("document.activeElement.closest('#finding-2')")
    assert page.texts("#finding-2 .inside") != []
    page.run("location.hash = '#finding-1'")
    page.until("document.querySelector('#finding-1.target')")
    assert page.run("document.querySelectorAll('.target').length") == 1


def test_findings_are_filtered(shown: Shown) -> None:
    """By severity and by kernel, together."""
    page = shown(small())
    page.click("button.chip.warning")
    assert page.texts(".finding .title") == ["a suggestion at line 5"]
    page.run("""(() => { const e = document.querySelector('#panel-findings select');
        e.value = 'library_gemm'; e.dispatchEvent(new Event('change')); })()""")
    assert page.texts(".finding .title") == []
    assert page.texts(".empty") == ["No finding passes the filters."]
    page.click("button.chip.warning")
    assert page.texts(".finding .title") == ["a warning at line 6"]


def test_keys_move_in_the_tree(shown: Shown) -> None:
    """As in a tree of a file manager; what is known of a node stands beside it."""
    page = shown(report(matmul()), "#tree")
    page.click("#panel-tree .tools button:nth-of-type(3)")  # all closed
    assert len(page.texts("#panel-tree .tree [role=row]")) == 1
    page.run("document.querySelector('.tree').focus()")
    page.key("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight")
    assert chosen(page, "tree").split()[1] == "forward"
    assert page.run("document.querySelector('.tree').getAttribute('aria-activedescendant')") == (
        page.run("document.querySelector('.tree [aria-selected=true]').id")
    )
    page.key("ArrowLeft")
    assert "main" in chosen(page, "tree")
    assert page.texts(".side h2") == ["main"]
    assert "/w/train.py:33" in page.texts(".side")[0]
    page.key("ArrowLeft")
    assert page.run("document.querySelector('.tree [aria-selected=true]').ariaExpanded") == "false"


def test_a_link_to_a_node_opens_what_is_above_it(shown: Shown) -> None:
    """The node is chosen and in sight."""
    profile = matmul()
    (kernel,) = profile.find(name="matmul")
    page = shown(report(profile), f"#node-{kernel}")
    assert "matmul" in chosen(page, "tree")
    assert page.texts(".side h2") == ["matmul"]


def test_a_search_goes_from_one_node_to_the_next(shown: Shown) -> None:
    """From any view; `/` begins it, Enter goes on, and what is found is marked."""
    page = shown(report(matmul()))
    page.key("/")
    page.write("LOAD")
    count = int(page.texts("#matches")[0].split()[0])
    assert count == sum("load" in name for name in matmul().names) > 0
    page.key("Enter")
    assert "load" in chosen(page, "tree")
    assert page.texts("#matches") == [f"1 of {count}"]
    assert "load" in page.texts(".tree .match")[0]
    page.key("Escape")
    assert page.texts(".tree .match") == []


def test_the_flame_graph_zooms(shown: Shown) -> None:
    """By a click and by keys; bars that would be too narrow to see are not drawn."""
    page = shown(report_of("h200-stalls"), "#flame")
    assert int(page.run("document.querySelector('canvas').dataset.bars")) == 17
    x, y = page.run("""(() => { const b = document.querySelector('canvas').getBoundingClientRect();
        return [b.x + 10, b.y + 30]; })()""")
    page.click_at(x, y)
    assert int(page.run("document.querySelector('canvas').dataset.bars")) == 2
    assert "bulk_copy_wait" in page.texts("#panel-flame")[0]
    page.key("Escape")
    page.key("ArrowUp", "ArrowDown", "ArrowRight", "Enter")
    assert int(page.run("document.querySelector('canvas').dataset.bars")) == 2
    drawn = page.run("""(() => { const c = document.querySelector('canvas');
        const pixels = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        return pixels.filter((v, i) => i % 4 === 3 && v > 0).length / (c.width * c.height); })()""")
    assert drawn > 0.8


def test_a_line_shows_its_instructions(shown: Shown) -> None:
    """The hottest one is chosen; a click on an instruction chooses its line; waits say for what."""
    page = shown(small(), "#code-0-0-5")
    line = chosen(page, "code .source")
    assert "sum += square(a[i + k]);" in line
    assert "#1 2.00×" in line
    assert "FFMA R5, R4, R4, R5" in chosen(page, "code .sass")
    same = page.texts("#panel-code .sass .same .op")
    assert same == ["LDG.E", "FFMA"]
    detail = page.texts("#panel-code .detail")[1]
    assert "9,500 samples, at 6,000 of them no other warp issued" in detail
    assert "waits for 0050 LDG.E R4, desc[UR6][R2.64] through R4, scoreboard 0" in detail
    page.click("#panel-code .sass #right-10")
    assert "b[i] = sum;" in chosen(page, "code .source")
    page.key("ArrowDown")
    assert "EXIT" in chosen(page, "code .sass")
    page.run("document.querySelector('.source').focus()")
    page.key("ArrowUp", "ArrowUp", "ArrowUp")
    assert "for (int k = 0" in chosen(page, "code .source")


def test_cuda_stands_beside_its_source(shown: Shown) -> None:
    """Of a kernel of ours: the same line is marked on both sides."""
    page = shown(report_of("h200-gemm"), "#code-0")
    assert "T.gemm(" in chosen(page, "code .source")
    assert "gemm: wgmma m64n256k16" in page.texts("#panel-code .detail")[0]
    page.click("#panel-code [role=tab]:nth-of-type(2)")
    assert any("line 57" in text for text in page.texts("#panel-code .sass .same"))


def test_a_kernel_with_sites_has_warm_lines(shown: Shown) -> None:
    """Without any machine code: shares of the time in the kernel."""
    page = shown(sited(), "#code")
    assert page.texts("#panel-code .source .hot") == ["", "6.3 %", "93.8 %"]
    assert "75.0 ns" in page.texts("#panel-code .detail")[0]


def test_kernels_are_sorted(shown: Shown) -> None:
    """By any column, and the other way round when it is asked for again."""
    page = shown(report_of("h200-stalls"), "#kernels")
    first = "#panel-kernels tbody tr:first-child td:first-child"
    page.click("button[data-key=registers]")
    assert page.texts(first)[0] in ("grouped_products", "serialised_products")
    page.click("button[data-key=name]")
    assert page.texts(first) == ["bank_conflict"]
    page.click("button[data-key=name]")
    assert page.texts(first) == ["uncoalesced"]
    assert page.texts("th[aria-sort=descending]") == ["kernel"]


def test_kernels_stand_below_their_roofs(shown: Shown) -> None:
    """As far to the right as they compute for each byte, at most as high as what bounds them."""
    page = shown(below_roofs(), "#kernels")
    said = page.run("[...document.querySelectorAll('.roof circle title')].map(e => e.textContent)")
    assert said == [
        "matmul: 400 TFLOP/s, 400 flop a byte, 1.00 ms",
        "add: 200 GFLOP/s, 0.083 flop a byte, 500 µs",
    ]
    (matmul, add), roof = page.run("""[
        [...document.querySelectorAll('.roof circle')].map(
            e => [e.cx.baseVal.value, e.cy.baseVal.value]),
        document.querySelector('.roof path').getPointAtLength(1e6).y]""")
    assert matmul[0] > add[0]
    assert roof < matmul[1] < add[1]


def test_a_finding_without_a_line_leads_to_its_instruction(shown: Shown) -> None:
    """By its offset; there it is named too."""
    place = Place(SCALE, (SCALE,), sass=(0xA0, 0xA0))
    bare = replace(finding("symptom"), place=place)
    page = shown(report(small().program.profile, bare))
    page.click("#finding-1 .links a")
    assert "STG.E" in chosen(page, "code .sass")
    assert "#1 symptom" in chosen(page, "code .sass")


def test_the_colours_follow_the_browser_and_the_switch(shown: Shown) -> None:
    """Dark where the browser is, and the other after a click."""
    ground = "getComputedStyle(document.body).backgroundColor"
    page = shown(small(), dark=True)
    dark = page.run(ground)
    page.click("#theme")
    light = page.run(ground)
    assert (dark, light) == ("rgb(20, 22, 26)", "rgb(251, 251, 250)")
    page.run("localStorage.clear()")
    shown(small())
    assert page.run(ground) == light


@pytest.mark.parametrize("place", ["", "#tree", "#flame", "#kernels", "#code"])
def test_hostile_names_are_only_texts(shown: Shown, place: str) -> None:
    """In every view: no script of theirs runs, no element is theirs, and they are read."""
    page = shown(hostile(), place)
    assert page.run("window.bad") is None
    theirs = "b[onclick], b:not(#facts b, .account b)"
    assert page.run(f"document.querySelectorAll('{theirs}').length") == 0
    if place != "#flame":
        start = HOSTILE[:40]
        assert page.run(
            f"document.querySelector('.panel:not([hidden])').innerText.includes({start!r})"
        )


@pytest.mark.parametrize("place", ["", "#tree", "#flame", "#kernels", "#code", "#timelines"])
def test_a_profile_of_nothing_opens(shown: Shown, place: str) -> None:
    """Every view has something to say."""
    assert len(shown(report(profile_of()), place).texts(".panel:not([hidden])")) == 1


def test_a_large_tree_is_drawn_where_it_is_seen(shown: Shown) -> None:
    """With all nodes open, few rows are in the document, at the end as at the start."""
    made = large(3000, 2, 50)
    page = shown(made, "#tree")
    page.click("#panel-tree .tools button:nth-of-type(2)")
    box = "document.querySelector('.tree')"
    rows = len(with_frames(made.program.profile, "user").profile)
    assert rows > 2000
    assert page.run(f"{box}.getAttribute('aria-rowcount')") == str(rows)
    assert page.run(f"{box}.querySelectorAll('[role=row]').length") < 100
    page.run(f"{box}.focus()")
    page.key("End")
    assert page.run(
        f"{box}.querySelector('[aria-selected=true]').getAttribute('aria-rowindex')"
    ) == str(rows)
    assert page.run(f"{box}.querySelectorAll('[role=row]').length") < 100


def test_ten_thousand_nodes_make_a_small_page(shown: Shown, tmp_path: Path) -> None:
    """The file has 6 MB at most, and no view puts more than a few thousand elements into it."""
    made = large()
    for place in ("", "#tree", "#flame", "#code"):
        page = shown(made, place)
        assert page.run("document.querySelectorAll('*').length") < MOST_ELEMENTS
    assert (tmp_path / "page.html").stat().st_size <= MOST_BYTES


LONG = (
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1<float, " + "x" * 120 + ">>"
)
LAYOUT = """(() => {
    const wrong = [], page = document.documentElement;
    const box = (each) => each.getBoundingClientRect();
    if (page.scrollWidth > innerWidth) wrong.push(`the page is ${page.scrollWidth} wide`);
    for (const each of document.querySelectorAll("#panel-findings, #panel-findings .scroll"))
        if (each.scrollWidth > each.clientWidth) wrong.push(`${each.className} scrolls sideways`);
    for (const each of document.querySelectorAll(".account, .account .table, .account tr"))
        if (each.scrollWidth > each.clientWidth + 1 || box(each).right > innerWidth)
            wrong.push(`${each.className || each.tagName} of the account is too wide`);
    for (const each of document.querySelectorAll(".account tbody td:first-child"))
        if (box(each).width < 250) wrong.push(`a kernel's name has ${box(each).width} pixels`);
    for (const each of document.querySelectorAll(".account td:not(:first-child), .legend li"))
        if (each.scrollWidth > each.clientWidth + 1) wrong.push(`"${each.innerText}" is cut off`);
    for (const head of document.querySelectorAll(".finding > button")) {
        const range = document.createRange(), where = box(head.querySelector(".where"));
        range.selectNodeContents(head.querySelector(".title"));
        for (const line of range.getClientRects())
            if (line.left < where.right && where.left < line.right &&
                line.top < where.bottom && where.top < line.bottom)
                wrong.push(`a title prints over ${where.left}`);
        const width = box(head.querySelector(".title")).width;
        if (width < 300) wrong.push(`a title has ${width} pixels`);
    }
    return wrong;
})()"""


def wide() -> Report:
    """Two kernels with the longest names, and findings with words that cannot be broken."""
    kernels = [
        replace(finding(kernel=f"{LONG}{n}"), title=f"{LONG[5:90]} takes 13 %") for n in "ab"
    ]
    built = TreeBuilder()
    for each in kernels:
        built.add(built.child(-1, "kernel", each.place.kernel), "time", 100)
    facts = tuple(replace(fact, text=LONG) for fact in kernels[0].evidence)
    return report(built.snapshot(), replace(kernels[0], evidence=facts, author=LONG), kernels[1])


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(wide, id="long names"),
        pytest.param(lambda: analyze(training().profile()), id="a training"),
    ],
)
def test_the_page_fits_windows_of_all_widths(shown: Shown, make: Callable[[], Report]) -> None:
    """No part is cut off, nothing prints over anything, and titles have room for some words."""
    browser = shown(make())
    try:
        for width in (500, 900, 1400, 2560):
            browser.resize(width)
            browser.settle()
            assert browser.run("innerWidth") == width
            assert browser.run(LAYOUT) == [], width
            for view in ("kernels", "tree", "flame", "code"):
                browser.run(f"location.hash = '#{view}'")
                browser.settle()
                assert browser.run("document.documentElement.scrollWidth <= innerWidth"), view
            browser.run("location.hash = '#findings'")
            browser.settle()
    finally:
        browser.resize(0, 0)


def with_counters() -> Report:
    """A kernel whose traffic was counted, and one of which only device memory was."""
    counted = {
        "load_sectors": 1e8, "load_requests": 2.5e7, "l1_hit_sectors": 3e7, "l1_sectors": 1.2e8,
        "l2_hit_sectors": 6e7, "l2_sectors": 1e8, "dram_read_bytes": 8e8, "dram_write_bytes": 2e8,
        "shared_loads": 4e6, "shared_load_conflicts": 8e6,
    }  # fmt: skip
    kernels = (
        Made("matmul", metrics=counted),
        Made("add", time=5e5, metrics={"dram_read_bytes": 4e8}),
        Made("unknown", time=1e5),
    )
    return report(program(*kernels, peaks={"hbm_copy": 4e12}))


def test_memory_traffic_is_drawn_as_counted(shown: Shown) -> None:
    """Bytes between the memories, hit rates, speed against the roof; one kernel at a time."""
    page = shown(with_counters(), "#kernels")
    names = page.run("[...document.querySelectorAll('.memory option')].map(e => e.textContent)")
    assert names == ["matmul", "add"]
    texts = page.run("[...document.querySelectorAll('.memory text')].map(e => e.textContent)")
    expected = {
        "loads 3.20 GB", "4.00 sectors/load", "25.0 % hits", "60.0 % hits", "3.20 GB",
        "read 800 MB", "written 200 MB", "1.00 TB/s", "25 % of hbm_copy", "4,000,000 loads",
        "2.00 conflicts/load",
    }  # fmt: skip
    assert expected <= set(texts)
    assert page.run("document.querySelectorAll('.memory .tip').length") == 4
    wide = (
        "Math.max(...[...document.querySelectorAll('.memory svg *')].map(e => e.getBBox().width))"
    )
    assert page.run(wide) < 760
    page.run("""(() => {
        const select = document.querySelector('.memory select');
        select.value = '1';
        select.dispatchEvent(new Event('change'));
    })()""")
    texts = page.run("[...document.querySelectorAll('.memory text')].map(e => e.textContent)")
    assert "read 400 MB" in texts
    assert not any("hits" in each for each in texts)
    page = shown(small(), "#kernels")
    assert page.texts(".memory") == []


def test_a_legend_says_what_evidence_and_severities_mean(shown: Shown) -> None:
    """Each kind that there is, recorded or not; severities of this report alone."""
    page = shown(small())
    words = page.texts(".meanings dt")
    assert words[:5] == ["static", "activities", "scopes", "samples", "counters"]
    assert words[5:] == ["suggestion", "warning"]
    meanings = page.texts(".meanings dd")
    assert all(meanings)
    assert meanings[4].endswith("(not recorded)")
    assert not meanings[3].endswith("(not recorded)")


def test_paper_gets_all_findings_open_in_light_colours(shown: Shown, browser: Browser) -> None:
    """Without tabs and filters, over as many pages as it takes; then all is as before."""
    page = shown(small(), dark=True)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.call("Emulation.setEmulatedMedia", media="print", features=dark)
    try:
        page.run("dispatchEvent(new Event('beforeprint'))")
        assert page.run("document.documentElement.dataset.theme") == "light"
        assert page.run("[...document.querySelectorAll('.inside')].every(e => !e.hidden)")
        seen = "document.querySelector({!r}).getClientRects().length"
        assert [page.run(seen.format(each)) for each in ("#tabs", ".tools", "#theme")] == [0, 0, 0]
        assert page.run("getComputedStyle(document.querySelector('.scroll')).overflow") == "visible"
        page.run("dispatchEvent(new Event('afterprint'))")
        assert page.run("document.documentElement.dataset.theme") == "dark"
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")


def test_a_narrow_window_has_room_for_names(shown: Shown, browser: Browser) -> None:
    """At 500 pixels nothing is cut off sideways, and names have half of the width."""
    browser.resize(500)
    try:
        for place in ("#findings", "#tree", "#flame", "#kernels", "#code"):
            page = shown(analyze(training().profile()), place)
            assert page.run("document.documentElement.scrollWidth") <= 500
            if place == "#tree":
                wide = "document.querySelector('.tree .name').getBoundingClientRect().width"
                assert page.run(wide) > 250
    finally:
        browser.resize(0, 0)


def on_the_host() -> Report:
    """A program without a device: a line of a file whose text is known calls a module."""
    library = "/env/lib/python3.12/site-packages/torch/nn/modules/"
    profile = profile_of(
        with_children(
            node("frame", "<module>", "/w/train.py:2", cpu_time=1),
            with_children(
                node("frame", "Module._call_impl", f"{library}module.py:9", cpu_time=1),
                with_children(
                    node("frame", "Linear.forward", f"{library}linear.py:9", cpu_time=1),
                    node("op", "aten::linear", cpu_time=97),
                ),
            ),
        ),
        tables=Tables(sources={"/w/train.py": "import torch\nmodel(x)\n"}),
    )
    return analyze(profile)


def test_a_program_on_the_host_has_its_source_and_tree(shown: Shown) -> None:
    """No empty panels of kernels and machine code; a finding leads to its text and its node."""
    made = on_the_host()
    page = shown(made)
    assert not [text for text in page.texts("#tabs a") if "Kernels" in text]
    (facts,) = page.texts("#facts")
    assert "launches" not in facts
    assert "device time" not in facts
    assert "host time" in facts
    links = page.texts(".finding .links a") or page.texts(".links a")
    assert links[:2] == ["Source", "In the call tree"]
    page.click(".links a:nth-child(2)")
    assert page.run("location.hash").startswith("#node-")
    page = shown(made, "#code")
    assert "model(x)" in " ".join(page.texts(".lines.source .row"))
    assert page.run("document.querySelectorAll('.code .half').length") == 2
    shares = "document.querySelector('.half').getBoundingClientRect().width / innerWidth"
    assert page.run(shares) > 0.95
