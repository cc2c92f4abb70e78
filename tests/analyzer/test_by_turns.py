"""What attention takes whose warp groups take turns."""

from __future__ import annotations

from functools import cache

import pytest

from tests.analyzer.defects import product
from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, only, remark
from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.kernel.by_turns import (
    ALONE,
    SHARED,
    kept_from,
    left_in_turns,
    takes_turns,
)
from tileprof.analyzer.kernel.pace import at_roof
from tileprof.ir import print_kernel
from tileprof.profile import Profile, RemarkInfo

WILL = "each warp group multiplies as soon as it can"
LOADS = remark("loop k", 4, WILL, ("in turns", "no producer warp group loads for them"))
SHARES = remark("loop k", 4, WILL, ("in turns", "warp groups share rows of the product in line 5"))
TAKEN = remark("loop k", 4, "consumer warp groups take turns: products of one run under the others")
LONG = remark("loop k", 4, WILL, ("in turns", "exponentials take 12% of the time of products"))


@cache
def _text() -> str:
    """Of a product in a pipeline of one stage."""
    return print_kernel(product(stages=1).compile().program.kernel)


def profile(
    *said: RemarkInfo, special: int = 300, share: float = 0.3, blocks: int = 132
) -> Profile:
    """Schedulers issue in a fifth of the cycles; so many samples of special functions, and products
    that take such a share of the time at their roof."""
    code = [
        ("LDG.E.128 R4, desc[UR4][R2.64]", {"selected": 10}, 1, 5),
        ("STS.128 [R0], R4", {"selected": 10, "long_scoreboard": 2000, "mio_throttle": 900}, 1, 5),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", {"selected": 10}, 1, 5),
        ("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24", {"selected": 10, "barrier": 4000}, 1, 6),
        ("WARPGROUP.DEPBAR.LE gsb0, 0x0", {"selected": 10, "barrier": 2000}, 1, 6),
        ("MUFU.EX2 R8, R9", {"selected": special}, 1, 7),
        ("FFMA R8, R9, R10, R8", {"selected": 1500 - special, "wait": 10}, 1, 7),
        ("@P0 BRA 0x0", {"wait_not_issued": 8000, "selected": 0}, 1, 4),
    ]
    metrics = {"flops": share * 1e11}
    made = Made(ir=_text(), code=code, remarks=list(said), metrics=metrics,
                attributes=launch(blocks, threads=256))  # fmt: skip
    return on_h200(made, {"tensor_bfloat16": 1e14, "hbm_copy": 1e12})


def case_of(held: Profile) -> KernelCase:
    """Its kernel."""
    return Program(held).kernels[0]


def test_products_and_exponentials_of_two_groups() -> None:
    """One after the other they take 0.3 of the time and 8 cycles an exponential; likely 1.17 of
    that is done at once, 1.3 at best."""
    case = case_of(profile())
    code = case.sampled
    assert code is not None
    busy = 1 - 8000 / code.whole
    both = 0.3 + 8 * 300 * busy / code.issued
    found = left_in_turns(case, code)
    assert found is not None
    assert found.mid == pytest.approx(1 - both / 1.17)
    assert found.high == pytest.approx(1 - both / 1.3)
    assert found.low == pytest.approx((1 - both) / 2)
    assert found.rows is None


def test_products_alone_are_a_limit_too() -> None:
    """At what a part of the device reaches of their roof; and special functions too few for turns
    tell nothing."""
    case = case_of(profile(share=0.45, blocks=80))
    assert case.sampled is not None
    found = left_in_turns(case, case.sampled)
    assert found is not None
    assert found.mid == pytest.approx(1 - at_roof(case)) != 0
    for held in (profile(special=50), profile(share=0.0)):
        case = case_of(held)
        assert case.sampled is not None
        assert left_in_turns(case, case.sampled) is None


def test_what_the_compiler_says() -> None:
    """Its reason is the defect's, or another."""
    for said, against in ((LOADS, ALONE), (SHARES, SHARED)):
        case = case_of(profile(said))
        assert kept_from(case, against)
        assert not takes_turns(case)
    assert not kept_from(case_of(profile(LOADS)), SHARED)
    assert not kept_from(case_of(profile(LONG)), (*ALONE, *SHARED))
    assert takes_turns(case_of(profile(TAKEN)))


def test_loads_of_all_warps_keep_groups_from_turns() -> None:
    """More comes back than the loads take, where the compiler says so."""
    gains = list[float]()
    for said in ((LONG,), (LOADS,)):
        finding = only(profile(*said), "pipeline-too-shallow")
        assert finding.kernel_gain is not None
        gains.append(finding.kernel_gain.mid)
        told = [each.text for each in finding.static if "take turns" in each.text]
        assert len(told) == (said == (LOADS,))
    assert gains[1] > gains[0]


def test_exchanges_keep_groups_from_turns() -> None:
    """The same of a fragment that they exchange."""
    exchanged = remark("buffer w", 5, "converted to `x` through shared memory", ("`y`", "why"))
    gains = list[float]()
    for said in (LONG, SHARES):
        finding = only(profile(exchanged, said), "layout-convert")
        assert finding.kernel_gain is not None
        gains.append(finding.kernel_gain.mid)
    assert gains[1] > gains[0]
