"""The benchmark that compiles TileLang's examples sees each kernel that is compiled or launched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAM = """
import sys

import ml_dtypes
import numpy as np

sys.path[:0] = ["benchmarks", "."]
import tilelang_compiling

from tests import lowering_kernels
import tileprof

tilelang_compiling.watch()
x, y = np.ones((2, 64, 64), dtype=ml_dtypes.bfloat16)
tileprof.compile(lowering_kernels.transpose)(x, y)
tileprof.compile(lowering_kernels.reshaped)
for each in tilelang_compiling.made():
    print(each.kernel.name, len(each.before), len(each.after))
"""


def test_kernels_are_seen() -> None:
    """In a process of its own: it is changed for good."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["transpose 2 2", "reshaped 0 0"], done.stderr
