"""What attention takes whose warp groups take turns."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import pytest

from tests.analyzer.compiled import remarks_of
from tests.analyzer.defects import product
from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import EXCHANGED, Made, only, remark
from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.kernel.by_turns import (
    ALONE,
    SHARED,
    kept_from,
    left_in_turns,
    takes_turns,
)
from tileprof.analyzer.kernel.pace import at_roof
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.ir import print_kernel
from tileprof.profile import Profile
from tileprof.remarks import Remark

turn_kernels: Any = importlib.import_module("tests.cuda.turn_kernels")


@cache
def said(words: str, *, specialised: bool = True, **more: Any) -> tuple[Remark, ...]:
    """Return the compiler's remarks about the loop of a kernel of products and exponentials."""
    kernel = turn_kernels.kernel(frozenset(words.split()), **more)
    given = Controls(overlap=False, warp_specialization=specialised)
    program = compile_cuda(kernel, find_target("sm_90a"), given)
    return tuple(each for each in remarks_of(program) if each.op == "loop")


def loads() -> tuple[Remark, ...]:
    """All warps load their tiles themselves."""
    return said("ahead", specialised=False)


def shares() -> tuple[Remark, ...]:
    """Warp groups share rows of a product."""
    return said("", policy="FullCol")


def taken() -> tuple[Remark, ...]:
    """Warp groups take turns."""
    return said("ahead")


def long() -> tuple[Remark, ...]:
    """Exponentials are too few."""
    return said("ahead", dim=256)


@cache
def _text() -> str:
    """Of a product in a pipeline of one stage."""
    return print_kernel(product(stages=1).compile().program.kernel)


def profile(*remarks: Remark, special: int = 300, share: float = 0.3, blocks: int = 132) -> Profile:
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
    made = Made(ir=_text(), code=code, remarks=list(remarks), metrics=metrics,
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
    for remarks, against in ((loads(), ALONE), (shares(), SHARED)):
        case = case_of(profile(*remarks))
        assert kept_from(case, against)
        assert not takes_turns(case)
    assert not kept_from(case_of(profile(*loads())), SHARED)
    assert not kept_from(case_of(profile(*long())), (*ALONE, *SHARED))
    assert takes_turns(case_of(profile(*taken())))


def test_loads_of_all_warps_keep_groups_from_turns() -> None:
    """More comes back than the loads take, where the compiler says so."""
    gains = list[float]()
    for remarks in (long(), loads()):
        finding = only(profile(*remarks), "pipeline-too-shallow")
        assert finding.kernel_gain is not None
        gains.append(finding.kernel_gain.mid)
        told = [each.text for each in finding.static if "take turns" in each.text]
        assert len(told) == (remarks == loads())
    assert gains[1] > gains[0]


def test_exchanges_keep_groups_from_turns() -> None:
    """The same of a fragment that they exchange."""
    exchanged = remark("buffer w", 5, *EXCHANGED)
    gains = list[float]()
    for remarks in (long(), shares()):
        finding = only(profile(exchanged, *remarks), "layout-convert")
        assert finding.kernel_gain is not None
        gains.append(finding.kernel_gain.mid)
    assert gains[1] > gains[0]
