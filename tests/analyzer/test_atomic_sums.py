"""Atomics that a reduction could replace, and tiles that go to shared memory by way of another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import Made, only, program
from tests.analyzer.written import GEMM, kernel
from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.rules.tile_program import atomic_sums, relays
from tileprof.kernel_ir import Op, TileKernel
from tileprof.profile.storage.ir_text import read

SUMS = """\
kernel @sums(%X: global<64, 512, float32>, %Bin: global<64, 512, int32>, %S: out global<64, float32>) {
  %c64 = constant 64 : index
  launch [%c64] {threads = [128]} body(%b: index) {
    %c0 = constant 0 : index
    %c1 = constant 1 : index
    %c512 = constant 512 : index
    %z = constant 0.0 : float32
    %met = alloc shared {shape = [512]} : shared<512, float32>
    fill %met, %z
    parallel [%c1, %c512] body(%i: index, %j: index) {
      %x = load %X, [%b, %j] : float32
      BODY
    }
  }
}
"""  # noqa: E501
ALL = "%0 = atomic add %x, %met, [%i] : float32"
COUNT = """%k = load %Bin, [%b, %j] : int32
      %at = cast %k : index
      %0 = atomic add %x, %met, [%at] : float32"""
ONE = """%first = eq %j, %c0 : bool
      if %first then {
        %0 = atomic add %x, %met, [%i] : float32
      } otherwise {
      }"""
AWAY = "%between = alloc shared {shape = [128, 64]} : shared<128, 64, float16>"


@pytest.fixture
def lined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each op of a kernel's text a line: 7 to atomics, 8 to copies in order, 3 to others."""

    def tiles(case: KernelCase) -> TileKernel:
        held = read(case.ir)
        ops = tuple(_at_lines(each) for each in held.body.ops)
        return replace(held, body=replace(held.body, ops=ops))

    monkeypatch.setattr(KernelCase, "tiles", property(tiles))


def _at_lines(op: Op) -> Op:
    blocks = tuple(replace(each, ops=tuple(map(_at_lines, each.ops))) for each in op.blocks)
    second = op.name == "copy" and op.source == "%between"
    line = 7 if op.name == "atomic" else 8 if second else 3
    return replace(op, line=line, blocks=blocks)


def titles(text: str) -> list[str]:
    """Return what both rules say of a kernel of which nothing was measured."""
    (case,) = Program(program(Made(ir=text))).kernels
    return [each.title for each in (*atomic_sums.find(case), *relays.by_way_of(case))]


@pytest.mark.parametrize(
    ("body", "meet"), [(ALL, "512 elements"), (COUNT, ""), (ONE, ""), (ALL.replace("%i", "%j"), "")]
)
def test_atomics_that_meet_at_one_element(body: str, meet: str) -> None:
    """A histogram's places come from data, and a condition may choose a single thread."""
    said = titles(SUMS.replace("BODY", body))
    assert [each[: len(meet)] for each in said] == ([meet] if meet else [])


FAR = """%k = load %Bin, [%b, %j] : int32
      %at = cast %k : index
      %0 = atomic add %x, %S, [%at] : float32"""
"""A histogram in global memory."""
IN_TURN = """for serial %c0, %c64, %c1 body(%t: index) {
        %v = load %X, [%t, %j] : float32
        %0 = atomic add %v, %S, [%j] : float32
      }"""


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (FAR, "atomics meet at few elements of `S`"),
        (FAR.replace("%S", "%met"), ""),  # which is in shared memory
        (FAR.replace("[%at] : float32", "[%j] : float32"), ""),  # each has its own
        (FAR.replace("%S, [%at]", "%Bin, [%b, %at]"), ""),  # as many elements as numbers
        (IN_TURN, "each iteration of a loop combines the same elements of `S`"),
        (IN_TURN.replace("%S, [%j]", "%S, [%t]"), "512 elements"),
        (IN_TURN.replace("%v = load %X, [%t, %j]", "%v = load %S, [%t]"), ""),  # they are read
    ],
)
def test_sums_that_a_block_could_hold(body: str, says: str) -> None:
    """Sums are advised into shared memory where data choose among few places, into registers where
    a loop adds to one."""
    said = titles(SUMS.replace("BODY", body))
    assert [each[: len(says)] for each in said] == ([says] if says else [])


@pytest.mark.usefixtures("lined")
@pytest.mark.parametrize(("samples", "severity"), [(9000, "suggestion"), (50, "ignore")])
def test_cost_of_atomics_is_that_of_their_line(samples: int, severity: str) -> None:
    """Nine tenths of the samples at the atomics make the kernel about ten times as long."""
    spin = ("ATOMS.CAST.SPIN R0, [R1], R2, R3", {"short_scoreboard": samples}, 1, 7)
    other = ("FADD R0, R0, R1", {"selected": 10_000 - samples}, 0, 3)
    made = Made(ir=SUMS.replace("BODY", ALL), code=(spin, other))
    finding = only(program(made), "atomic-traffic")
    assert finding.severity == severity
    if finding.kernel_gain is not None:
        assert finding.kernel_gain.low < 5 < finding.kernel_gain.mid < 10


