"""Costs beside the source."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies_profile import profiles
from tests.viewer.samples import node, profile_of, with_children
from tileprof.errors import UsageError
from tileprof.profile import KernelInfo, Profile, Tables
from tileprof.viewer import ViewOptions, render_lines, render_view
from tileprof.viewer.code.line_costs import line_costs
from tileprof.viewer.text import width_of

KERNEL = """\
def matmul(A, B):
    with T.Kernel(16, 16):
        for k in T.Pipelined(8):
            with T.scope("load"):
                T.copy(A, a)
                T.copy(B, b)
            with T.scope("multiply"):
                T.gemm(a, b, c)
        T.copy(c, C)
"""


def sample(tables: Tables | None = None) -> Profile:
    """A kernel with two scopes, launched by a script; copies carry no place of their own."""
    return profile_of(
        with_children(
            node("frame", "main", "/w/train.py:3", time=2_000),
            with_children(
                node("kernel", "matmul", "/w/kernels.py:1", time=400_000, bytes=4e6),
                node("site", "load", "/w/kernels.py:4", time=1_000_000),
                node("site", "multiply", "/w/kernels.py:7", time=1_600_000),
            ),
            node("memcpy", "host to device", time=38_000, bytes=4096),
        ),
        node("idle", "idle", time=60_000),
        tables=tables
        or Tables(
            sources={"/w/kernels.py": KERNEL, "/w/train.py": "import k\n\nk.matmul(a, b)\n"},
            provenance={"command": "train.py"},
        ),
    )


def test_lines_stand_beside_their_cost(golden: Callable[..., None]) -> None:
    """Only surroundings of costs are shown; the rest is accounted for below."""
    golden(render_view(sample(), ViewOptions(metrics=("time", "bytes")), "lines"))


def test_small_lines_fold(golden: Callable[..., None]) -> None:
    """A threshold leaves the hottest lines."""
    golden(render_view(sample(), ViewOptions(threshold=20), "lines", width=60, unicode=False))


def test_a_kernels_own_source_serves_where_the_file_is_not_there() -> None:
    """Text comes from the kernel table, from the line on which the kernel starts."""
    kernel = KernelInfo("matmul", "cpu", source=KERNEL, source_file="/w/kernels.py", source_line=1)
    text = render_view(sample(Tables(kernels=(kernel,))), ViewOptions(), "lines")
    assert re.search(r"1\.60 ms +51\.6 .* 7 +with T\.scope\(\"multiply\"\):", text)
    assert "The profile does not hold the text of /w/train.py." in text


def test_only_sums_can_be_split_by_line() -> None:
    """Rates and extremes are refused with the names that work."""
    message = "`avg_time` does not add up over the visits of a line\nWith --lines use: time, bytes."
    profile = profile_of(node("scope", "s", "a.py:1", time=1, bytes=1, count=1))
    with pytest.raises(UsageError, match=re.escape(message.replace("bytes.", "count, bytes."))):
        render_view(profile, ViewOptions(metrics=("avg_time",)), "lines")


def test_an_empty_profile_says_so() -> None:
    """Nothing recorded is a sentence."""
    assert render_view(profile_of(), ViewOptions(), "lines").startswith("The profile is empty")


@given(profiles(), st.integers(40, 100), st.booleans())
def test_no_line_is_wider_than_asked(profile: Profile, width: int, unicode: bool) -> None:
    """Lines fit whatever a profile holds."""
    text = render_lines(profile, ViewOptions(threshold=0), width, False, unicode)
    assert max(map(width_of, text.splitlines())) <= width


def test_time_in_libraries_is_that_of_the_line_that_calls_them() -> None:
    """As in the tree; `--frames all` shows lines of libraries, whose texts no profile holds."""
    library = "/env/lib/python3.12/site-packages/torch/nn/modules/"
    profile = profile_of(
        with_children(
            node("frame", "<module>", "/w/train.py:2", cpu_time=3),
            with_children(
                node("frame", "Module._call_impl", f"{library}module.py:1790", cpu_time=10),
                with_children(
                    node("frame", "Linear.forward", f"{library}linear.py:134", cpu_time=20),
                    node("op", "aten::linear", cpu_time=67),
                ),
            ),
        ),
        tables=Tables(sources={"/w/train.py": "import torch\nmodel(x)\n"}),
    )
    held = line_costs(profile, ViewOptions()).costs
    assert held == {"/w/train.py": {2: (100.0,)}}
    every = line_costs(profile, ViewOptions(frames="all")).costs
    assert {file.rpartition("/")[2]: lines for file, lines in every.items()} == {
        "train.py": {2: (3.0,)}, "module.py": {1790: (10.0,)}, "linear.py": {134: (87.0,)}
    }  # fmt: skip
