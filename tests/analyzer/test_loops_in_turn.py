"""What is said of a kernel whose pipelined loop stands in pieces is what is said of it in one."""

from __future__ import annotations

import pytest

from tests.analyzer.rotated import read_kernel
from tileprof.analyzer.tiles.padding import padded_ops, products_inside
from tileprof.analyzer.tiles.rings import Ring, rings_of
from tileprof.analyzer.tiles.tile_schedule import schedule_of
from tileprof.analyzer.tiles.values import values_of
from tileprof.analyzer.tiles.work import matrix_dtype, tensor_bytes
from tileprof.kernel_ir import TileKernel
from tileprof.profile.storage.ir_text import read

TILE = 128 * 128 * 2
KINDS = [("attention", False), ("rotated", False), ("rotated", True)]


@pytest.mark.spread
@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_the_steady_loop_is_the_pipeline(causal: bool, passes: bool) -> None:
    """Of three loops, or four, one has K and V and most of the turns: as the text before the
    passes says it, and with rings after them; also where the passes make several of one."""
    for name, variable in (("rotated", "k"), ("attention", "turn")):
        (ring,) = rings_of(read_kernel(name, passes, causal=causal))
        assert (ring.stages, ring.stage_bytes) == (2, 2 * TILE)
        assert ring.variable.partition("_")[0] == variable


def test_the_turns_of_the_pieces() -> None:
    """The first tile, then 31 with the values of the one before, and the last one's values."""
    kernel = read_kernel("rotated")
    loops = [op for op in kernel.named("for") if op.word == "pipelined"]
    assert [values_of(kernel).mean_turns(each) for each in loops] == [1, 31, 1]


PIECES = """kernel @k(%A: global<4096, 64, bfloat16>, %n: index) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c2 = constant 2 : index
  launch [%c1] {threads = [128]} body(%bx: index) {
    %S = alloc shared {shape = [64, 64]} : shared<64, 64, bfloat16>
    %T = alloc shared {shape = [64, 64]} : shared<64, 64, bfloat16>
    %U = alloc shared {shape = [32, 64]} : shared<32, 64, int4>
    %F = alloc fragment {shape = [64, 64]} : fragment<64, 64, bfloat16>
    for pipelined %c0, %c2, %c1 {num_stages = 3} body(%early: index) {
      copy %A, %S
      copy %A, %F
    }
    for pipelined %c0, %n, %c1 {num_stages = 4, hints = [[order, 1]]} body(%most: index) {
      for serial %c0, %c2, %c1 body(%part: index) {
        copy %A, %S
      }
    }
    for pipelined %c0, %c2, %c1 {num_stages = 2} body(%other: index) {
      copy %A, %T
      copy %A, %U
    }
    for pipelined %c0, %c2, %c1 body(%plain: index) {
      copy %A, %U
    }
  }
}
"""


def test_what_is_known_at_launch_only_is_the_most() -> None:
    """What is peeled off has a few turns. Loops with other buffers are other pipelines, and those
    that do not say how far they load ahead are none."""
    both = (Ring("other", 2, 8192 + 2048), Ring("most", 4, 8192))
    assert rings_of(read(PIECES)) == both


@pytest.mark.parametrize(("name", "passes"), KINDS)
def test_types_and_bytes(name: str, passes: bool) -> None:
    """Of tensors and products."""
    kernel = read_kernel(name, passes)
    assert matrix_dtype(kernel) == "bfloat16"
    lse = 4 * 16 * 4096 * 4 if name == "attention" else 0
    assert tensor_bytes(kernel) == 4 * (4 * 4096 * 16 * 128 * 2) + lse


@pytest.mark.parametrize("name", ["attention", "rotated"])
def test_what_blocks_read_adds_up(name: str) -> None:
    """Each block its tile of Q, and all of K and V, in as many loops as there are."""
    schedule = schedule_of(read_kernel(name))
    assert schedule is not None
    read_by_all = sum(each.size[each.number].sum() for each in schedule.panels)
    assert read_by_all == 32 * 64 * (TILE + 2 * 32 * TILE)
    assert schedule.read(1, 132) == pytest.approx(3 * 4 * 4096 * 16 * 128 * 2)


def outside(kernel: TileKernel) -> set[tuple[str, int, int]]:
    """What products reach beyond: tensor, extent, end of the last tile."""
    ops = [each for each in padded_ops(kernel) if each.op == "gemm"]
    return {(each.tensor, one.extent, one.reach) for each in ops for one in each.beyond}


@pytest.mark.parametrize("name", ["attention", "rotated"])
def test_masked_turns_are_a_part_of_their_product(name: str) -> None:
    """Of 24 tiles of 176 keys the last one has 48: not the masked turn alone is looked at, nor is
    the product of weights and values left out, whose keys no view of the weights tells."""
    kernel = read_kernel(name, block_N=176)
    assert outside(kernel) == {("K", 4096, 4224), ("V", 4096, 4224)}
    assert products_inside(kernel) == pytest.approx(4096 / 4224)


TWO = """kernel @k(%A: global<100, 64, bfloat16>, %B: global<64, 64, bfloat16>) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c3 = constant 3 : index
  launch [%c1] {threads = [128]} body(%bx: index) {
    %S = alloc shared {shape = [128, 64]} : shared<128, 64, bfloat16>
    %T = alloc shared {shape = [64, 64]} : shared<64, 64, bfloat16>
    %C = alloc fragment {shape = [128, 64]} : fragment<128, 64, float32>
    %D = alloc fragment {shape = [64, 64]} : fragment<64, 64, float32>
    %a = view %A, [%c0, %c0] {sizes = [128, 64]} : global<128, 64, bfloat16>
    copy %a, %S
    %b = view %B, [%c0, %c0] {sizes = [64, 64], in_bounds = true} : global<64, 64, bfloat16>
    copy %b, %T
    gemm %S, %T, %C
    for serial %c0, %c3, %c1 body(%k: index) {
      gemm %T, %T, %D
    }
  }
}
"""


def test_products_count_by_their_work() -> None:
    """One of 128 rows, of which 100 are there, once; one of 64 rows, all inside, three times."""
    assert products_inside(read(TWO)) == pytest.approx((128 * 0.78125 + 3 * 64) / (128 + 3 * 64))
    assert products_inside(read("")) == 1
