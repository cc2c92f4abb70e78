"""Tiles that only machine code tells of, in kernels of other compilers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found
from tileprof.analyzer import Finding
from tileprof.analyzer.cases import Program
from tileprof.analyzer.kernel.threads import per_thread
from tileprof.profile import Attribute

PEAKS = {"hbm_copy": 4.09e12, "hbm_read": 4.63e12, "hbm_write": 4.67e12, "tensor_bfloat16": 881e12}
"""Roofs as measured on an H200: bytes and flops a second."""
SIDE = 4096
_NS = 2.0 * SIDE**3 / PEAKS["tensor_bfloat16"] * 1e9
"""Time of a product of square matrices of `SIDE` at the roof, in ns."""
_SAMPLES = {"selected": 100, "long_scoreboard": 300}


def product(
    copies: int,
    columns: int,
    times: float,
    more: tuple[str, ...] = (),
    addresses: int = 0,
    moved: float = 3 * 2.0 * SIDE**2,
    before: tuple[str, ...] = (),
) -> list[Finding]:
    """Return the findings on a loop of two warp groups with products of 64 × `columns` × 16, after
    `copies` copies of 16 bytes a thread, of as many addresses, or of `addresses`."""
    which = [index % (addresses or copies) for index in range(copies)]
    code = [
        ("S2R R0, SR_TID.X", 0),
        *((each, 0) for each in before),
        *((f"LDGSTS.E.BYPASS.128 [R60+{0x1000 * index:#x}], desc[UR4][R{20 + 2 * at}.64]", 1)
          for index, at in enumerate(which)),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", 1),
        *((f"HGMMA.64x{columns}x16.F32.BF16 R24, gdesc[UR8], R24", 1) for _ in range(4)),
        *((each, 1) for each in more),
        (f"@!P0 BRA {0x10 + 0x10 * len(before):#x}", 1), ("EXIT", 0),
    ]  # fmt: skip
    made = Made(
        time=times * _NS, attributes=launch(2048, threads=256),
        metrics={"flops": 2.0 * SIDE**3, "bytes": moved},
        code=[(text, _SAMPLES, depth, 10) for text, depth in code],
    )  # fmt: skip
    said = found(on_h200(made, PEAKS), "redundant-traffic")
    return [each for each in said if "a loop of products" in each.title]


def test_a_tile_that_is_too_small() -> None:
    """Two warp groups of 64 × 32 take 128 + 32 rows of 64 elements: each is multiplied 26 times."""
    (said,) = product(copies=5, columns=32, times=6)
    assert said.title == "a loop of products uses what it loads 26 times only"
    gain = said.kernel_gain
    assert gain is not None
    assert gain.low < 2 < gain.mid < 6  # down to what products reach, not to the roof
    assert "larger tile" in said.author


def test_a_tile_whose_rows_numbers_find_grows_on_one_side_only() -> None:
    """A loaded number is in the addresses of its copies; one that is loaded for another register is
    in none."""
    number = ("LDG.E R2, desc[UR4][R50.64]", "IMAD.WIDE R20, R2, 0x80, R52")
    assert not product(copies=5, columns=32, times=6, before=number)
    assert product(
        copies=5, columns=32, times=6, before=(number[0], "IMAD.WIDE R20, R3, 0x80, R52")
    )


def test_copies_that_threads_repeat_count_once() -> None:
    """A factor for each row that all threads copy is no tile, nor reason for a larger one."""
    iterations = SIDE**3 / (128 * 32 * 64)
    moved = iterations * 5 * 256 * 16  # each byte of the tiles once
    pointer = ("LDC.64 R90, c[0x0][0x210]", "IMAD R60, R0, 0x10, RZ")
    factors = tuple(
        f"LDGSTS.E.64 [R60+{at:#x}], desc[UR4][R90.64+{at:#x}]" for at in range(0, 64, 8)
    )
    assert not product(5, 32, times=6, moved=moved, before=pointer, more=factors)
    assert product(5, 32, times=6, moved=moved / 2, before=pointer, more=factors)


def test_a_tile_that_is_large() -> None:
    """Nothing is said of 128 × 128, however slow; nor of any near to the roof."""
    assert not product(copies=8, columns=128, times=6)
    assert not product(copies=5, columns=32, times=1.2)


def test_numbers_that_threads_need_beside_tiles() -> None:
    """Loads beside copies are no tiles."""
    more = tuple(f"LDG.E R{70 + index}, desc[UR4][R50.64+{4 * index:#x}]" for index in range(40))
    assert not product(8, 128, 6, more)


def test_tiles_that_are_loaded_twice() -> None:
    """A copy of each of half of the addresses more."""
    (said,) = product(copies=12, columns=128, times=3, addresses=8)
    assert said.title == "a loop of products loads the same bytes twice"
    assert "4 of its 12 loads" in said.evidence[0].text


def rows(
    threads: int, bytes_each: float, times: float, barrier: int = 200, loop: bool = False
) -> list[Finding]:
    """Return the findings on barriers of blocks that move `bytes_each` bytes for each thread."""
    blocks = 32768
    moved = blocks * threads * bytes_each
    code: list[tuple[str, Mapping[str, int]]] = [
        ("S2R R0, SR_TID.X", {"selected": 10}),
        ("LDG.E.128 R4, desc[UR4][R2.64]", {"selected": 50}),
        ("FADD R8, R4, R5", {"long_scoreboard": 300, "long_scoreboard_not_issued": 200}),
        ("STS [R9], R8", {"selected": 50}),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", {"selected": 20}),
        ("LDS R10, [R9]", {"barrier": barrier, "barrier_not_issued": barrier // 2}),
        ("STG.E.128 desc[UR4][R2.64], R4", {"selected": 50}),
        ("@!P0 BRA 0x10" if loop else "NOP", {"selected": 10}),
        ("EXIT", {"selected": 10}),
    ]
    made = Made(
        time=times * moved / PEAKS["hbm_copy"] * 1e9, metrics={"bytes": moved},
        attributes=launch(blocks, 2048 // threads, threads),
        code=[(text, stalls, int(loop and 0 < at < 8), 10) for at, (text, stalls) in
              enumerate(code)],
    )  # fmt: skip
    return [e for e in found(on_h200(made, PEAKS), "barrier-imbalance") if "threads" in e.title]


def test_a_block_with_one_access_for_each_thread() -> None:
    """The gain is what is left of the distance to the memory's rate."""
    (said,) = rows(threads=512, bytes_each=32, times=1.5)
    assert said.title == "barriers of 512 threads, with 32 bytes for each"
    gain = said.kernel_gain
    assert gain is not None
    assert 1 < gain.low < gain.mid < 1.5
    assert gain.high >= 1.4


