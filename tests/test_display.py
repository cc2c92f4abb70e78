"""What a prompt or a notebook shows of a profile, a report and their parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser

import numpy as np
import pytest

import tileprof
from case_studies.vector_add import vector_add
from tests.analyzer.made import report_of, stored
from tests.viewer.samples import matmul, node, profile_of, with_children
from tileprof.analyzer import Report, analyze
from tileprof.profile import Profile, Tables, TreeBuilder, diff

HOSTILE = '<script>alert("x")</script>\x1b]0;t\x07\u202e&' + "long" * 50
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def large() -> Profile:
    """Two thousand nodes with long names that mean harm."""
    builder = TreeBuilder()
    for number in range(2_000):
        kernel = builder.child(-1, "kernel", f"{HOSTILE}{number}")
        builder.add(kernel, "time", number)
        builder.add(kernel, "count", 1)
    return builder.snapshot()


PROFILES: dict[str, Callable[[], Profile]] = {
    "empty": lambda: TreeBuilder().snapshot(),
    "no metric": lambda: profile_of(node("frame", "main")),
    "matmul": matmul,
    "large": large,
    "h200-stalls": lambda: stored("h200-stalls"),
}


class Reader(HTMLParser):
    """Collects tags and text as a browser reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.texts.append(data)


@pytest.mark.spread(without=["large"])
@pytest.mark.parametrize("name", PROFILES)
def test_a_bare_expression_shows_ten_lines_at_most(name: str) -> None:
    """Of profiles and reports, however large, by `repr` and by `str`."""
    profile = PROFILES[name]()
    for shown in (profile, analyze(profile)):
        for text in (repr(shown), str(shown)):
            assert 1 <= len(text.splitlines()) <= 10
            assert len(text) < 1_500
            assert not _CONTROL.search(text)


def test_a_summary_says_what_took_the_time_and_how_to_see_more() -> None:
    """Command, totals and the longest kernels of a recording; then its best suggestions."""
    shown = repr(stored("h200-stalls")).splitlines()
    assert shown[1] == "21 nodes, 16 kernels, time 255 ms, cpu_time 447 ms"
    assert re.fullmatch(r"  16\.3 ms  6\.4 %  kernel  bulk_copy_wait( .*)?", shown[2])
    assert ".text()" in shown[-1]
    report = repr(report_of("h200-stalls")).splitlines()
    assert report[1] == "16 kernels, 255 ms"
    assert "each iteration of a loop stores the same bytes again" in report[3]
    assert ".findings" in report[-1]


@pytest.mark.spread(without=["large"])
@pytest.mark.parametrize("name", PROFILES)
def test_a_notebook_gets_html_in_which_no_name_is_markup(name: str) -> None:
    """A few plain tags with styles alone; names are text."""
    profile = PROFILES[name]()
    report: Report = analyze(profile)
    parts = [each._repr_html_() for each in report.kernels[:3]]
    parts += [each._repr_html_() for each in report.findings[:3]]
    whole = [each._repr_html_() for each in (profile, report, diff(profile, profile))]
    for shown in (*whole, *parts):
        reader = Reader()
        reader.feed(shown)
        assert set(reader.tags) <= {"div", "b", "table", "tr", "td"}
        assert set(reader.attributes) <= {"style"}
        assert len(shown) < (5_000 if shown in whole else 20_000)
        assert not _CONTROL.search(shown)
        if name == "large" and shown == profile._repr_html_():
            assert any("<script>alert" in text for text in reader.texts)


def test_text_has_every_node_and_every_finding() -> None:
    """The whole of what a summary leaves out; deep trees too, whose indent ends somewhere."""
    profile = stored("h200-stalls")
    assert len(profile.text().splitlines()) == len(profile)
    text = report_of("h200-stalls").text()
    assert all(each.title in text for each in report_of("h200-stalls").findings)
    builder = TreeBuilder()
    above = -1
    for _ in range(3_000):
        above = builder.child(above, "frame", "f")
    assert len(builder.snapshot().text()) < 3_000 * 150


