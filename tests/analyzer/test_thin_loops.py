"""Loops with little work for each thread, grids across rows, and kernels of several launches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import Made, only, program
from tests.analyzer.written import BY_HAND, kernel
from tileprof.analyzer import analyze
from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.kernel.global_memory import width_of
from tileprof.analyzer.tiles.across_rows import across_rows
from tileprof.analyzer.tiles.contractions import contractions
from tileprof.analyzer.tiles.padding import padded_ops
from tileprof.analyzer.tiles.thin_loops import thin_loops
from tileprof.kernel_ir import Op
from tileprof.profile.storage.ir_text import read

ROWS = """\
kernel @rows(%X: global<64, 4096, float32>, %Y: out global<64, 4096, float32>) {
  %c4 = constant 4 : index
  %c32 = constant 32 : index
  launch [%c32, %c4] {threads = [256]} body(%bx: index, %by: index) {
    %c0 = constant 0 : index
    %c1 = constant 1 : index
    %c16 = constant 16 : index
    %c128 = constant 128 : index
    %sum = alloc fragment {shape = [128]} : fragment<128, float32>
    for serial %c0, %c16, %c1 body(%i: index) {
      parallel [%c128] body(%j: index) {
        %0 = mul %by, %c16 : index
        %y = add %0, %i : index
        %1 = mul %bx, %c128 : index
        %x = add %1, %j : index
        %2 = load %X, [%y, %x] : float32
        store %2, %Y, [%y, %x]
      }
    }
  }
}
"""
TURNED = "launch [%c4, %c32] {threads = [256]} body(%by: index, %bx: index)"
STRAIGHT = "launch [%c32, %c4] {threads = [256]} body(%bx: index, %by: index)"


def test_turns_that_are_independent() -> None:
    """Of rows of 128 elements, 256 threads with 16 bytes each do 8 at a time, or half have none."""
    (thin,) = thin_loops(read(ROWS))
    assert thin.loop is not None
    assert (thin.elements, thin.threads, thin.turns, thin.idle) == (128, 256, 8, 0.5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("store %2, %Y, [%y, %x]", "store %2, %Y, [%by, %x]"),  # the last turn stays
        ("store %2, %Y, [%y, %x]", "store %2, %Y, [%y, %x]\n        store %2, %sum, [%j]"),
        ("load %X, [%y, %x]", "load %Y, [%by, %x]"),  # what another turn wrote
        ("for serial", "for pipelined"),
    ],
)
def test_turns_that_depend_on_each_other(old: str, new: str) -> None:
    """Only threads without an element are told of then."""
    (thin,) = thin_loops(read(ROWS.replace(old, new)))
    assert (thin.loop, thin.idle) == (None, 0.5)


def test_loops_with_work_for_all() -> None:
    """As many elements as threads, in turns that add up."""
    text = ROWS.replace("store %2, %Y, [%y, %x]", "store %2, %Y, [%by, %x]")
    assert not thin_loops(read(text.replace("threads = [256]", "threads = [128]")))


def test_grids_across_rows() -> None:
    """The axis that is counted fastest should be the one of the last index."""
    across = across_rows(read(ROWS.replace(STRAIGHT, TURNED)))
    assert across is not None
    assert (across.first, across.along, across.tensors) == ("by", "bx", ("X", "Y"))
    assert across_rows(read(ROWS)) is None
    transposed = ROWS.replace(STRAIGHT, TURNED).replace("load %X, [%y, %x]", "load %X, [%x, %y]")
    assert across_rows(read(transposed)) is None


def test_products_in_loops_that_data_bound() -> None:
    """How many there are samples have to say."""
    text = kernel(BY_HAND)
    head = next(
        line for line in text.splitlines() if "for pipelined" in line or "for serial" in line
    )
    stop = head.split(", ")[1]
    bounded = f"%many = load %S, [%bx] : int32\n%often = cast %many : index\n{head}"
    bounded = bounded.replace(f", {stop},", ", %often,")
    (product,) = contractions(read(text.replace(head, bounded, 1)))
    assert (product.flops, product.certain) == (float("inf"), False)


def test_padding_of_the_launch_that_matters() -> None:
    """What a launch of one block wastes before another one is of no time."""
    first = """\
  launch [%c1] {threads = [128]} body(%b: index) {
    %c100 = constant 100 : index
    parallel [%c100] body(%lane: index) {
      store %lane, %Owner, [%lane]
    }
  }
