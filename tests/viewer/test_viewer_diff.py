"""Two profiles compared."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies_profile import profiles
from tests.viewer.samples import matmul, node, profile_of, with_children
from tileprof.errors import UsageError
from tileprof.profile import Profile, Tables, as_shown, diff
from tileprof.viewer import DiffOptions, render_diff
from tileprof.viewer.text import width_of


def later() -> Profile:
    """The script of `matmul` after a change: another softmax, a slower matmul without scopes."""
    return profile_of(
        with_children(
            node("frame", "<module>", "/w/train.py:40"),
            with_children(
                node("frame", "main", "/w/train.py:33", cpu_time=2_000_000),
                with_children(
                    node("scope", "forward", cpu_time=5_000_000, count=3),
                    node("kernel", "matmul", "/w/kernels.py:12", time=3_900_000, bytes=25e6),
                    node("kernel", "softmax_v2", "/w/kernels.py:60", time=100_000, bytes=12e6),
                ),
                node("memcpy", "host to device", time=4_000, count=2, bytes=4096),
            ),
        ),
        tables=Tables(provenance={"command": "train.py --steps 3 --v2", "device": "NVIDIA H200"}),
    )


def shown(options: DiffOptions, width: int = 80, color: bool = False, unicode: bool = True) -> str:
    """The difference of the two samples."""
    return render_diff(diff(matmul(), later()), options, width, color, unicode)


def test_a_diff_in_80_columns(golden: Callable[..., None]) -> None:
    """Old, new, delta and ratio; siblings by the size of the change; marks for one side only."""
    golden(shown(DiffOptions()))


def test_more_metrics_and_ascii(golden: Callable[..., None]) -> None:
    """Other metrics stand beside with their differences; two levels are drawn."""
    golden(shown(DiffOptions(("time", "bytes"), threshold=0, depth=4), unicode=False))


def test_colour_tells_the_direction() -> None:
    """More is red, less is green, and without colour the text is the same."""
    text = shown(DiffOptions(), color=True)
    assert "\x1b[31m +900 µs\x1b[0m" in text
    assert "\x1b[32m -195 µs\x1b[0m" in text
    assert re.sub("\x1b\\[[0-9;]*m", "", text) == shown(DiffOptions())


def test_equal_profiles_differ_in_nothing() -> None:
    """Where nothing changed, one sentence says so, with the limit that it holds for."""
    same = diff(matmul(), matmul())
    assert render_diff(same, DiffOptions(), 80, False, True).splitlines()[2:] == [
        "    old      new  delta  ratio",
        "3.20 ms  3.20 ms      0  1.00×    total",
        "There is no difference above 16.0 µs (0.5 %) in time.",
    ]


def test_small_differences_fold_and_are_accounted_for() -> None:
    """What is left out is counted, with the difference that it makes."""
    text = shown(DiffOptions(threshold=20))
    assert "host to device" not in text
    assert "Folded: 3 nodes, together -96.0 µs." in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (DiffOptions(("tiem",)), "no metric `tiem`"),
        (DiffOptions(threshold=-1), "the threshold -1 is not a percentage"),
    ],
)
def test_a_wrong_option_is_a_usage_error(options: DiffOptions, message: str) -> None:
    """Mistakes in options are answered with a sentence."""
    with pytest.raises(UsageError, match=re.escape(message)):
        shown(options)


def test_empty_profiles_compare_too() -> None:
    """Two empty profiles give a sentence, one empty profile a whole diff."""
    empty = profile_of()
    assert render_diff(diff(empty, empty), DiffOptions(), 80, False, True).startswith("Neither")
    text = render_diff(diff(empty, later()), DiffOptions(), 80, False, True)
    assert re.search(r"4\.00 ms +\+4\.00 ms +\+ +<module>", text)


@given(profiles(), profiles(), st.integers(40, 100), st.booleans(), st.sampled_from([0, 20]))
def test_no_line_is_wider_than_asked(
    old: Profile, new: Profile, width: int, unicode: bool, threshold: float
) -> None:
    """Lines fit whatever two profiles hold."""
    options = DiffOptions(threshold=threshold)
    text = render_diff(diff(old, new), options, width, False, unicode)
    assert max(map(width_of, text.splitlines())) <= width


def test_a_long_difference_is_folded_until_it_fits() -> None:
    """Nobody chose a threshold: the least of some that gives a screen; one that is given holds."""

    def side(factor: int) -> Profile:
        kernels = [node("kernel", f"k{size}", time=factor * 1000 * size) for size in range(1, 41)]
        return profile_of(with_children(node("scope", "main"), *kernels))

    found = diff(side(1), side(3))
    rows = [line for line in render_diff(found, DiffOptions(), 80, False, True).splitlines()
            if "kernel" in line]  # fmt: skip
    assert 10 < len(rows) < 25
    assert "k40" in rows[0]
    whole = render_diff(found, DiffOptions(threshold=0.0), 80, False, True)
    assert whole.count("  kernel") == 40


def test_differences_of_imports_come_last() -> None:
    """They happen once, and differ from run to run."""

    def side(factor: int) -> Profile:
        return profile_of(
            node("frame", "<module>", "/w/a.py:1", cpu_time=factor * 900),
            node("frame", "<module>", "/w/a.py:2", cpu_time=factor * 100),
            tables=Tables(sources={"/w/a.py": "import torch\nrun()\n"}),
        )

    text = render_diff(diff(side(1), side(2)), DiffOptions(), 80, False, True)
    assert text.index("a.py:2") < text.index("a.py:1")
    assert "import a.py:1" in text


def test_a_module_compares_though_its_lines_have_moved() -> None:
    """A change above a forward pass gives its lines other numbers; the module is the same node."""

    def side(line: int) -> Profile:
        linear = node("frame", "Linear.forward", "/x/site-packages/torch/nn/linear.py:9")
        layer = with_children(linear, node("op", "aten::linear", cpu_time=100 * line))
        return profile_of(with_children(node("frame", "Net.forward", f"/w/net.py:{line}"), layer))

    found = diff(*(as_shown(side(line), "user").profile for line in (10, 12)))
    assert set(found.status) == {"both"}
