"""Tensors that are laid out or counted for one Triton kernel, and results packed after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import found, only
from tests.analyzer.steps import FILE, MS, Step
from tileprof.analyzer.program.laid_out import laid_out
from tileprof.analyzer.program.triton.kernels import triton_kernels
from tileprof.errors import Location
from tileprof.profile import LaunchVariant, Metric, Profile, TensorArgument

KERNELS = """\
import torch
import triton
import triton.language as tl

@triton.jit
def add(x, real, out, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    kept = tl.load(real + at) != 0
    tl.store(out + 2 * at, tl.load(x + at, mask=kept), mask=kept)

def run(x, y, lengths, n):
"""
COUNTED = "(torch.arange(n, device=x.device) < n).to(torch.int8)"
EMPTY = "out = torch.empty((n, 2), dtype=torch.float32)"


def calls(*statements: str) -> list[tuple[str, str, int]]:
    """Return the kind, the text and the distance of elements of each call that is found."""
    text = KERNELS + "".join(f"    {each}\n" for each in statements)
    return [(e.how, e.call, e.apart) for e in laid_out(text, triton_kernels(text))]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["add[g](x.view(-1, 8).t().contiguous(), y, out, n, 64)"],
         ("turned", "x.view(-1, 8).t().contiguous()", 1)),
        (["y = x.permute(1, 0).contiguous()", "add[g](y, lengths, out, n, 64)"],
         ("turned", "x.permute(1, 0).contiguous()", 1)),
        (["add[g](torch.stack((x, x, x), -1), y, out, n, 64)"],
         ("joined", "torch.stack((x, x, x), -1)", 3)),
        (["both = torch.cat([x, y])", "add[g](both, lengths, out, n, 64)"],
         ("joined", "torch.cat([x, y])", 1)),
        ([f"add[g](x, {COUNTED}, out, n, 64)"], ("counted", COUNTED, 1)),
        ([EMPTY, "add[g](x, y, out, n, 64)", "return out[..., 0].contiguous()"],
         ("packed", "out[..., 0].contiguous()", 2)),
        ([EMPTY, "add[g](x, y, out, n, 64)", "return out.t().contiguous()"],
         ("packed", "out.t().contiguous()", 1)),
    ],
    ids=["turned", "turned before", "copies", "joined", "counted", "a part", "a turned result"],
)  # fmt: skip
def test_what_is_laid_out(statements: list[str], expected: tuple[str, str, int]) -> None:
    """Its kind, its text, and how far apart needed elements are."""
    assert calls(*statements) == [expected]


@pytest.mark.parametrize(
    "statements",
    [
        ["y = x.t().contiguous()", "add[g](y, lengths, out, n, 64)", "return y.sum()"],
        ["add[g](x.contiguous(), y, out, n, 64)"],
        ["add[g](x, torch.arange(n), out, n, 64)"],
        ["add[g](x, (torch.arange(n) < lengths).int(), out, n, 64)"],
        ["add[g](x, (y < n).int(), out, n, 64)"],
        [EMPTY, "add[g](x, y, out, n, 64)", "return out, out[..., 0].contiguous()"],
        [EMPTY, "add[g](x, y, out, n, 64)", "return out.contiguous()"],
        ["add[g](torch.stack((x.sin(), y)), y, out, n, 64)"],
    ],
    ids=["used again", "the same order", "a list", "a tensor's lengths", "data", "both are kept",
         "a whole result", "computed"],
)  # fmt: skip
def test_what_is_needed(statements: list[str]) -> None:
    """Nothing is said of what somebody else uses, or of what is made of data."""
    assert calls(*statements) == []


COPY = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda>"
COMPARE = "void at::native::vectorized_elementwise_kernel<4, at::native::compare_scalar_kernel>"
LINE = KERNELS.count("\n") + 2


def recorded(text: str, *passes: str, elements: int = 0) -> Profile:
    """A step without lines: each pass takes 10 ms, the kernel 30; memory gives 4 TB/s.

    `elements`: of 4 bytes, of the tensor that is stored; 0 where no launch was seen.
    """
    step = Step()
    step.builder.declare(Metric("bytes", "bytes"))
    for name in passes:
        step.launch(-1, name, 10 * MS)
    step.launch(-1, "add", 30 * MS)
    held = step.profile({"hbm_read": 4e12}, sources={FILE: KERNELS + text})
    peaks = tuple(replace(each, unit="bytes/s") for each in held.tables.device_peaks)
    tensor = TensorArgument("out", "float32", elements, 4, 0, None)
    seen = (LaunchVariant("add", Location(FILE, LINE), 1, 0, (tensor,)),) if elements else ()
    return replace(held, tables=replace(held.tables, device_peaks=peaks, launches=seen))


PACKED = f"    {EMPTY}\n    add[g](x, y, out, n, 64)\n    return out[..., 0].contiguous()\n"


def test_a_pass_over_a_result_and_sectors_that_are_half_written() -> None:
    """10 ms go; of 8 GB that are stored apart 4 are needed, and three times as many move in vain:
    1 ms for each 4 GB."""
    profile = recorded(PACKED, COPY, elements=2_000_000_000)
    gain = only(profile, "needless-pass").program_gain
    assert gain is not None
    assert gain.mid == pytest.approx(40 / (30 - 3), rel=0.02)
    alone = only(recorded(PACKED, COPY), "needless-pass").program_gain
    assert alone is not None
    assert alone.mid == pytest.approx(40 / 30, rel=0.02)


def test_all_kernels_that_count() -> None:
    """An index, a comparison and a cast are three passes."""
    text = f"    add[g](x, {COUNTED}, out, n, 64)\n"
    finding = only(recorded(text, "at::native::arange_cuda_out", COMPARE, COPY), "needless-pass")
    assert finding.program_gain is not None
    assert finding.program_gain.mid == pytest.approx(2.0, rel=0.02)
    assert "holds nothing but indices" in finding.title


def test_a_pass_that_another_call_may_be() -> None:
    """A recording without lines tells nothing where the text has a second copy."""
    text = "    z = y.clone()\n    print(z)\n" + PACKED
    assert found(recorded(text, COPY), "needless-pass") == []
