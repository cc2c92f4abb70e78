"""Tiles of every element type, copied to where each block wants them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.running import run
from tileprof import ir

MIRROR = """
kernel @mirror(%x: global<16, TYPE>, %y: out global<16, TYPE>) {
  %c4 = constant 4 : index
  %c12 = constant 12 : index
  launch [%c4] {threads = [32]} body(%bx: index) {
    %s = alloc shared {shape = [4]} : shared<4, TYPE>
    %from = mul %bx, %c4 : index
    %to = sub %c12, %from : index
    %xv = view %x, [%from] {sizes = [4]} : global<4, TYPE>
    copy %xv, %s
    %yv = view %y, [%to] {sizes = [4]} : global<4, TYPE>
    copy %s, %yv
  }
}
"""


@pytest.mark.parametrize("name", [name for name in ir.DTYPES if name != "index"])
def test_tiles_of_every_type_move(name: str) -> None:
    """Each block's tile arrives bit for bit where the block puts it."""
    x = np.arange(16).astype(ir.DTYPES[name].to_numpy())
    y = np.zeros_like(x)
    run(MIRROR.replace("TYPE", name), x, y)
    assert y.tobytes() == x.reshape(4, 4)[::-1].tobytes()
