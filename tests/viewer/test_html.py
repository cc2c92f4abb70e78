"""The page of a report: its data, that nothing breaks out of it, that it needs nothing else."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.analyzer.made import report_of
from tests.viewer.html_reports import HOSTILE, SCALE, finding, hostile, large, report, sited, small
from tests.viewer.pc_profile import FILE, SOURCE, pc_profile
from tests.viewer.samples import node, profile_of, with_children
from tileprof.analyzer import Report
from tileprof.errors import OutputError
from tileprof.profile import KernelInfo, Metric, PcText, Tables
from tileprof.viewer.html import report_page, write_html
from tileprof.viewer.html.code_data import CodeData
from tileprof.viewer.html.page import report_data
from tileprof.viewer.html.tree_data import kept_tree, tree_of

ASSETS = {
    each.name: each.read_text()
    for folder in (".", "scripts", "styles")
    for each in resources.files("tileprof.viewer.html").joinpath(folder).iterdir()
    if each.name.endswith((".js", ".css", ".html"))
}


def held(page: str) -> dict[str, Any]:
    """The data in a page, read as a browser does: up to the first end of a script."""
    block = page.partition('id="data">')[2].partition("</script")[0]
    document: dict[str, Any] = json.loads(block)
    return document


def test_the_tree_has_the_frames_that_are_asked_for() -> None:
    """The user's and modules by default; the page says how many it leaves out."""
    library = with_children(
        node("frame", "wrapper", "/usr/lib/python3/site-packages/torch/hooks.py:3"),
        node("kernel", "k", time=9),
    )
    made = report(profile_of(with_children(node("frame", "main", "/home/train.py:1"), library)))
    every = report_data(made, "all")["tree"]
    assert (len(every["parents"]), every["leftOut"]) == (3, 0)
    few = report_data(made)["tree"]
    assert (len(few["parents"]), few["leftOut"]) == (2, 1)
    assert few["metrics"][0]["whole"] == every["metrics"][0]["whole"]


def test_names_of_kernels_are_short_where_cpp_makes_them_long() -> None:
    """By the whole name, which stays the one that everything is found by."""
    name = "void at::native::vectorized_elementwise_kernel<4, Add<float> >(int, Add<float>)"
    made = report(profile_of(node("kernel", name, time=9), node("kernel", "plain", time=1)))
    data = report_data(made)
    assert list(data["short"]) == [name]
    assert data["short"][name] == "at::native::vectorized_elementwise_kernel<4, Add<float> >"
    assert name in data["kernels"]["name"]


def test_a_page_has_what_the_report_says() -> None:
    """Header, findings in order, kernels, runs: in one block, as `report_data` tells them."""
    page = held(report_page(small()))
    assert page == json.loads(json.dumps(report_data(small())))
    assert page["header"]["command"] == "python train.py"
    assert page["header"]["devices"] == ["NVIDIA H200"]
    assert page["header"]["kernel_time"] == 10_000_000
    recorded = {tier: on for tier, on, _ in page["header"]["tiers"]}
    assert recorded["samples"] is True
    assert recorded["counters"] is False
    assert page["runs"] == [["counters", "`tileprof run` counts", ["made-up"]]]
    first, second = page["findings"]
    assert (first["severity"], second["severity"]) == ("suggestion", "warning")
    assert first["gain"] == {"kernel": [1.5, 2, 4], "program": [1.5, 2, 4]}
    assert second["gain"] == {"kernel": None, "program": None}
    assert first["evidence"][1] == ["samples", "90 % wait for it", 8200]
    assert page["kernels"]["name"] == [SCALE, "library_gemm"]
    assert page["kernels"]["time"] == [9_000_000, 1_000_000]


def test_a_finding_leads_to_its_code_and_node() -> None:
    """By numbers that are places in the other parts of the page."""
    page = report_data(small())
    first = page["findings"][0]
    name, line, file = first["at"]
    assert (name, line) == (FILE, 5)
    assert page["code"]["files"][file] == {"name": FILE, "first": 1, "text": SOURCE.rstrip("\n")}
    assert page["code"]["units"][first["unit"]]["title"] == SCALE
    symbol = page["tree"]["symbol"][first["node"]]
    assert page["tree"]["symbols"]["name"][symbol] == SCALE


def test_nothing_breaks_out_of_the_page() -> None:
    """Names that end scripts stay texts; there are as many elements as on a harmless page."""
    bad, good = report_page(hostile()), report_page(small())
    for mark in ("<script", "</script", "<!--", "<b", "<title", "</title"):
        assert bad.count(mark) == good.count(mark), mark
    data = held(bad)
    shown = HOSTILE.encode("utf-8", "backslashreplace").decode()
    assert data["kernels"]["name"] == [shown]
    assert data["findings"][0]["title"] == shown
    assert data["code"]["units"][0]["sass"]["text"] == [f"FADD {shown}"]
    assert bad.encode()  # holds nothing that a file cannot


