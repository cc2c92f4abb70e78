"""Samples inside kernels as a reader sees them: shares with intervals, none from too few."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable

import pytest

from tileprof.errors import Location
from tileprof.profile import KernelInfo, Metric, Profile, Tables, TreeBuilder
from tileprof.profile.shares import Share
from tileprof.viewer import ViewOptions, available_metrics, render_view
from tileprof.viewer.sample_shares import share_notes, share_text

US = 1000
SOURCE = "@jit\ndef gemm(A, B):\n    T.copy(A)\n    T.copy(B)\n    T.gemm(A, B)\n    T.copy(C)\n"
SAMPLED = KernelInfo(
    "gemm", "cuda:0", source=SOURCE, source_file="k.py", source_line=1,
    attributes={"instrument": "sample"},
)  # fmt: skip


@pytest.fixture
def profile() -> Profile:
    """A kernel with roles, one without that was hardly seen, and one that nobody saw."""
    builder = TreeBuilder()
    for name in ("kernel_samples", "looks", "consumer_samples", "consumer_looks",
                 "producer_samples", "producer_looks"):  # fmt: skip
        builder.declare(Metric(name, "1"))
    frame = builder.child(-1, "frame", "main", Location("main.py", 7))
    kernels = {
        builder.child(frame, "kernel", name, Location("k.py", 2)): 0
        for name in ("gemm", "softmax", "tiny")
    }
    gemm, softmax, tiny = kernels
    for node, time in ((gemm, 100), (softmax, 50), (tiny, 10)):
        builder.add(node, "time", time * US)
        builder.add(node, "count", 1)
    builder.add(gemm, "consumer_looks", 9000)
    builder.add(gemm, "producer_looks", 4000)
    builder.add(softmax, "looks", 40)

    def seen(above: int, name: str, line: int, time: int, consumer: int, producer: int) -> int:
        node = builder.child(above, "site", name, Location("k.py", line))
        builder.add(node, "time", time * US)
        builder.add(kernels_of.get(above, above), "time", -time * US)
        builder.add(node, "kernel_samples", consumer + producer)
        builder.add(node, "consumer_samples", consumer)
        builder.add(node, "producer_samples", producer)
        return node

    kernels_of: dict[int, int] = {}
    loop = seen(gemm, "loop k", 3, 0, 0, 0)
    kernels_of[loop] = gemm
    seen(loop, "wait for a free slot", 3, 20, 0, 3500)
    seen(loop, "load A, B", 3, 4, 0, 500)
    seen(loop, "gemm", 5, 60, 30_000, 0)
    seen(gemm, "write C", 6, 16, 6_000, 0)
    exp = builder.child(softmax, "site", "compute (exp)", Location("k.py", 4))
    builder.add(exp, "kernel_samples", 38)
    builder.add(exp, "time", 45 * US)
    builder.add(softmax, "time", -45 * US)
    few = builder.child(softmax, "site", "write", Location("k.py", 6))
    builder.add(few, "kernel_samples", 2)
    builder.add(few, "time", 5 * US)
    builder.add(softmax, "time", -5 * US)
    return builder.snapshot(Tables(kernels=(SAMPLED,), node_kernels=kernels))


def test_the_tree(profile: Profile, golden: Callable[[str], None]) -> None:
    """Shares stand at sites, how many samples there are at kernels."""
    golden(render_view(profile, ViewOptions(), width=130))


def test_the_lines(profile: Profile, golden: Callable[[str], None]) -> None:
    """A share of the kernels that were seen at the line; not where columns were asked for."""
    golden(render_view(profile, ViewOptions(), "lines", width=130))
    shown = render_view(profile, ViewOptions(metrics=("kernel_samples",)), "lines", width=130)
    assert "of its kernels" not in shown


def test_columns(profile: Profile) -> None:
    """Shares and both ends of their intervals, by role; empty where there were too few."""
    names = [f"{role}share{end}" for role in ("", "consumer_", "producer_")
             for end in ("", "_low", "_high")]  # fmt: skip
    assert set(names) <= set(available_metrics(profile))
    text = render_view(profile, ViewOptions(metrics=tuple(names)), "csv")
    rows = {row["name"]: row for row in csv.DictReader(io.StringIO(text))}
    write = rows["write C"]
    assert float(write["consumer_share_total"]) == pytest.approx(1 / 6)
    low, high = (float(write[f"consumer_share_{end}_total"]) for end in ("low", "high"))
    assert low < 1 / 6 < high
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(5 / 36 / 9000), rel=0.01)
    assert write["share_total"] == write["producer_share_total"] == ""
    assert rows["gemm"]["producer_share_total"] == rows["main"]["share_total"] == ""
    assert float(rows["compute (exp)"]["share_total"]) == pytest.approx(0.95)


def test_a_profile_without_samples() -> None:
    """Offers no such columns and has no such sentence."""
    builder = TreeBuilder()
    builder.add(builder.child(-1, "kernel", "k"), "time", 5)
    profile = builder.snapshot()
    assert not [name for name in available_metrics(profile) if "share" in name]
    assert "samples" not in render_view(profile, ViewOptions())


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (Share("block", 37, math.nan, 0, 1), "– (37 samples)"),
        (Share("block", 1, math.nan, 0, 1), "– (1 sample)"),
        (Share("block", 1234, 0.2494, 0.231, 0.268), "24.9 % (23.1 – 26.8), 1,234 samples"),
        (Share("block", 9, 0.00912, 0.0085, 0.0098), "0.9 % (0.85 – 0.98), 9 samples"),
    ],
)
def test_one_share(share: Share, text: str) -> None:
    """Its interval has the digits that it takes."""
    assert share_text(share) == text
    assert share_notes([share]) == [text]


def test_roles_are_named() -> None:
    """Save where there is only one."""
    (note,) = share_notes([Share("producer", 31, math.nan, 0, 1)])
    assert note == "producer – (31 samples)"
