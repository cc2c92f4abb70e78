"""What is left to gain: beyond what bytes, products, and the other instructions take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import Made, program, stored
from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.estimates import Saving, drawn
from tileprof.analyzer.kernel import reach
from tileprof.profile import DeviceInfo, Profile

ROOFS = {"hbm_read": 1e12, "hbm_copy": 0.8e12, "hbm_write": 1e12, "tensor_bfloat16": 1e14}
PRODUCT = (
    "kernel @f(%A: global<8, 8, bfloat16>) {\n"
    "  %a = alloc shared {shape = [8, 8]} : shared<8, 8, bfloat16>\n"
    "  gemm %a, %a, %c\n}\n"
)


def case_of(profile: Profile) -> KernelCase:
    """The longest kernel."""
    return Program(profile).kernels[0]


def left(made: Made) -> Saving:
    """What is left of one kernel."""
    found = reach.left(case_of(program(made, peaks=ROOFS)))
    assert found is not None
    return found


def test_bytes_take_as_long_as_a_copy_of_them() -> None:
    """Half a millisecond at the roof of reads; of such a mix 0.97 of it likely."""
    found = left(Made(metrics={"bytes": 5e8}))
    assert found.mid == pytest.approx(1 - 0.5 / 0.97)
    assert (found.low, found.high) == pytest.approx((1 - 0.5 / 0.85, 1 - 0.5 / 1.05))


def test_reads_and_writes_share_the_memory() -> None:
    """A copy: the roof of copies, not that of reads."""
    shape = "global<10000, 10000, float32>"
    ir = f"kernel @f(%X: {shape}, %Y: out {shape}) {{\n}}\n"
    case = case_of(program(Made(ir=ir, time=2e6), peaks=ROOFS))
    assert case.roofs.copy_floor == pytest.approx(1e6)


def test_products_and_exponentials_take_turns() -> None:
    """0.4 of the time by tensor cores, and 8 cycles for each of the special functions."""
    issuing = {"selected": 250, "wait": 250, "wait_not_issued": 300, "selected_not_issued": 0}
    other = {"selected": 250, "wait": 250, "wait_not_issued": 300}
    code = [("MUFU.EX2 R0, R1", {"selected": 50}, 1, 5), ("FFMA R0, R1, R2, R3", issuing, 1, 6),
            ("FFMA R4, R1, R2, R3", other, 1, 6)]  # fmt: skip
    made = Made(ir=PRODUCT, code=code, metrics={"flops": 4e10})
    case = case_of(program(made, peaks=ROOFS))
    assert case.sampled is not None
    busy = 1 - 600 / case.sampled.whole
    found = reach.left(case)
    assert found is not None
    assert found.mid == pytest.approx(1 - (0.4 + 8 * busy * 50 / case.sampled.issued))


def test_instructions_that_stay_have_to_be_issued() -> None:
    """What is in the way goes with its turns; the rest is at nine tenths of them."""
    code = [("STL [R1], R0", {"selected": 300, "wait": 100, "wait_not_issued": 100}, 1, 5),
            ("IADD3 R0, R1, R2, R3", {"selected": 600}, 1, 6)]  # fmt: skip
    case = case_of(program(Made(code=code, metrics={"bytes": 1e8}), peaks=ROOFS))
    held = case.sampled
    assert held is not None
    gone = held.taken(held.rows([0]))
    with_all, without = reach.left(case), reach.left(case, gone)
    assert with_all is not None
    assert without is not None
    assert with_all.mid == pytest.approx(1 - 0.9 / 0.92)
    assert without.mid == pytest.approx(1 - 0.9 * 600 / 900 / 0.92)


@pytest.mark.parametrize("text", ["I2F.U8 R0, R1", "POPC R0, R1", "MUFU.EX2 R0, R1"])
def test_conversions_take_turns_of_the_unit_for_special_functions(text: str) -> None:
    """A tenth of the instructions, in 9 of 10 cycles: 8 cycles each are 0.72 of the time."""
    last = {"selected": 450, "wait": 0, "wait_not_issued": 100}
    code = [(text, {"selected": 100}, 1, 5), ("STL [R1], R0", {"selected": 450}, 1, 6),
            ("IADD3 R0, R1, R2, R3", last, 1, 7)]  # fmt: skip
    case = case_of(program(Made(code=code, metrics={"bytes": 1e8}), peaks=ROOFS))
    held = case.sampled
    assert held is not None
    others, itself = (reach.left(case, held.taken(held.rows([at]))) for at in (1, 0))
    assert others is not None
    assert itself is not None
    assert others.mid == pytest.approx(1 - 8 * 0.9 * 0.1 / 0.92)
    assert itself.mid == pytest.approx(1 - 0.9 * 0.9 / 0.92)


def test_work_that_was_not_done_says_nothing() -> None:
    """Bytes that take longer than the kernel; and no work at all."""
    assert reach.left(case_of(program(Made(metrics={"bytes": 2e9}), peaks=ROOFS))) is None
    assert reach.left(case_of(program(Made(), peaks=ROOFS))) is None


def test_a_product_at_its_roof_has_little_left() -> None:
    """The stored one of an H200."""
    found = reach.left(case_of(stored("h200-gemm")))
    assert found is None or found.mid < 0.1


def test_a_defect_takes_more_than_its_samples() -> None:
    """A half of what is left by its samples: three quarters of it likely, all of it at most; and
    no more than three times its samples."""
    made = drawn(Saving(0.05, 0.2, 0.22), Saving(0.3, 0.4, 0.5))
    assert (made.low, made.mid, made.high) == pytest.approx((0.05, 0.4 * 0.5**0.4, 0.5))
    assert drawn(Saving(0.01, 0.02, 0.03), Saving(0.3, 0.4, 0.5)).mid == pytest.approx(0.06)
    all_of_it = drawn(Saving(0.3, 0.6, 0.7), Saving(0.1, 0.4, 0.5))
    assert (all_of_it.low, all_of_it.mid, all_of_it.high) == (0.1, 0.4, 0.5)
    nothing = drawn(Saving(0.3, 0.6, 0.7), Saving(0.0, 0.0, 0.02))
    assert nothing.mid == 0


def test_bytes_that_nobody_tells_are_told_by_samples() -> None:
    """A tenth of the issued instructions load 16 bytes a thread."""
    idle = {"selected": 900, "wait": 1000, "wait_not_issued": 1000}
    code = [("LDG.E.128 R0, [R4]", {"selected": 100}, 0, 5), ("IADD3 R0, R1, R2, R3", idle, 0, 6)]
    made = Made(code=code, attributes={"grid": "1×1×1", "block": "32×1×1", "blocks_per_sm": 1})
    profile = program(made, peaks={"hbm_copy": 1e13})
    device = DeviceInfo("cuda:0", "a GPU", multiprocessors=100, clock_mhz=1000.0)
    profile = replace(profile, tables=replace(profile.tables, devices=(device,)))
    found = reach.left(case_of(profile))
    assert found is not None
    asked = 0.5 * 0.1 * 32 * 16 * 4 * 100 * 1e9 / 1e13
    assert found.mid == pytest.approx(1 - max(asked / 1.1, 0.5 / 0.92))
    tiles = [*code, ("HGMMA.64x256x16.F32.BF16 R24, gdesc", {"selected": 10}, 0, 7)]
    assert reach.left(case_of(program(Made(code=tiles), peaks=ROOFS))) is None