def test_loop_in_which_many_threads_meet_over_what_they_hold() -> None:
    """Three quarters of what 16 warps wait for each other go with 4; 0.57 of the samples are at
    exchanges in a loop that loads nothing."""
    code: list[tuple[str, Mapping[str, int], int, int]] = [
        ("LDG.E.128 R4, desc[UR4][R2.64]", {"selected": 100}, 0, 9),
        ("FADD R8, R4, R8", {"selected": 300}, 1, 10),
        ("STS [R9], R8", {"selected": 50}, 1, 11),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", {"selected": 50}, 1, 11),
        ("LDS R10, [R9]", {"barrier": 300, "selected": 170}, 1, 11),
        ("@!P0 BRA 0x10", {"selected": 30}, 1, 11),
        ("EXIT", {}, 0, 12),
    ]
    for threads, count in ((512, 1), (128, 0)):
        made = Made(
            metrics={"bytes": 4096.0 * threads * 32}, code=code,
            attributes=launch(4096, 2048 // threads, threads),
        )  # fmt: skip
        said = found(on_h200(made, PEAKS), "barrier-imbalance")
        said = [each for each in said if each.severity == "suggestion"]
        assert len(said) == count
        for each in said:
            assert each.title == "barriers of 512 threads, with 32 bytes for each"
            assert each.kernel_gain is not None
            assert each.kernel_gain.mid == pytest.approx(1 / (1 - 0.75 * 0.57))


@pytest.mark.parametrize(
    "other",
    [
        {"bytes_each": 64}, {"threads": 128}, {"times": 1.05}, {"barrier": 20}, {"loop": True},
    ],
)  # fmt: skip
def test_blocks_of_which_that_is_not_said(other: dict[str, float]) -> None:
    """More for each thread; few threads; near the roof; no waits; a loop with loads."""
    assert not rows(**({"threads": 512, "bytes_each": 32, "times": 1.5} | other))  # type: ignore[arg-type]


def in_step(name: str = "MUFU.EX2 R8, R8", held: int = 1, waiting: int = 150) -> list[Finding]:
    """Return the findings on a loop with a product, the instruction `name`, and a barrier."""
    code: list[tuple[str, Mapping[str, int], int]] = [
        ("S2R R0, SR_TID.X", {"selected": 10}, 0),
        ("HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], R24", {"selected": 50}, 1),
        *((name, {"selected": 50}, 1) for _ in range(4)),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", {"selected": 20}, 1),
        ("NOP", {"barrier": waiting, "barrier_not_issued": waiting}, 1),
        ("@!P0 BRA 0x10", {"selected": 10}, 1),
        ("EXIT", {"selected": 10}, 0),
    ]
    facts = launch(2048, held, 512, registers=92, limited_by="registers")
    made = Made(attributes=facts, code=[(*each, 10) for each in code])
    return [
        each for each in found(on_h200(made, PEAKS), "occupancy-limited") if "step" in each.title
    ]


def test_warp_groups_in_step() -> None:
    """A second block computes while the first one multiplies; what it needs is told."""
    (said,) = in_step()
    assert said.kernel_gain is not None
    assert 1.1 < said.kernel_gain.mid < 2
    assert "at most 64 registers" in said.author


def test_warp_groups_that_are_covered() -> None:
    """Two blocks; no arithmetic between products; no waits."""
    assert not in_step(held=2)
    assert not in_step("IMAD R8, R8, R9, R10")
    assert not in_step(waiting=30)


@pytest.mark.parametrize(
    ("at_once", "width", "short"),
    [(False, "", 2.8), (True, "", 0), (False, ".128", 0)],
)  # fmt: skip
def test_loads_that_are_used_one_after_the_other(at_once: bool, width: str, short: float) -> None:
    """Eight loads of 4 bytes in a turn are too few bytes under way if each is used before the next
    one: 2048 threads have 8 KB; not if all are asked for at once, or have 16 bytes."""
    loads = [f"LDG.E{width} R{16 + 4 * i}, desc[UR4][R2.64+{0x10000 * i:#x}]" for i in range(8)]
    uses = [f"FADD R8, R8, R{16 + 4 * i}" for i in range(8)]
    body = [*loads, *uses] if at_once else [text for pair in zip(loads, uses) for text in pair]
    code = [
        ("S2R R0, SR_TID.X", 0),
        *((text, 1) for text in body),
        ("@!P0 BRA 0x10", 1),
        ("EXIT", 0),
    ]
    made = Made(
        attributes=launch(132 * 64, 8, 256),
        code=[(text, _SAMPLES, depth, 10) for text, depth in code],
    )  # fmt: skip
    (case,) = Program(on_h200(made, PEAKS)).kernels
    assert case.sampled is not None
    found = per_thread.short_of(case, case.sampled, case.sampled.named("LDG"))
    assert found == pytest.approx(short, rel=0.2)


@pytest.mark.parametrize(("apart", "goes"), [(True, 1 - 2 / 16), (False, 0.0)])
def test_loads_of_points_that_are_waited_for_in_turn(apart: bool, goes: float) -> None:
    """One of 16 bytes is waited for once, where eight of 2 bytes were waited for one by one."""
    loads = [f"LDG.E.U16 R{16 + at}, desc[UR4][R2.64+{0x200 * at:#x}]" for at in range(8)]
    uses = [f"FADD R8, R8, R{16 + at}" for at in range(8)]
    body = [text for pair in zip(loads, uses) for text in pair] if apart else [*loads, *uses]
    code = [
        (text, {"long_scoreboard": 100} if "FADD" in text else _SAMPLES, 0, 10) for text in body
    ]
    blames = [
        (body.index(use), "long_scoreboard", body.index(load)) for load, use in zip(loads, uses)
    ]
    (case,) = Program(on_h200(Made(code=code, blames=blames), PEAKS)).kernels
    assert case.sampled is not None
    found = per_thread.by_turns(case.sampled, case.sampled.named("LDG"))
    assert found.sum() == pytest.approx(800 * goes)


def test_the_roof_of_a_kernel_without_a_program() -> None:
    """Its products may come to be done by tensor cores, whatever does them now."""
    made = Made(time=6e6, metrics={"flops": 2.0 * SIDE**3}, attributes=launch(2048))
    (case,) = Program(on_h200(made, PEAKS | {"fma_float32": 64.5e12})).kernels
    assert case.roofs.most_gain == pytest.approx(6e6 / _NS)


@pytest.mark.parametrize(
    ("step", "blocks", "limit", "short"),
    [
        ("IADD3 R4, R4, R16, RZ", 500, "", False),  # from row to row, as far as the launch says
        ("IADD3 R4, R4, UR6, RZ", 500, "", False),
        ("IADD3 R4, R4, 0x10000, RZ", 500, "", False),  # and by more than a block's threads load
        ("IADD3 R4, R4, 0x80, RZ", 500, "", True),  # along a row: fewer turns
        ("IADD3 R4, R4, R16, RZ", 132 * 64, "", True),  # fewer blocks wait for a place
        ("IADD3 R4, R4, R16, RZ", 132 * 64, "shared memory", False),  # wider tiles: fewer blocks
        ("IADD3 R4, R4, R16, RZ", 132 * 64, "registers", False),
    ],
)
def test_fewer_threads_have_as_many_bytes_under_way(
    step: str, blocks: int, limit: str, short: bool
) -> None:
    """Where all blocks run at once, or no more have room, and each thread has its own column."""
    code = [
        ("S2R R4, SR_TID.X", 0), ("IMAD.WIDE R2, R4, 0x4, R8", 1),
        ("LDG.E R6, desc[UR4][R2.64]", 1), (step, 1), ("FADD R7, R6, R7", 1),
        ("@!P0 BRA 0x10", 1), ("EXIT", 0),
    ]  # fmt: skip
    assert (_short(code, launch(blocks, 16, 128, limited_by=limit)) > 1) == short


@pytest.mark.parametrize(("stored", "short"), [("R6", True), ("R7", False)])
def test_registers_that_hold_what_is_loaded(stored: str, short: bool) -> None:
    """Where registers limit the blocks, wider loads help those that pass them on to shared memory,
    and not those that compute with them and store sums there."""
    code = [
        ("S2R R4, SR_TID.X", 0), ("IMAD.WIDE R2, R4, 0x4, R8", 1),
        ("LDG.E R6, desc[UR4][R2.64]", 1), ("IADD3 R4, R4, 0x80, RZ", 1), ("FADD R7, R6, R7", 1),
        (f"STS [R9], {stored}", 1), ("@!P0 BRA 0x10", 1), ("EXIT", 0),
    ]  # fmt: skip
    assert (_short(code, launch(132 * 64, 16, 128, limited_by="registers")) > 1) == short


def _short(code: list[tuple[str, int]], attributes: dict[str, Attribute]) -> float:
    """Return what `short_of` says of the loads of a code with depths of loops."""
    made = Made(attributes=attributes, code=[(text, _SAMPLES, depth, 10) for text, depth in code])
    (case,) = Program(on_h200(made, PEAKS)).kernels
    assert case.sampled is not None
    return per_thread.short_of(case, case.sampled, case.sampled.named("LDG"))


def test_a_tile_as_small_as_the_work() -> None:
    """Loads that bring each byte once leave nothing to a larger tile."""
    many = product(copies=5, columns=32, times=6)
    assert many
    assert not product(copies=5, columns=32, times=6, moved=2.0 * SIDE**3 / 25)
