"""Rows of tiles in shared memory that no statement accesses."""

from __future__ import annotations

import pytest

from tileprof.analyzer.kernel.threads.unused_rows import unused_bytes
from tileprof.profile.storage.ir_text import read

KERNEL = """\
kernel @taps(%X: global<4096, float32>, %N: global<64, int32>, %Y: out global<4096, float32>) {{
  %c16 = constant 16 : index
  launch [%c16] {{threads = [128]}} body(%block: index) {{
    %x = alloc shared {{shape = [1024, 2]}} : shared<1024, 2, float32>
    %c0 = constant 0 : index
    %c1 = constant 1 : index
    %c256 = constant 256 : index
    %sum = add %c256, %c16 : index
    %part = view %x, [%c0, %c0] {{sizes = [256, 2], in_bounds = true}} : shared<256, 2, float32>
    %at = view %X, [%c0] {{sizes = [256], in_bounds = true}} : global<256, float32>
    for serial %c0, %c16, %c1 body(%tap: index) {{
      parallel [%c256] body(%i: index) {{
        %row = add %i, %tap : index
        {access}
      }}
    }}
  }}
}}
"""
LOAD = "%v = load %x, [%row, %c0] {in_bounds = true} : float32"


@pytest.mark.parametrize(
    ("access", "rows"),
    [
        (LOAD, 1024 - 271),
        ("%v = load %x, [%i, %c0] {in_bounds = true} : float32", 1024 - 256),
        ("%far = mul %row, %c16 : index\n%v = load %x, [%far, %c0] : float32", 0),
        ("%n = load %N, [%tap] : int32\n%v = load %x, [%n, %c0] : float32", 0),
        ("fill %x, %c0", 0),
    ],
    ids=["two loops", "one loop", "all of it", "rows that memory names", "the tile as a whole"],
)  # fmt: skip
def test_rows_behind_the_last_one_that_is_accessed(access: str, rows: int) -> None:
    """Eight bytes a row; nothing where some use is not known."""
    kernel = read(KERNEL.format(access=access))
    assert kernel is not None
    assert sum(unused_bytes(kernel).values()) == 8 * rows