"""
    head = "kernel @two(%Owner: out global<72, index>, "
    text = ROWS.replace("kernel @rows(", head)
    both = text.replace("  %c4 =", f"  %c1 = constant 1 : index\n{first}  %c4 =", 1)
    assert padded_ops(read(both.replace("    %c1 = constant 1 : index\n", ""))) == ()
    alone = f"{head[:-2]}) {{\n  %c1 = constant 1 : index\n{first}}}\n"
    (padded,) = padded_ops(read(alone))
    assert padded.inside == pytest.approx(0.72)


def test_facts_are_of_the_launch_of_most_threads() -> None:
    """Where no samples say which takes the time."""
    facts: dict[str, str | int | float] = {
        "grid": "1×1×1", "block": "128×1×1", "blocks_per_sm": 16, "target": "sm_90a",
        "x_1.grid": "1152×1×1", "x_1.block": "256×1×1", "x_1.blocks_per_sm": 1,
    }  # fmt: skip
    (case,) = Program(program(Made(attributes=facts))).kernels
    assert (case.extent("grid"), case.number("blocks_per_sm")) == (1152, 1)
    assert case.attributes["target"] == "sm_90a"


def _at_line(op: Op, line: int) -> Op:
    """An op whose text says no line, with everything inside of it, at one."""
    blocks = tuple(
        replace(block, ops=tuple(_at_line(each, line) for each in block.ops)) for block in op.blocks
    )
    return replace(op, line=line, blocks=blocks)


def test_what_thin_loops_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the samples in a loop of 8 turns at a time 7 of 8 go, and a half at least."""
    tiles = read(ROWS)
    ops = tuple(_at_line(each, 7) for each in tiles.body.ops)
    lined = replace(tiles, body=replace(tiles.body, ops=ops))
    monkeypatch.setattr(KernelCase, "tiles", property(lambda self: lined))
    waits = ("LDG.E R0, [R2.64]", {"long_scoreboard": 8000}, 1, 7)
    other = ("FADD R0, R0, R1", {"selected": 2000}, 0, 3)
    made = Made(ir=ROWS, code=(waits, other))
    finding = only(program(made), "serial-work")
    assert finding.severity == "suggestion"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.8 * 7 / 8), rel=0.05)
    # Warps that wait for those at a barrier elsewhere take no time of their own.
    barrier = ("BAR.SYNC.DEFER_BLOCKING 0x0", {"barrier": 5000}, 0, 4)
    waited = only(program(Made(ir=ROWS, code=(waits, other, barrier))), "serial-work").kernel_gain
    assert waited is not None
    assert waited.mid == pytest.approx(finding.kernel_gain.mid, rel=0.05)
    cold = Made(ir=ROWS, code=(replace_samples(waits, 100), replace_samples(other, 9900)))
    assert "serial-work" not in [each.rule for each in analyze(program(cold)).findings]


def replace_samples(
    row: tuple[str, dict[str, int], int, int], samples: int
) -> tuple[str, dict[str, int], int, int]:
    """An instruction with another number of samples."""
    text, held, depth, line = row
    return text, dict.fromkeys(held, samples), depth, line


def test_bytes_of_fragments_by_rows() -> None:
    """A word of a thread for each matrix."""
    opcodes = ("LDSM.16.M88.4", "LDSM.16.MT88.2", "LDSM.16.M88", "LDS.U16", "LDG.E.128")
    assert tuple(map(width_of, opcodes)) == (16, 8, 4, 2, 16)
