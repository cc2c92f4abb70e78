"""Combinations that each feature alone does not show."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.running import array, run
from tileprof.errors import UninitializedError

RANK_ZERO = """
kernel @rank_zero(%total: global<int32>, %y: out global<n, int32>) symbols(%n) {
  %c1 = constant 1 : int32
  %c5 = constant 5 : int32
  launch [%n] {threads = [32]} body(%bx: index) {
    %v = alloc local {shape = []} : local<int32>
    fill %v, %c5
    %old = load %v, [] : int32
    %i = cast %bx : int32
    %new = add %old, %i : int32
    store %new, %v, []
    %last = load %v, [] : int32
    store %last, %y, [%bx]
    tile_atomic add %v, %total
    %more = atomic add %c1, %total, [] : int32
  }
}
"""


def test_buffers_of_rank_zero() -> None:
    """A variable may be filled as a tile; a tensor with no dimensions has one element."""
    total, y = np.array(100, np.int32), np.zeros(4, np.int32)
    run(RANK_ZERO, total, y, symbols=(4,))
    assert y.tolist() == [5, 6, 7, 8]
    assert int(total) == 100 + 26 + 4


MASKED_ATOMIC = """
kernel @masked_atomic(%x: global<2, 6, int32>, %sums: out global<2, int32>, %order: out global<2, 6, int32>) {
  %none = constant 0 : int32
  %c0 = constant 0 : index
  %c2 = constant 2 : index
  %c6 = constant 6 : index
  launch [%c2] {threads = [32]} body(%bx: index) {
    %s = alloc shared {shape = [1]} : shared<1, int32>
    fill %s, %none
    parallel [%c6] body(%i: index) {
      %v = load %x, [%bx, %i] : int32
      %on = gt %v, %none : bool
      %seen = if %on : int32 then {
        %old = atomic add %v, %s, [%c0] : int32
        yield [%old]
      } otherwise {
        yield [%v]
      }
      store %seen, %order, [%bx, %i]
    }
    %sum = load %s, [%c0] : int32
    store %sum, %sums, [%bx]
  }
}
"""  # noqa: E501 - the parameters are one list


def test_atomics_of_some_points() -> None:
    """Points that are masked do not take part; the others see the sum so far."""
    x = array("int32", [[1, -1, 2, -1, 3, 4], [-5, 5, -5, 5, -5, 5]])
    sums, order = np.zeros(2, np.int32), np.zeros((2, 6), np.int32)
    run(MASKED_ATOMIC, x, sums, order)
    assert sums.tolist() == [10, 15]
    assert order.tolist() == [[0, -1, 1, -1, 3, 6], [-5, 0, -5, 5, -5, 10]]


PACKED = """
kernel @packed(%x: global<4, uint8>, %y: out global<4, 2, int32>) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c2 = constant 2 : index
  %c4 = constant 4 : index
  %fifteen = constant 15 : uint8
  %four = constant 4 : uint8
  launch [%c1] {threads = [32]} body(%bx: index) {
    %word = alloc local {shape = [1]} : local<1, uint16>
    %bytes = reinterpret %word {shape = [2]} : local<2, uint8>
    parallel [%c4] body(%i: index) {
      %v = load %x, [%i] : uint8
      %low = and %v, %fifteen : uint8
      %high = shr %v, %four : uint8
      store %low, %bytes, [%c0]
      store %high, %bytes, [%c1]
      %both = load %word, [%c0] : uint16
      %wide = cast %both : int32
      store %wide, %y, [%i, %c0]
      for serial %c1, %c2, %c1 body(%k: index) {
        %b = load %bytes, [%k] : uint8
        %w = cast %b : int32
        store %w, %y, [%i, %k]
      }
    }
  }
}
"""


def test_each_point_reinterprets_its_own_memory() -> None:
    """Two nibbles written as bytes are read back as one word, in each point."""
    x, y = array("uint8", [0x21, 0x43, 0xFE, 0]), np.zeros((4, 2), np.int32)
    run(PACKED, x, y)
    assert y.tolist() == [[0x0201, 2], [0x0403, 4], [0x0F0E, 0xF], [0, 0]]


def test_half_of_a_word_is_not_written() -> None:
    """What was written is followed by bytes where a buffer is seen in elements of two sizes."""
    text = PACKED.replace("store %high, %bytes, [%c1]", "")
    with pytest.raises(UninitializedError) as caught:
        run(text, np.zeros(4, np.uint8), np.zeros((4, 2), np.int32))
    assert str(caught.value).splitlines()[0] == (
        "`word` is read at [0] before anything was written there, in block (0), point (i=0)"
    )


MASKED_BOX = """
kernel @masked_box(%x: global<4, int32>, %y: out global<4, int32>) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c2 = constant 2 : index
  %c4 = constant 4 : index
  launch [%c4] {threads = [32]} body(%bx: index) {
    %pair = alloc local {shape = [2]} : local<2, int32>
    %seven = constant 7 : int32
    store %seven, %pair, [%c0]
    %odd = floormod %bx, %c2 : index
    %on = eq %odd, %c1 : bool
    if %on then {
      parallel [%c2] body(%i: index) {
        %v = load %x, [%bx] : int32
        store %v, %pair, [%c0]
      }
    } otherwise {
    }
    if %on then {
    } otherwise {
      %kept = load %pair, [%c0] : int32
      store %kept, %y, [%bx]
    }
    TAIL
  }
}
"""


def test_blocks_that_skip_a_box_keep_their_buffers() -> None:
    """Only the blocks that ran the box lose what its points wrote into."""
    x, y = np.arange(4, dtype=np.int32), np.full(4, -1, np.int32)
    run(MASKED_BOX.replace("TAIL", ""), x, y)
    assert y.tolist() == [7, -1, 7, -1]
    with pytest.raises(UninitializedError) as caught:
        run(MASKED_BOX.replace("TAIL", "%gone = load %pair, [%c0] : int32"), x, y)
    assert "`pair` is read at [0]" in str(caught.value)
    assert "in block (1)" in str(caught.value)


STRIDED_TILES = """
kernel @strided(%x: global<m, n, float16, strides = [s, t]>, %y: out global<m, n, float16>,
    %z: global<3, float16>) symbols(%m, %n, %s, %t) {
  %c0 = constant 0 : index
  %c3 = constant 3 : index
  launch [%m] {threads = [32]} body(%bx: index) {
    %row = alloc fragment {shape = [3]} : fragment<3, float16>
    %xv = view %x, [%bx, %c0] {sizes = [1, 3]} : global<1, 3, float16>
    copy %xv, %row
    %yv = view %y, [%bx, %c0] {sizes = [1, 3]} : global<1, 3, float16>
    copy %row, %yv
    tile_atomic add %row, %z
  }
}
"""


def test_tiles_of_strided_arguments() -> None:
    """Tiles of transposed, sliced and reversed arguments, outputs too."""
    x = np.arange(24, dtype=np.float16).reshape(3, 8)[::-1, 1::3].T
    y = np.zeros((6, 6), np.float16)[::2, ::-2]
    z = np.zeros((3, 2), np.float16)[::-1, 0]
    run(STRIDED_TILES, x, y, z, symbols=(3, 3, 1, 1))
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(z, x.sum(0))