def test_parts_of_a_profile_are_short_too() -> None:
    """Tables, kernels, samples, nodes, findings and differences."""
    profile, report = stored("h200-stalls"), report_of("h200-stalls")
    parts = [profile.tables, profile.tables.pc, profile.tables.kernels[0], profile.node(3)]
    parts += [report.program, report.kernels[0], report.findings[0], diff(profile, profile)]
    assert all(len(repr(each)) < 600 for each in parts)


def test_a_difference_says_what_changed_most() -> None:
    """The sums of both sides, then the nodes with the greatest own differences."""
    old = profile_of(node("kernel", "k", time=4e6), node("kernel", "j", time=1e6))
    new = profile_of(node("kernel", "k", time=1e6), node("kernel", "j", time=1.5e6))
    reader = Reader()
    reader.feed(diff(old, new)._repr_html_())
    texts = [each for each in reader.texts if each.strip()]
    assert texts[:2] == ["Diff", "time: 5.00 ms → 2.50 ms, 0.50×"]
    assert texts[2:8] == ["-3.00 ms", "kernel", "k", "+500 µs", "kernel", "j"]


def test_kernels_are_shown_without_being_made() -> None:
    """Name, arguments and place; what it was loaded for once it has run."""

    first = repr(vector_add).splitlines()
    assert first[0] == "Function vector_add(A, B, block) under @tileprof.jit"
    assert re.fullmatch(r"vector_add.py:\d+; \d+ kernels? made of it so far", first[1])
    kernel = vector_add.compile(N=24)
    shown = repr(kernel).splitlines()
    assert shown[0] == "Kernel vector_add(A: float32[24], B: float32[24]) → float32[24]"
    assert shown[1].endswith("; loaded on: no device yet")
    with tileprof.device("interpreter"):
        kernel(np.ones(24, np.float32), np.ones(24, np.float32))
    assert repr(kernel).splitlines()[1].endswith("; loaded on: interpreter")
    assert "→ float32[24]\nvector_add.py" in kernel._repr_html_()


def test_names_of_the_package_are_complete() -> None:
    """`dir` has every public name, also those that are loaded when they are first used."""
    assert set(tileprof.__all__) <= set(dir(tileprof))


def test_a_misspelt_name_of_the_package_names_the_nearest() -> None:
    """`tileprof.analyse` says that there is `analyze`."""
    with pytest.raises(
        AttributeError, match=r"no attribute 'analyse'\. Did you mean: 'analyze'\?$"
    ):
        tileprof.analyse  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'xyzzy'$"):
        tileprof.xyzzy  # noqa: B018
    assert not hasattr(tileprof, "__wrapped__")


def test_a_summary_takes_imports_for_lines_of_the_program() -> None:
    """Not for the many functions that libraries run meanwhile; a session says where it is."""
    library = "/x/site-packages/lib"
    parts = [node("frame", f"f{number}", f"{library}/a.py:{number}", cpu_time=1e6)
             for number in range(1, 30)]  # fmt: skip
    imported = with_children(node("frame", "<module>", "/w/train.py:1"), *parts)
    work = node("frame", "work", "/w/train.py:5", cpu_time=4e6)
    tables = Tables(sources={"/w/train.py": "import lib\n"})
    rows = repr(profile_of(imported, work, tables=tables)).splitlines()[2:4]
    assert [row.split()[5] for row in rows] == ["<module>", "work"]
    session = tileprof.start()
    assert repr(session) == "Session(recording; .finalize() ends it)"
    session.deactivate()
    assert repr(session) == "Session(paused; .finalize() ends it)"
    session.finalize()
    assert repr(session) == "Session(ended; its profile: .profile)"


def test_text_leaves_the_plumbing_out() -> None:
    """Frames of libraries between a program's lines and what they call have no line."""
    library = "/env/lib/python3.12/site-packages/torch/nn/modules/"
    profile = profile_of(
        with_children(
            node("frame", "main", "/w/a.py:1", cpu_time=1),
            with_children(
                node("frame", "Module._call_impl", f"{library}module.py:9", cpu_time=1),
                node("op", "aten::linear", cpu_time=7),
            ),
        )
    )
    lines = profile.text().splitlines()
    assert [line.split()[2:] for line in lines] == [
        ["main", "frame", "a.py:1"],
        ["aten::linear", "op"],
    ]
