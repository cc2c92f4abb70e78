"""Casts, copies and fills of whole tensors around one Triton kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import found, only
from tests.analyzer.steps import FILE, MS, Step
from tileprof.analyzer.program.host_passes import host_passes
from tileprof.analyzer.program.triton_kernels import triton_kernels
from tileprof.profile import Metric, Profile

KERNELS = """\
import torch
import triton
import triton.language as tl

@triton.jit
def scale(x, factors, out, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    real = at < count
    held = tl.load(x + at, mask=real).to(tl.float32)
    tl.store(out + at, held * tl.load(factors), mask=real)

@triton.jit
def add_up(x, out, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.atomic_add(out, tl.sum(tl.load(x + at, mask=at < count)))

@triton.jit
def scatter(x, rows, out, block: tl.constexpr):
    at = tl.arange(0, block)
    row = tl.load(rows + tl.program_id(0))
    tl.store(out + row * block + at, tl.load(x + tl.program_id(0) * block + at))

@triton.jit
def lower(x, out, count, block: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, block)
    tl.store(out + row * count + at, tl.load(x + row * count + at), mask=at <= row)

@triton.jit
def in_place(x, count, block: tl.constexpr):
    at = x + tl.program_id(0) * block + tl.arange(0, block)
    tl.store(at, tl.load(at) + 1)

def train(x, rows, factors):
"""
FIRST = KERNELS.count("\n") + 1
"""Line of a function's first statement."""
EMPTY = "out = torch.empty(n, dtype=torch.float32)"


def passes(*statements: str) -> list[tuple[str, bool, str, int]]:
    """Return the passes found in a function of these statements: how, whether after the kernel, the
    call, its line."""
    text = KERNELS + "".join(f"    {each}\n" for each in statements)
    held = host_passes(text, triton_kernels(text))
    return [(each.how, each.result, each.call, each.lines[0] - FIRST) for each in held]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["scale[g](x.float(), factors, out, n, 64)"], ("widened", False, "x.float()", 0)),
        (["y = x.to(torch.float32)", "m = y.shape", "scale[g](y, factors, out, n, block=64)"],
         ("widened", False, "x.to(torch.float32)", 0)),
        (["scale[g](torch.clone(x), factors, out, n, 64)"],
         ("copied", False, "torch.clone(x)", 0)),
        (["out = torch.zeros_like(x)", "scale[g](x, factors, out, n, 64)", "return out"],
         ("filled", False, "torch.zeros_like(x)", 0)),
        ([EMPTY, "scale[g](x, factors, out, n, 64)", "return out.to(torch.bfloat16)"],
         ("narrowed", True, "out.to(torch.bfloat16)", 2)),
        ([EMPTY, "scale[g](x, factors, out, n, 64)", "result.copy_(out)"],
         ("copied", True, "result.copy_(out)", 2)),
    ],
    ids=["widened", "widened before", "cloned", "zeros", "narrowed", "copied after"],
)  # fmt: skip
def test_passes_that_one_kernel_alone_needs(
    statements: list[str], expected: tuple[str, bool, str, int]
) -> None:
    """Its kind, its text, and where it is."""
    assert passes(*statements) == [expected]


@pytest.mark.parametrize(
    "statements",
    [
        ["y = x.float()", "scale[g](y, factors, out, n, 64)", "return y.sum()"],
        ["y = x.clone()", "x.add_(1)", "scale[g](y, factors, out, n, 64)"],
        ["scale[g](x.clone(), factors, x, n, 64)"],
        ["y = x.clone()", "in_place[g](y, n, 64)"],
        ["scale[g](x.contiguous(), factors, out, n, 64)"],
        ["scale[g](x.half(), factors, out, n, 64)"],
        ["out = torch.zeros(1)", "add_up[g](x, out, n, 64)", "return out"],
        ["out = torch.zeros(1)", "add_up[g](x, out, n, 64)", "return out.to(torch.float64)"],
        ["out = torch.zeros_like(x)", "scatter[g](x, rows, out, 64)"],
        ["out = torch.zeros_like(x)", "lower[g](x, out, n, 64)"],
        ["out = torch.zeros_like(x)", "in_place[g](out, n, 64)"],
        ["out = torch.zeros_like(x)", "print(out)", "scale[g](x, factors, out, n, 64)"],
        [EMPTY, "scale[g](x, factors, out, n, 64)", "return out, out.to(torch.bfloat16)"],
        ["scale[g](*given)"],
    ],
    ids=["used again", "changed meanwhile", "written over", "in place", "another order",
         "narrower input", "atomics", "sums of atomics", "rows that memory names",
         "a part is stored", "read and written", "read before", "both are wanted",
         "arguments not told"],
)  # fmt: skip
def test_passes_that_something_needs(statements: list[str]) -> None:
    """Nothing is said."""
    assert passes(*statements) == []


