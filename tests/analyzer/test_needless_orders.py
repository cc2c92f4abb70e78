"""Sorts and scans of a Triton kernel of whose result one number is used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import Made, found, only, program
from tileprof.analyzer.program.needless_orders import NeedlessOrder, needless_orders
from tileprof.errors import Location
from tileprof.profile import Profile

HEAD = """\
import triton
import triton.language as tl

@triton.jit
def peak(x, out, n: tl.constexpr):
    at = tl.arange(0, n)
    held = tl.load(x + at)
"""
FIRST = HEAD.count("\n") + 1
LIBRARY = "/usr/lib/python3/triton/language/standard.py"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("top = tl.max(tl.sort(held), 0)", ("sort", "max")),
        ("top = tl.sort(held).min(0)", ("sort", "min")),
        ("ranked = tl.sort(held)\n    top = tl.max(ranked, 0)", ("sort", "max")),
        ("ranked = tl.sort(held)\n    top = tl.max(ranked, 0) + ranked", None),
        ("top = tl.sum(tl.where(at < 8, tl.sort(held), 0.0), 0)", None),
        ("top = tl.where(tl.sort(held) > 0, tl.max(held, 0), 0.0)", None),
        ("top = tl.sum(tl.where(at == n - 1, tl.cumsum(held, 0), 0.0), 0)", ("cumsum", "sum")),
        ("so_far = tl.cumsum(held, 0)\n    top = tl.max(tl.where(at == 3, so_far, 0.0), 0)",
         ("cumsum", "sum")),
        ("top = tl.sum(tl.where(at < 3, tl.cumsum(held, 0), 0.0), 0)", None),
        ("top = tl.max(tl.cumsum(held, 0), 0)", None),
    ],
)  # fmt: skip
def test_orders_of_which_one_number_is_used(
    body: str, expected: tuple[str, str] | None
) -> None:  # fmt: skip
    """A sort before its greatest or least element is taken, a scan of which one sum is; not where
    other elements are used as well."""
    made = needless_orders(f"{HEAD}    {body}\n", "peak")
    assert made == ((NeedlessOrder(FIRST, *expected),) if expected else ())


def recorded(body: str, library: int = 3000) -> Profile:
    """A kernel with so many of 4,000 samples in code of Triton's library."""
    code = [
        ("FADD R0, R1, R2", {"selected": 4000 - library}, 0, FIRST),
        ("SHFL.BFLY R3, R0, 0x1, 0x1f", {"short_scoreboard": library, "selected": 0}, 0, 381),
    ]
    profile = program(Made("peak", code=code))
    (function,) = profile.tables.pc.functions
    own, other = function.code
    places = (own, replace(other, place=Location(LIBRARY, 381)))
    pc = replace(profile.tables.pc, functions=(replace(function, code=places),))
    sources = {"kernel.py": f"{HEAD}    {body}\n"}
    return replace(profile, tables=replace(profile.tables, pc=pc, sources=sources))


def test_all_samples_of_a_needless_sort_go() -> None:
    """Three quarters of the samples are in the library."""
    finding = only(recorded("top = tl.max(tl.sort(held), 0)"), "redundant-work")
    assert finding.title == "a tensor is sorted where one number of the result is used"
    assert (finding.place.location and finding.place.location.line) == FIRST
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(4)


def test_needless_scan_is_a_symptom() -> None:
    """The reduction that takes its place has as many steps, so no gain is stated."""
    body = "top = tl.sum(tl.where(at == n - 1, tl.cumsum(held, 0), 0.0), 0)"
    finding = only(recorded(body), "redundant-work")
    assert (finding.severity, finding.kernel_gain) == ("symptom", None)


def test_sort_whose_order_is_used_is_not_reported() -> None:
    """The same samples, where the kernel stores the sorted tensor."""
    assert not found(recorded("tl.store(out + at, tl.sort(held))"), "redundant-work")
