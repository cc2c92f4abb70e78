"""Triton kernels of which one loads what the one before it stored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import found, only
from tests.analyzer.steps import FILE, MS, Step
from tileprof.analyzer.program.triton.calls import (
    HandedOver,
    handed_over,
    handed_over_unnamed,
)
from tileprof.errors import Location
from tileprof.profile import LaunchVariant, Metric, Origin, Profile, TensorArgument

KERNELS = """\
import triton
import triton.language as tl

@triton.jit
def silu(x, out, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    held = tl.load(x + at, mask=at < count)
    tl.store(out + at, held / (1 + tl.exp(-held)), mask=at < count)

@triton.jit
def multiply(x, y, out, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, tl.load(x + at) * tl.load(y + at), mask=at < count)

@triton.jit
def product(a, b, out):
    tl.store(out, tl.dot(tl.load(a), tl.load(b)))

def train():
    for _ in range(20):
"""
FIRST = "silu[grid](normed, active, count, 128)"
SECOND = "multiply[grid](active, gate, result, count, 128, num_warps=1)"
LINE = KERNELS.count("\n") + 1


def text(*statements: str) -> str:
    """The kernels, and a loop of statements."""
    return KERNELS + "".join(f"        {each}\n" for each in statements)


def test_what_one_stores_and_the_next_loads() -> None:
    """Both statements give one name, for whichever parameters; it is the tensor handed over."""
    pair = HandedOver("active", "silu", "multiply", LINE, LINE + 1)
    assert handed_over(text(FIRST, SECOND)) == (pair,)
    assert handed_over(text(FIRST, "multiply[grid](gate, active, result, count, 128)")) == (pair,)
    assert handed_over(text(FIRST, "multiply[grid](x=gate, y=active, out=a, count=n)")) == (pair,)
    later = HandedOver("active", "silu", "multiply", LINE, LINE + 2)
    assert handed_over(text(FIRST, "result = torch.empty_like(active)", SECOND)) == (later,)


@pytest.mark.parametrize(
    "statements",
    [
        (FIRST, "multiply[(rows,)](active, gate, result, count, 128)"),
        (FIRST, "x = active.sum()", SECOND),
        (FIRST, "multiply[grid](gate, normed, active, count, 128)"),
        (FIRST, "multiply[grid](*both, result, count, 128)"),
        (FIRST, "product[grid](active, gate, result)"),
        ("multiply[grid](gate, gate, normed, count, 128)", SECOND),
        (FIRST, "multiply(active, gate, result)"),
        (FIRST, "later[grid](active)"),
    ],
    ids=["another grid", "a statement between", "both load it", "arguments not told", "a product",
         "other names", "no launch", "a kernel not told"],
)  # fmt: skip
def test_what_is_handed_over_in_no_known_way(statements: tuple[str, ...]) -> None:
    """Nothing is said."""
    assert handed_over(text(*statements)) == ()


def test_tensor_that_was_seen_under_two_names() -> None:
    """A tensor is handed over that the first launch stored and the second got under another name;
    not one that a third launch stored."""
    origin = Origin("silu", LINE, "out")
    active = TensorArgument("x", "float32", 64, 4, 0, origin)
    place = Location(FILE, LINE + 1)
    statements = text(FIRST, SECOND.replace("(active", "(active.view(-1)"))
    assert handed_over(statements) == ()
    for made, expected in (
        (active, "active.view(-1)"),
        (replace(active, origin=None), ""),
        (replace(active, origin=replace(origin, line=LINE - 1)), ""),
        (replace(active, parameter="out"), ""),
    ):
        seen = [LaunchVariant("multiply", place, 2, 0, (made,))]
        assert "".join(each.tensor for each in handed_over(statements, FILE, seen)) == expected


def test_text_that_is_no_python() -> None:
    """Nothing is raised."""
    assert handed_over("def (") == ()


def block(*statements: str, moved: float = 3.0) -> Profile:
    """Two kernels of 10 ms a step at the last statements' lines, which move 2 and `moved` times
    8 GB; beside them one of 20 ms. The memory gives 4 TB/s."""
    step = Step()
    step.builder.declare(Metric("bytes", "bytes"))
    for name, line, parts in (("silu", LINE, 2.0), ("multiply", LINE + 1, moved)):
        call = step.frame(step.top, "train", line)
        kernel = step.launch(call, name, 10 * MS)
        step.builder.add(kernel, "bytes", parts * 8e9 * 20)
    step.launch(step.frame(step.top, "train", LINE + 2), "softmax", 20 * MS)
    held = step.profile({"hbm_read": 4e12})
    peaks = tuple(replace(each, unit="bytes/s") for each in held.tables.device_peaks)
    sources = {FILE: text(*statements)}
    return replace(held, tables=replace(held.tables, sources=sources, device_peaks=peaks))


def test_one_kernel_in_place_of_two() -> None:
    """10 ms become 1 likely, 5 at least; at most 6 are left of 20, for 24 GB."""
    finding = only(block(FIRST, SECOND), "fusion")
    assert finding.title == "silu and multiply exchange active through memory"
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx((40 / 35, 40 / 31, 40 / 26))
    assert finding.static[0].text == (
        f"multiply (line {LINE + 1}) loads active, which silu (line {LINE}) stored, over the same"
        " grid"
    )


def test_no_more_goes_than_moving_the_tensor_takes() -> None:
    """Of 2 GB: an eighth of the first kernel's 10 ms, and a twelfth of the second one's."""
    profile = block(FIRST, SECOND)
    tensor = TensorArgument("x", "float32", int(5e8), 4, 0)
    seen = (LaunchVariant("multiply", Location(FILE, LINE + 1), 2, 0, (tensor,)),)
    told = replace(profile, tables=replace(profile.tables, launches=seen))
    gain = only(told, "fusion").program_gain
    assert gain is not None
    assert gain.low == gain.mid == pytest.approx(40 / (40 - 10 / 8 - 10 / 12), rel=1e-3)


def test_kernels_that_nothing_is_handed_over_between() -> None:
    """The same times, another text; and kernels whose bytes are not known."""
    assert not found(block(FIRST, SECOND.replace("active", "other")), "fusion")
    assert not found(block(FIRST, SECOND, moved=0), "fusion")


def in_functions(y: Origin | None, often: int, blocks: float) -> Profile:
    """The same kernels, launched by functions of their own, as the recorder saw it."""
    silu = "def activate(x):\n    silu[grid](x, out, count, 128)\n"
    other = "def gate(x, y):\n    multiply[grid](x, y, result, count, 128)\n"
    kernels = KERNELS.partition("def train")[0]
    at = kernels.count("\n") + 2
    origin = Origin("silu", at, "out")
    given = (
        TensorArgument("x", "float32", 2_000_000_000, 4, 0, origin),
        TensorArgument("y", "float32", 2_000_000_000, 4, 1, y),
    )
    launches = (
        LaunchVariant("silu", Location(FILE, at), 11, 0, ()),
        LaunchVariant("multiply", Location(FILE, at + 2), often, 0, given),
    )
    step = Step()
    step.builder.declare(Metric("bytes", "bytes"))
    for name, line, each in (("silu", at, 20.0), ("multiply", at + 2, blocks)):
        kernel = step.launch(step.frame(step.top, name, line), name, 10 * MS)
        step.builder.add(kernel, "bytes", 2 * 8e9 * 20)
        step.builder.add(kernel, "blocks", each)
    held = step.profile({"hbm_read": 4e12}, sources={FILE: kernels + silu + other})
    peaks = tuple(replace(each, unit="bytes/s") for each in held.tables.device_peaks)
    return replace(held, tables=replace(held.tables, launches=launches, device_peaks=peaks))


@pytest.mark.parametrize(
    ("y", "often", "blocks", "count"),
    [
        (None, 11, 20.0, 1),
        (Origin("product", 40, "out"), 11, 20.0, 0),
        (None, 5, 20.0, 0),
        (None, 11, 40.0, 0),
        (None, 11, 0.0, 0),
    ],
    ids=["alone", "beside another kernel's", "less often", "another grid", "blocks not known"],
)
def test_tensor_between_functions_of_their_own(
    y: Origin | None, often: int, blocks: float, count: int
) -> None:
    """Recorded launches tell which kernel wrote a tensor, if no function launches both kernels."""
    profile = in_functions(y, often, blocks)
    titles = [each.title for each in found(profile, "fusion")]
    assert titles == ["silu and multiply exchange x through memory"] * count
    sources, launches = profile.tables.sources, profile.tables.launches
    assert len([*handed_over_unnamed(sources, launches[1:])]) == 0
