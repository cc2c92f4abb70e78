"""What other libraries and plain Python have is refused at the author's line, and the error names
the operation of the language."""

from __future__ import annotations

import linecache
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileprof
from tests.call_kernels import scaled
from tileprof import ir
from tileprof.errors import KernelError

HEAD = """import math

import numpy as np
import tileprof
import tileprof.lang as T


@tileprof.jit
def f(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
"""
ELEMENTS = """    with T.Kernel(1, threads=32) as bx:
        for i, j in T.Parallel(M, N):
            Y[i, j] = {}
    return Y
"""


def refused(tmp_path: Path, text: str) -> tuple[KernelError, list[str]]:
    """The error of a module's kernel `f` of one array, and the files of its traceback."""
    path = tmp_path / "kernel_under_test.py"
    path.write_text(text)
    linecache.checkcache(str(path))
    scope: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), scope)
    with pytest.raises(KernelError) as caught, tileprof.device("interpreter"):
        scope["f"](np.ones((4, 4), np.float32))
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    return caught.value, [f for f in files if "/tileprof/" in f or "/ast.py" in f]


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("np.sin(X[i, j])", "`T.sin`"),
        ("np.maximum(X[i, j], 0)", "`T.max(a, b)`"),
        ("np.where(X[i, j] > 0, 1, 0)", "`T.if_then_else"),
        ("np.sum(X)", "`T.reduce_sum`"),
        ("math.exp(X[i, j])", "`T.exp`"),
        ("max(X[i, j], 0)", "`T.max(a, b)`"),
        ("int(X[i, j])", "`T.cast"),
        ("X @ X", "`T.gemm"),
        ("X[i, j] @ X[i, j]", "`T.gemm"),
        ("X + X", "`for i, j in T.Parallel"),
        ("X.sum()", "`T.reduce_sum`"),
        ("X[i][j]", "`X[i, j]`"),
        ("X[i, 0.5]", "`//`"),
        ("T.maximum(X[i, j], 0)", "`T.max(a, b)`"),
        ("T.Grid(3)", "`T.Parallel"),
        ("T.grid(3)", "`for i, j in T.grid"),
    ],
)
def test_operation_of_another_name(tmp_path: Path, written: str, named: str) -> None:
    """The place is the line that uses it, and no frame of tileprof stands in the traceback."""
    text = HEAD + ELEMENTS.format(written)
    error, internal = refused(tmp_path, text)
    assert named in error.hint
    assert error.location is not None
    assert error.location.line == text[: text.index(written)].count("\n") + 1
    assert internal == []


def test_torch_functions_are_refused_by_name(tmp_path: Path) -> None:
    """PyTorch's functions find the same answer."""
    pytest.importorskip("torch")
    error, _ = refused(tmp_path, "import torch\n" + HEAD + ELEMENTS.format("torch.tanh(X[i, j])"))
    assert "`torch.tanh`" in error.message
    assert "`T.tanh`" in error.hint


def test_numpy_scalar_on_the_left_is_an_operand() -> None:
    """`np.float32(2) * x` is arithmetic of the kernel."""
    with tileprof.device("interpreter"):
        assert scaled(np.ones(3, np.float32)).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("body", "message", "named"),
    [
        ("    with T.Kernel(K):\n        Y[0, 0] = 1.0\n    return Y\n", "`K` is not", "T.const("),
        ("    with T.Kernel(1):\n        Y[0, 0] = gone\n    return Y\n", "`gone` is", "Assign"),
        ("    with T.Kernel(M / 2):\n        Y[0, 0] = 1.0\n    return Y\n", "a grid is", "`//`"),
        ("    with T.Kernel(1):\n        try:\n            pass\n        finally:\n"
         "            pass\n    return Y\n", "`try` cannot", "T.device_assert"),
    ],
)  # fmt: skip
def test_mistake_is_told_at_its_line(tmp_path: Path, body: str, message: str, named: str) -> None:
    """Undefined names, floats as extents and unsupported statements; tileprof's own frames and
    those of `ast` are not shown."""
    error, internal = refused(tmp_path, HEAD + body)
    assert message in error.message
    assert named in error.hint
    assert internal == []


def test_missing_extent_of_an_annotation_names_const(tmp_path: Path) -> None:
    """A kernel that forgets `T.const` learns of it where the extent is used."""
    text = (HEAD + ELEMENTS.format("X[i, j]")).replace('    M, N = T.const("M, N")\n', "")
    error, _ = refused(tmp_path, text)
    assert error.message == "`M` is not defined"
    assert 'M = T.const("M")' in error.hint
    assert error.location is not None
    assert error.location.line == 10


def test_expression_without_end_is_a_sentence(tmp_path: Path) -> None:
    """Text that Python reads and that is nested too deeply for the compiler is told so."""
    error, _ = refused(tmp_path, HEAD + ELEMENTS.format("+".join(["X[i, j]"] * 1200)))
    assert "nested too deeply" in error.message
    assert len(str(error)) < 2000


@pytest.mark.parametrize("bomb", ["[" * 20_000, "9" * 100_000, "(" * 20_000])
def test_ir_text_without_end_is_a_sentence(bomb: str) -> None:
    """The reader of IR text refuses brackets in brackets and numbers of any length."""
    with pytest.raises(KernelError):
        ir.parse(f"kernel @k(%x: global<4, float32>) {{\n  %c = constant {bomb} : index\n}}")


def test_ir_blocks_in_blocks_are_limited() -> None:
    """A kernel has at most 200 blocks in each other; more are no kernel that was compiled."""
    block = ir.Block()
    for _ in range(300):
        block = ir.Block([], [ir.Scope("s", block)])
    kernel = ir.Kernel("k", (), (), block)
    with pytest.raises(KernelError, match="more than 100 regions"):
        ir.parse(ir.print_kernel(kernel))
