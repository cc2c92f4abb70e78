"""Samples beside machine code and source lines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profile.test_profile_pc_samples import sampled_profiles
from tests.viewer.pc_profile import FILE, ROWS, SOURCE, pc_profile
from tests.viewer.samples import matmul, node, profile_of
from tileprof.errors import Location, UsageError
from tileprof.profile import Metric, PcBlame, Profile, Tables, merge
from tileprof.viewer import ViewOptions, render_view
from tileprof.viewer.code.pc_functions import stall_text, user_line
from tileprof.viewer.text import width_of

COUNTED = sum(n for *_, stall, n in ROWS if not stall.endswith("_not_issued"))


def test_hottest_functions(golden: Callable[..., None]) -> None:
    """Code under its source lines, with samples, shares and stalls; the rest is accounted for."""
    golden(render_view(pc_profile(command="scale.py"), ViewOptions(), "sass", width=100))


def test_narrow_and_plain(golden: Callable[..., None]) -> None:
    """Fields give way to the code; ASCII where the terminal has no more."""
    options = ViewOptions(include="scale", threshold=2)
    golden(render_view(pc_profile(), options, "sass", width=60, unicode=False))


def test_blame(golden: Callable[..., None]) -> None:
    """What a stalled instruction waits for stands below it; who is to blame is not folded."""
    golden(render_view(pc_profile(), ViewOptions(threshold=5), "blame", width=110))


def test_lines(golden: Callable[..., None]) -> None:
    """An inlined library function counts for the line that calls it."""
    golden(render_view(pc_profile(), ViewOptions(), "lines", width=110))


def test_a_cause_is_told_whole() -> None:
    """On several lines where it is long; of what blocks by itself, only the name."""
    held = pc_profile().tables.pc
    scale = held.functions[0]
    blames = (PcBlame(0x70, "barrier", 0x60, "IADD3"), *scale.blames)
    functions = (replace(scale, blames=blames), *held.functions[1:])
    profile = pc_profile()
    changed = replace(profile.tables, pc=replace(held, functions=functions))
    text = render_view(replace(profile, tables=changed), ViewOptions(), "blame", width=60)
    assert all(width_of(line) <= 60 for line in text.splitlines())
    said = " ".join(text.split())
    assert "barrier: waits for IADD3 at 0x0060, scale.cu:4 " in said
    assert "waits for LDG.E at 0x0050, scale.cu:5 (R4, scoreboard 0)" in said


def test_functions_can_be_left_out() -> None:
    """By either name; shares stay those of all samples."""
    text = render_view(pc_profile(), ViewOptions(exclude="^_Z5scale"), "sass")
    assert "library_gemm: 840 samples (7.7 %)" in text
    assert "LDG.E" not in text
    found = json.loads(render_view(pc_profile(), ViewOptions(exclude="tiny|gemm"), "sass-json"))
    assert [each["name"] for each in found["functions"]] == ["_Z5scalePKfPfi"]
    with pytest.raises(UsageError, match="matches `tiny`, and not `iny`"):
        render_view(pc_profile(), ViewOptions(include="tiny", exclude="iny"), "sass")


def test_numbers_add_up() -> None:
    """What is printed is all there is: instructions, folded runs, strays, other functions."""
    text = render_view(pc_profile(), ViewOptions(threshold=100), "sass", width=100)
    shares = re.findall(r"instructions?, (\d+\.\d) %", text)
    assert shares == ["100.0"]
    assert f"{COUNTED:,} samples of program counters" in text
    assert "3 samples are at no instruction of it." in text
    assert "Folded: 1 function with 9 samples (0.1 %)" in text
    assert "At 59.3 % of the samples no other warp issued either." in text
    assert "dropped" in text


def test_a_function_is_found_by_either_name() -> None:
    """The readable one and that of the compiler; what does not match is not shown."""
    for pattern in ("scale\\(", "^_Z5scale", "gemm"):
        text = render_view(pc_profile(), ViewOptions(include=pattern), "sass")
        assert ("library_gemm: 840 samples" in text) == (pattern == "gemm")
        assert ("LDG.E" in text) == (pattern != "gemm")
    assert "tiny: 9 samples" in render_view(pc_profile(), ViewOptions(include="tiny"), "sass")


@pytest.mark.parametrize(
    ("profile", "pattern", "said"),
    [
        (matmul(), None, "the profile has no samples of program counters"),
        (pc_profile(), "nothing", "Those with the most are: scale"),
        (pc_profile(), "(", "is not a regular expression"),
    ],
)
def test_refusals(profile: Profile, pattern: str | None, said: str) -> None:
    """Each says what there is instead."""
    with pytest.raises(UsageError, match=re.escape(said)):
        render_view(profile, ViewOptions(include=pattern), "sass")


def test_json() -> None:
    """All numbers, twins apart, with blame and chains of lines."""
    found = json.loads(render_view(pc_profile(), ViewOptions(), "sass-json"))
    assert found["samples"] == COUNTED
    assert [each["name"] for each in found["functions"]] == [
        "_Z5scalePKfPfi", "library_gemm", "tiny",
    ]  # fmt: skip
    scale = found["functions"][0]
    product = next(each for each in scale["instructions"] if each["offset"] == 0x70)
    assert product == {
        "offset": 0x70, "sass": "FFMA R5, R4, R4, R5", "depth": 1,
        "lines": [{"file": "/lib/math.cuh", "line": 40, "function": "square(float)"},
                  {"file": FILE, "line": 5, "function": "scale(float const*, float*, int)"}],
        "samples": 9500,
        "stalls": {"long_scoreboard": 8200, "wait": 1000, "selected": 300},
        "not_issued": {"long_scoreboard": 6000},
        "waits_for": [
            {"stall": "long_scoreboard", "offset": 0x50, "through": "R4, scoreboard 0"},
            {"stall": "wait", "offset": 0x50, "through": "R4, scoreboard 0"},
        ],
    }  # fmt: skip
    for each in found["functions"]:
        inside = sum(one["samples"] for one in each["instructions"])
        assert inside + each["samples_elsewhere"] == each["samples"]
    assert scale["samples_elsewhere"] == 3
    least = json.loads(render_view(pc_profile(), ViewOptions(threshold=50), "sass-json"))
    assert [len(each["instructions"]) for each in least["functions"]] == [1, 1, 1]


def test_json_of_lines() -> None:
    """Samples and reasons by line, beside the tree."""
    found = json.loads(render_view(pc_profile(), ViewOptions(), "lines-json"))
    assert found["nodes"][0]["name"] == "scale(float const*, float*, int)"
    lines = {(each["file"], each["line"]): each for each in found["lines"]}
    assert lines[FILE, 5]["samples"] == 9900
    assert lines[FILE, 5]["text"] == SOURCE.splitlines()[4]
    assert list(lines[FILE, 5]["stalls"].items()) == [
        ("long_scoreboard", 8200), ("wait", 1000), ("selected", 700),
    ]  # fmt: skip
    assert found["samples"] == COUNTED
    assert sum(each["samples"] for each in found["lines"]) == COUNTED - 840 - 9 - 3


def test_the_line_that_counts() -> None:
    """The innermost one whose text is there; the innermost of all where none is."""
    held = pc_profile()
    inner = Location("/lib/a.cuh", 1, caller=Location("/lib/b.cuh", 2))
    assert user_line(held, inner) == ("/lib/a.cuh", 1)
    outer = replace(inner, caller=Location(FILE, 6, caller=Location(FILE, 7)))
    assert user_line(held, outer) == (FILE, 6)
    assert user_line(held, None) is None


def test_reasons_in_short() -> None:
    """Those with a tenth of the samples or more, as many as there is room for."""
    stalls = {"a": 70, "b": 20, "c": 9, "d": 1}
    assert [stall_text(stalls, most) for most in (1, 3)] == ["a 70", "a 70, b 20"]
    assert stall_text({}, 3) == ""


def test_runs_with_several_periods() -> None:
    """Both are told, and samples add up."""
    one, other = pc_profile(), pc_profile()
    held = other.tables.pc
    recordings = (replace(held.recordings[0], period=512, mode="exact"),)
    pc = replace(held, recordings=recordings)
    both = merge([one, replace(other, tables=replace(other.tables, pc=pc))])
    text = render_view(both, ViewOptions(), "sass", width=200)
    assert f"{2 * COUNTED:,} samples of program counters; one each 512 or 4,096 cycles" in text


@given(
    sampled_profiles(), st.integers(40, 130), st.booleans(), st.sampled_from([None, 0, 3.5]),
    st.sampled_from(["sass", "blame", "lines"]),
)  # fmt: skip
def test_any_samples_fit(
    profile: Profile, width: int, unicode: bool, threshold: float | None, view: str
) -> None:
    """No line is wider than asked, nor plain ASCII where that was asked for."""
    metrics = {name for name, metric in profile.metrics.items() if metric.adds == "sum"}
    if view == "lines" and not metrics:
        return
    options = ViewOptions(threshold=threshold)
    text = render_view(profile, options, view, width=width, unicode=unicode)
    assert max(map(width_of, text.splitlines())) <= width
    assert unicode or text.isascii()


def test_colours_change_nothing_else() -> None:
    """Without them the text is the same."""
    for view in ("sass", "blame", "lines"):
        plain = render_view(pc_profile(), ViewOptions(), view, width=100)
        colored = render_view(pc_profile(), ViewOptions(), view, width=100, color=True)
        assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain != colored


def test_without_tables_lines_stay() -> None:
    """A profile without samples of program counters has no columns for them."""
    text = render_view(replace(pc_profile(), tables=Tables()), ViewOptions(), "lines")
    assert "stalls" not in text


def test_the_tree_says_how_samples_came_to_nodes() -> None:
    """Dealt out where call paths were not known, and only then."""
    held = pc_profile()
    counted = profile_of(
        node("kernel", "scale", time=1, pc_samples=7),
        tables=held.tables,
        metrics={"pc_samples": Metric("pc_samples", "1")},
    )
    options = ViewOptions(metrics=("pc_samples",))
    assert "dealt out over its kernels by their time" in render_view(counted, options)
    exact = replace(held.tables.pc.recordings[0], mode="exact")
    tables = replace(held.tables, pc=replace(held.tables.pc, recordings=(exact,)))
    assert "dealt out" not in render_view(replace(counted, tables=tables), options)
    assert "dealt out" not in render_view(counted, ViewOptions())