@pytest.mark.usefixtures("lined")
def test_atomics_of_a_warp_take_nothing_but_their_own_samples() -> None:
    """A fifth of the samples is at them, and 0.95 of that goes, however far the kernel is from the
    least time of its bytes."""
    spin = ("ATOMS.CAST.SPIN R0, [R1], R2, R3", {"short_scoreboard": 2000}, 1, 7)
    other = ("FADD R0, R0, R1", {"selected": 1000, "wait": 7000}, 0, 3)
    made = Made(ir=SUMS.replace("BODY", ALL), code=(spin, other), metrics={"bytes": 1e6})
    finding = only(program(made, peaks={"hbm_copy": 4e12}), "atomic-traffic")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.95 * 0.2))


@pytest.mark.usefixtures("lined")
@pytest.mark.parametrize(("time", "gain"), [(4e3, 2.0), (40e3, 1.0)])
def test_atomics_on_one_element_hold_up_loads_elsewhere(time: float, gain: float) -> None:
    """Blocks add 4,096 times to each element, which takes L2 3 µs: of a kernel of 4 µs that is why
    its loads are late, though few samples are at the atomics; of one of 40 µs it is not."""
    code = (
        ("REDG.E.ADD.F32 desc[UR4][R2.64], R0", {"selected": 200, "wait": 100}, 1, 7),
        ("LDG.E R0, desc[UR4][R4.64]", {"selected": 1000}, 1, 3),
        ("FADD R0, R0, R1", {"long_scoreboard": 7000, "long_scoreboard_not_issued": 6000,
                             "selected": 1800}, 1, 3),
    )  # fmt: skip
    made = Made(
        ir=SUMS.replace("BODY", IN_TURN), code=code, time=time, metrics={"bytes": 1e6},
        attributes={"grid": "64×1×1", "block": "128×1×1"},
    )  # fmt: skip
    finding = only(program(made, peaks={"hbm_copy": 1e12}), "atomic-traffic")
    found = finding.kernel_gain.mid if finding.kernel_gain else 1.0
    assert found == pytest.approx(gain, abs=0.5)


@pytest.mark.usefixtures("lined")
@pytest.mark.parametrize(("branch", "least"), [("@P0 BRA 0x40", 1.3), ("FADD R6, R6, R7", 1.0)])
def test_all_warps_wait_for_the_one_with_the_atomic(branch: str, least: float) -> None:
    """A tenth of the warps' time is at an atomic of one warp, for which the others wait four
    tenths of it at the next barrier; where all of them do it, they do not."""
    code: list[tuple[str, dict[str, int], int, int]] = [
        ("FADD R0, R0, R1", {"selected": 1500}, 1, 3),
        (branch, {"selected": 1500}, 1, 3),
        ("REDG.E.ADD.F32 desc[UR4][R2.64], R0", {"selected": 100, "wait": 100}, 1, 7),
        ("FADD R0, R0, R1", {"selected": 100}, 1, 7),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", {}, 1, 3),
        ("FADD R0, R0, R1", {"barrier": 4000}, 1, 3),
        ("@P1 BRA 0x0", {"selected": 1700}, 1, 3),
        ("EXIT", {}, 0, 3),
    ]
    found = only(program(Made(ir=SUMS.replace("BODY", IN_TURN), code=code)), "atomic-traffic")
    gain = found.kernel_gain.mid if found.kernel_gain else 1.0
    assert least <= gain < least + 0.3


def passed_on(buffer: str = AWAY, first: str = "copy %A_tile, %between", more: str = "") -> str:
    """Return a product whose tile of A comes by way of `between`."""
    text = kernel(more, GEMM).replace("copy %A_tile, %a", f"{first}\n      copy %between, %a")
    return text.replace("    %x = alloc", f"    {buffer}\n    %x = alloc", 1)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (passed_on(), 1),
        (passed_on(AWAY.replace("shared", "fragment")), 1),
        (passed_on(AWAY.replace("float16", "float32")), 0),  # converts
        (passed_on(more="copy %between, %x"), 0),  # used otherwise
        (kernel("copy %a, %x", GEMM), 0),  # on to registers: how they get it asynchronously
    ],
)
def test_tiles_by_way_of_another_buffer(text: str, count: int) -> None:
    """Only where the buffer does nothing but pass on a tile of the same elements."""
    assert len(titles(text)) == count


@pytest.mark.usefixtures("lined")
def test_cost_of_a_second_copy_leaves_out_waits_for_products() -> None:
    """Count as the gain the samples of a loop's copy, and of the barrier from it to the product."""
    code = (
        ("WARPGROUP.DEPBAR.LE gsb0, 0x0", {"gmma": 2000}, 1, 8),
        ("STS.128 [R1], R4", {"short_scoreboard": 2000}, 1, 8),
        ("UMOV UR4, 0x400", {"barrier": 1000}, 1, 3),
        ("HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", {"wait": 3000}, 1, 3),
        ("FADD R0, R0, R1", {"barrier": 1000}, 1, 3),
        ("BRA 0x0", {"selected": 1000}, 1, 3),
    )
    finding = only(program(Made(ir=passed_on(), code=code)), "missed-async-copy")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / 0.7, rel=0.01)
