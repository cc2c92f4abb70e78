"""Tensors that a Triton kernel stores and that nothing reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import Made, only, program
from tileprof.analyzer.program.host_passes import unread_tensors
from tileprof.errors import Location
from tileprof.profile import LaunchVariant, TensorArgument

KERNEL = """\
import torch
import triton
import triton.language as tl

@triton.jit
def scale(x, out, seen, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    held = tl.load(x + at, mask=at < count)
    tl.store(seen + at, held, mask=at < count)
    tl.store(out + at, 2 * held, mask=at < count)

def run(x, given):
    out = torch.empty_like(x)
"""
LAUNCH = "scale[g](x, out, seen, n, 64)"
SEEN = "seen = torch.empty_like(x)"
STORE = KERNEL[: KERNEL.index("tl.store")].count("\n") + 1
PEAKS = {"hbm_read": 4e12, "hbm_copy": 4e12, "hbm_write": 4e12}


def text(*statements: str) -> str:
    """The kernel, and a function of these statements."""
    return KERNEL + "".join(f"    {each}\n" for each in statements)


@pytest.mark.parametrize(
    ("statements", "unread"),
    [
        ((SEEN, LAUNCH, "return out"), ["seen"]),
        ((SEEN, "for _ in range(3):", f"    {LAUNCH}", "return out, seen.shape"), ["seen"]),
        (("seen = x.new_zeros(4)", LAUNCH, "return out"), ["seen"]),
        ((SEEN, LAUNCH, "return out, seen"), []),
        ((SEEN, LAUNCH, "given.append(seen)", "return out"), []),
        ((SEEN, LAUNCH, "other = seen", "return out"), []),
        ((SEEN, LAUNCH, "def read(): return seen", "return out"), []),
        (("seen = given", LAUNCH, "return out"), []),
        (("seen = given.view(4)", LAUNCH, "return out"), []),
        (("scale[g](x, out, given, n, 64)", "return out"), []),
        ((SEEN, LAUNCH), []),
        ((SEEN, "scale[g](seen, out, x, n, 64)", "return out"), []),
    ],
    ids=["local", "in a loop", "zeros", "returned", "kept", "another name", "closure",
         "from outside", "a view", "argument", "nothing is used", "loaded"],
)  # fmt: skip
def test_tensors_that_nothing_reads(statements: tuple[str, ...], unread: list[str]) -> None:
    """Only those that the function makes, and that nobody but the launch can get at."""
    held = unread_tensors({"run.py": text(*statements)}, (), "scale")
    assert [each.tensor for each in held] == unread
    assert all(each.stores == (STORE,) for each in held)


def test_gain_of_a_store_for_nobody() -> None:
    """A third of what a kernel near the roof moves: 4 of 12 GB, which take 3.0 of 3.3 ms."""
    made = Made(name="scale", time=3.3e6, metrics={"bytes": 12e9})
    source = text(SEEN, LAUNCH, "return out")
    variant = LaunchVariant(
        "scale", Location("run.py", source[: source.index(LAUNCH)].count("\n") + 1), 3, 0,
        (TensorArgument("seen", "float32", int(1e9), 4, 0),),
    )  # fmt: skip
    held = program(made, peaks=PEAKS)
    tables = replace(held.tables, sources={"run.py": source}, launches=(variant,))
    finding = only(replace(held, tables=tables), "redundant-traffic")
    assert finding.place.location == Location("run.py", STORE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.low < 3 / 2 < finding.kernel_gain.high
    assert finding.kernel_gain.mid == pytest.approx(3 / 2, rel=0.1)
    of_unknown_size = replace(held, tables=replace(tables, launches=()))
    assert only(of_unknown_size, "redundant-traffic").severity == "warning"
