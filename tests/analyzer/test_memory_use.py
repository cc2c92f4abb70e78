"""How much of memory is used: by counters, by what has to move, by addresses."""

from __future__ import annotations

import pytest

from tests.analyzer.made import Made, program
from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.kernel.memory_use import MemoryUse, bytes_without_loops, memory_use

HBM = {"hbm_read": 5e12, "hbm_copy": 4e12, "hbm_write": 4.5e12}
LAUNCHED = {"block": "128×1×1", "grid": "100000×2×1"}
TEXTS = (
    "S2R R0, SR_TID.X", "LDC.64 R2, c[0x0][0x210]", "IMAD.WIDE R4, R0, 0x8, R2",
    "LDG.E R6, desc[UR4][R4.64]", "@!P0 LDG.E R8, desc[UR4][R4.64]",
    "STG.E.64 desc[UR4][R4.64], R6",
)  # fmt: skip


def case_of(made: Made, peaks: dict[str, float] | None = None) -> KernelCase:
    """The kernel, on a device that has these peaks."""
    (case,) = Program(program(made, peaks=HBM if peaks is None else peaks)).kernels
    return case


def use_of(made: Made, peaks: dict[str, float] | None = None) -> MemoryUse:
    """That of a kernel of which it is known."""
    use = memory_use(case_of(made, peaks))
    assert use is not None
    return use


def without_loops(*more: str, depth: int = 0) -> Made:
    """Two loads at the same 4 bytes and a store of 8: 128 threads, 200,000 blocks, 3 launches."""
    code = [(text, {"selected": 9}, depth, 5) for text in (*TEXTS, *more)]
    return Made(code=code, attributes=LAUNCHED, launches=3)


def test_a_mix_of_reads_and_writes() -> None:
    """3 GB in a millisecond: of reads alone 0.6, of as many writes 0.75."""
    reads = Made(metrics={"bytes": 3e9})
    assert use_of(reads).share == pytest.approx(3 / 5)
    ir = (
        "kernel @copied(%X: global<1500000000, uint8>, %Y: out global<1500000000, uint8>) {\n"
        "}\n"
    )  # fmt: skip
    copied = use_of(Made(metrics={"bytes": 3e9}, ir=ir))
    assert copied.share == pytest.approx(3 / 4)
    assert copied.room == pytest.approx(1 - 0.75)
    assert copied.sure_room == pytest.approx(1 - 0.75 / 0.92)
    assert copied.most == pytest.approx(1.05 / 0.75)
    assert "4 TB/s" in copied.text


def test_near_its_roof() -> None:
    """From 0.92 of what is reached on: of a mix that, of reads alone 0.88, of the best that memory
    gives 0.86."""
    assert use_of(Made(metrics={"bytes": 4.45e9})).near
    assert not use_of(Made(metrics={"bytes": 4.4e9})).near
    best = {"hbm_copy": 5e12}
    assert use_of(Made(metrics={"bytes": 4.35e9}), best).near
    assert not use_of(Made(metrics={"bytes": 4.25e9}), best).near


def test_what_stays_in_the_cache_has_another_roof() -> None:
    """30 MB of a launch; counters overrule what has to be moved."""
    made = Made(metrics={"bytes": 30e6})
    assert use_of(made, HBM | {"l2_read": 10e12}).share == pytest.approx(30e6 / 1e-3 / 10e12)
    counted = Made(metrics={"bytes": 30e6, "dram_bytes": 2.5e9})
    assert use_of(counted, HBM | {"l2_read": 10e12}).share == pytest.approx(0.5)


def test_more_than_memory_gives_came_from_elsewhere() -> None:
    """And where no roof was measured nothing is told."""
    assert memory_use(case_of(Made(metrics={"bytes": 6e9}))) is None
    assert memory_use(case_of(Made(metrics={"bytes": 1e9}), {})) is None
    assert memory_use(case_of(Made())) is None


def test_bytes_of_code_without_loops() -> None:
    """What several accesses of a block touch counts once; a third of it is read, and memory gives
    no more to that than to a copy."""
    case = case_of(without_loops())
    blocks = 200_000 * 3
    assert bytes_without_loops(case) == (128 * 4 * blocks, 128 * 8 * blocks)
    use = memory_use(case)
    assert use is not None
    assert use.share == pytest.approx(128 * 12 * blocks / 1e-3 / 4e12)


def test_only_writes_alone_have_their_own_roof() -> None:
    """Memory turns between reads and writes, however few of them are reads."""
    ir = "kernel @filled(%X: out global<3000000000, uint8>) {\n}\n"
    assert use_of(Made(metrics={"bytes": 3e9}, ir=ir)).share == pytest.approx(3 / 4.5)


@pytest.mark.parametrize(
    "made",
    [
        without_loops(depth=1), without_loops("LDG.E R9, desc[UR4][R8.64]"),
        Made(code=without_loops().code),
    ],
)  # fmt: skip
def test_bytes_that_are_not_known(made: Made) -> None:
    """Turns of a loop, an address that was loaded, blocks whose extent nobody says."""
    case = case_of(made)
    assert bytes_without_loops(case) == (0, 0)
    assert memory_use(case) is None


def test_a_kernel_without_a_program_writes_what_its_stores_ask_for() -> None:
    """Of 4 bytes that are loaded and 8 that are stored as often two thirds are writes; copies of
    tiles, or a few samples, do not tell."""
    code = [
        ("LDG.E R6, desc[UR4][R4.64]", {"selected": 100, "long_scoreboard": 900}, 1, 5),
        ("STG.E.64 desc[UR4][R4.64], R6", {"selected": 100}, 1, 5),
    ]
    assert case_of(Made(code=code)).roofs.written == pytest.approx(2 / 3)
    tiles = ("UTMALDG.2D [UR8], [UR4]", {"selected": 100}, 1, 5)
    assert case_of(Made(code=[*code, tiles])).roofs.written == 0
    few = [(text, {"selected": 9}, depth, line) for text, _, depth, line in code]
    assert case_of(Made(code=few)).roofs.written == 0
    use = use_of(Made(code=code, metrics={"bytes": 3e9}))
    assert use.share == pytest.approx(3 / 4)