CAST = "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda>"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >"


def recorded(
    text: str, kernel: str, blocks: float = 0, lines: tuple[int, int] | None = (2, 1)
) -> Profile:
    """A step of 40 ms: 10 of a pass, 30 of a kernel that moves 100 GB; the memory gives 4 TB/s.

    `lines`: of the pass and of the launch, after the first statement; None: none were recorded.
    """
    step = Step()
    step.builder.declare(Metric("bytes", "bytes"))
    for name, time, line in zip((kernel, "scale"), (10, 30), lines or (0, 0)):
        above = step.frame(step.top, "train", FIRST + line) if lines else -1
        node = step.launch(above, name, time * MS)
        step.builder.add(node, *(("bytes", 20 * 1e11) if name == "scale" else ("blocks", blocks)))
    held = step.profile({"hbm_read": 4e12}, sources={FILE: KERNELS + text})
    peaks = tuple(replace(each, unit="bytes/s") for each in held.tables.device_peaks)
    return replace(held, tables=replace(held.tables, device_peaks=peaks))


NARROWED = f"""\
    {EMPTY}
    scale[g](x, factors, out, n, 64)
    return out.to(torch.bfloat16)
"""


@pytest.mark.parametrize("lines", [(2, 1), None], ids=["lines", "no lines"])
def test_gain_of_a_result_in_the_type_that_is_wanted(lines: tuple[int, int] | None) -> None:
    """10 ms go, and 2 bytes of 6.1 billion elements: 3.1 ms of memory's time for the kernel."""
    profile = recorded(NARROWED, CAST, 20 * 6e6, lines)
    finding = only(profile, "needless-pass")
    assert finding.title == "out.to(torch.bfloat16) is a pass over all that scale wrote"
    place, gain = finding.place, finding.program_gain
    assert place.kernel == "scale"
    assert place.location is not None
    assert place.location.line == FIRST + 2
    assert gain is not None
    assert gain.mid == pytest.approx(40 / (30 - 3.072), rel=1e-3)
    assert gain.low < 40 / 30 < gain.mid < gain.high
    assert not found(profile, "layout-copies")


def test_zeros_of_more_than_the_kernel_moves_stay() -> None:
    """A kernel that moves 100 GB a step does not store all of 512 GB; of 5 GB it may."""
    text = """\
    out = torch.zeros(n, dtype=torch.float32)
    scale[g](x, factors, out, n, 64)
"""
    for blocks, count in ((20 * 2.5e8, 0), (20 * 2.5e6, 1)):
        assert len(found(recorded(text, FILL, blocks, (0, 1)), "needless-pass")) == count


def test_fill_that_no_text_has() -> None:
    """Beside a kernel that stores all of a tensor, it is told with a condition, and as unsure."""
    text = "    scale[g](x, factors, out, n, 64)\n"
    finding = only(recorded(text, FILL, 20 * 2.5e6, None), "needless-pass")
    assert finding.confidence == "low"
    assert "If scale stores all of that tensor" in finding.author
    assert not found(recorded(text, FILL, 20 * 2.5e6, (5, 0)), "needless-pass")


def test_two_passes_of_a_line_are_one_finding() -> None:
    """Which of the kernels that the line launches is of which call, nobody knows."""
    text = "    scale[g](x.float(), factors.float(), out, n, 64)\n"
    finding = only(recorded(text, CAST, 0, (0, 0)), "needless-pass")
    assert finding.title.startswith("x.float() and factors.float() is a pass over all of x and")