def test_a_command_that_looks_like_a_mark_stays_a_text() -> None:
    """Parts are put into the page once, and not into each other."""
    page = report_page(report(pc_profile(command="{{data}} {{script}} {{x}}")))
    assert "<title>{{data}} {{script}} {{x}} – tileprof</title>" in page
    assert held(page)["header"]["command"] == "{{data}} {{script}} {{x}}"


def test_the_page_needs_nothing_else() -> None:
    """No address of another place, a policy against all requests, and no markup made of texts."""
    page = report_page(small())
    assert "default-src 'none'" in page
    addresses = set(re.findall(r"\w+://[^\s\"')]+", "".join(ASSETS.values())))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, that nothing asks for
    scripts = "".join(text for name, text in ASSETS.items() if name.endswith(".js"))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", scripts)
    assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|import\(", scripts)
    assert "</script" not in scripts
    assert "</style" not in "".join(t for n, t in ASSETS.items() if n.endswith(".css"))


def test_every_asset_is_in_the_page() -> None:
    """A script that was forgotten in the list would be noticed."""
    page = report_page(small())
    for name, text in ASSETS.items():
        if name != "page.html":
            assert text in page, name


def test_own_values_add_up_to_the_totals() -> None:
    """By the law of each metric, as the page's script adds them up from the last node on."""
    profile = profile_of(
        with_children(
            node("frame", "f", time_min=40.0, time=5),
            node("kernel", "k", time=300, time_min=20.0, time_max=70.0),
            node("kernel", "l", time=200, level=3.0),
        ),
        metrics={"level": Metric("level", "m", "last")},
    )
    tree = tree_of(profile)
    assert tree["main"] == "time"
    for metric in tree["metrics"]:
        join = {"sum": np.add, "min": np.fmin, "max": np.fmax}.get(metric["adds"])
        totals = np.array([np.nan if v is None else v for v in metric["own"]], float)
        for child in reversed(range(len(profile))):
            above = tree["parents"][child]
            if above >= 0 and join is not None:
                totals[above] = join(totals[above], totals[child])
        np.testing.assert_allclose(totals, profile.total(metric["name"]), rtol=1e-6)
    assert next(m for m in tree["metrics"] if m["name"] == "time_max")["own"] == [None, 70, None]


def test_a_tree_that_is_too_large_is_cut() -> None:
    """To its greatest nodes; nothing is lost from the sum, and each node knows where it went."""
    profile = large(2000, 1, 4).program.profile
    kept, moved = kept_tree(profile, 300)
    assert 300 <= len(kept) < 500
    assert kept.whole["time"] == profile.whole["time"]
    own = kept.own["time"] + kept.absorbed["time"]
    assert own.sum() == profile.own["time"].sum()
    totals, cut_totals = profile.total("time"), kept.total("time")
    assert moved.min() >= 0
    assert moved[profile.path(1999)[0]] == 0
    for old in range(0, 2000, 7):
        assert cut_totals[moved[old]] >= totals[old]
        assert kept.names[moved[old]] in [profile.names[each] for each in profile.path(old)]


def test_instructions_hold_the_samples_of_their_function() -> None:
    """Those of stray offsets apart; lines are told once each; waits say for what."""
    page = CodeData(small())
    unit = page.document()["units"][page.unit_of(SCALE)]
    sass = unit["sass"]
    assert sum(sass["samples"]) == unit["samples"] - 3
    assert sass["text"][7] == "FFMA R5, R4, R4, R5"
    file, line = sass["places"][sass["place"][7]]
    assert (page.document()["files"][file]["name"], line) == (FILE, 5)
    assert len({tuple(place) for place in sass["places"]}) == len(sass["places"])
    stalls = page.document()["stalls"]
    assert dict(zip(sass["stalls"][7][::2], sass["stalls"][7][1::2])) == {
        stalls.index("long_scoreboard"): 8200, stalls.index("wait"): 1000,
        stalls.index("selected"): 300,
    }  # fmt: skip
    assert sass["not_issued"][7] == 6000
    assert [7, stalls.index("long_scoreboard"), 0x50, "R4, scoreboard 0"] in sass["blames"]


def test_a_function_without_code_says_why() -> None:
    """And has no instructions."""
    page = CodeData(small())
    unit = page.document()["units"][page.unit_of("library_gemm")]
    assert unit["sass"] is None
    assert unit["note"] == "its cubin is not known"


def test_too_much_machine_code_is_left_out() -> None:
    """The hottest functions have theirs; the others say where it is shown."""
    page = CodeData(large(10, 60, 500)).document()
    lengths = [len(unit["sass"]["text"]) if unit["sass"] else 0 for unit in page["units"]]
    assert lengths == [500] * 40 + [0] * 20
    assert page["units"][-1]["note"] == "too long for this page; `tileprof view --sass` shows it"


def test_no_profile_makes_a_page_too_heavy() -> None:
    """Three times as much of everything as there is room for: 6 MB, and the hottest is there."""
    made = large(60_000, 120, 500).program.profile
    held = made.tables
    sources = {**held.sources, "/code/other.cu": "int i;\n" * 400_000}
    code = KernelInfo("k", "cuda:0", code="a = b;\n" * 400_000, code_language="cuda")
    nodes = {made.find(kind="kernel")[0]: 0}
    tables = replace(held, sources=sources, kernels=(code,), node_kernels=nodes)
    page = report_page(report(replace(made, tables=tables), finding()))
    assert 3_000_000 < len(page.encode()) <= 6_000_000


def test_cuda_lines_belong_to_the_source_line_named_before_them() -> None:
    """A `#line` of kept code holds up to the next one."""
    code = 'a\n#line 7 "k.py"\nb\nc\r\n#line 9\nd\n'
    info = KernelInfo("k", "cuda:0", code=code, code_language="cuda", source_file="k.py")
    tables = Tables(kernels=(info,), node_kernels={0: 0})
    made = report(profile_of(node("kernel", "k", time=5), tables=tables))
    text = CodeData(made).document()["units"][0]["texts"][0]
    assert text["label"] == "CUDA"
    assert text["lines"] == [0, 7, 7, 7, 9, 9]
    assert len(text["text"].split("\n")) == 6


def test_texts_of_other_compilers_are_there() -> None:
    """TTGIR and PTX of the cubin that a function is of."""
    profile = pc_profile()
    texts = {("ab" * 32, "ptx"): PcText.of("ld.global\n"), ("cd", "ptx"): PcText.of("other")}
    tables = replace(profile.tables, pc=replace(profile.tables.pc, texts=texts))
    page = CodeData(report(replace(profile, tables=tables))).document()
    made = [[text["label"], text["text"]] for unit in page["units"] for text in unit["texts"]]
    assert made == [["PTX", "ld.global"]]


def test_lines_of_sites_are_weighed() -> None:
    """By the time of blocks there, where nothing is known of instructions."""
    unit = CodeData(sited()).document()["units"][0]
    assert unit["lines"] == [[0, 2, 5], [0, 3, 75]]
    assert (unit["weight"], unit["measure"], unit["sass"]) == (80, "ns", None)


def test_real_recordings_have_a_page() -> None:
    """Of 16 kernels with a known problem each: their code, their lines, their kernels."""
    page = held(report_page(report_of("h200-stalls")))
    assert len(page["code"]["units"]) == len(page["kernels"]["name"]) == 16
    spilled = page["kernels"]["name"].index("spilled")
    unit = page["code"]["units"][page["kernels"]["unit"][spilled]]
    assert unit["title"] == "spilled"
    assert any("STL" in text for text in unit["sass"]["text"])
    assert page["kernels"]["registers"][spilled] == 32
    gemm = held(report_page(report_of("h200-gemm")))
    assert [text["label"] for text in gemm["code"]["units"][0]["texts"]] == ["CUDA", "tile IR"]


def test_a_page_is_written(tmp_path: Path) -> None:
    """As UTF-8, to a path or a string."""
    write_html(small(), tmp_path / "a.html")
    write_html(small(), str(tmp_path / "b.html"))
    assert (tmp_path / "a.html").read_text("utf-8") == report_page(small())
    assert (tmp_path / "b.html").read_bytes() == (tmp_path / "a.html").read_bytes()


def test_a_page_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """With the file and the reason."""
    with pytest.raises(OutputError, match=r"cannot write .*no/page\.html: No such file"):
        write_html(small(), tmp_path / "no" / "page.html")


def test_an_empty_profile_has_a_page() -> None:
    """Without kernels, metrics or findings."""
    page = held(report_page(report(profile_of())))
    assert page["tree"]["parents"] == []
    assert page["findings"] == []
    assert page["code"]["units"] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("text", ["text", "quiet", "accent", "suggestion", "symptom", "warning"])
def test_texts_can_be_read(theme: str, text: str) -> None:
    """Contrast of at least 4.5 to 1 with page and panel, as WCAG 2.1 (1.4.3) asks for."""
    blocks = re.findall(r"--page[^}]*", ASSETS["style.css"])
    colors = dict(re.findall(r"--([\w-]+): (#\w{6})", blocks[("light", "dark").index(theme)]))

    def luminance(name: str) -> float:
        parts = [int(colors[name][i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for ground in ("page", "panel", "raised"):
        low, high = sorted((luminance(text), luminance(ground)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, ground


def test_findings_of_a_program_have_a_place_without_a_kernel() -> None:
    """No unit and no node where there is none of that name."""
    made: Report = report(pc_profile(), finding("symptom", "elsewhere", 1))
    first = report_data(made)["findings"][0]
    assert (first["unit"], first["node"]) == (-1, -1)
