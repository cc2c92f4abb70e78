"""Results that no kernel computed do not count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileprof import learn

HEAD = "import numpy as np\nimport tileprof\nimport tileprof.lang as T\n\n\n"
ATTEMPTS = {
    "NumPy alone": (
        "def add(A, B):\n    return A + B\n",
        "kernel",
        "`add` in add.py is not a kernel",
    ),
    "plain Python": (
        "@tileprof.jit(debug=True)\ndef add(A, B):\n    N = T.const('N')\n"
        "    A: T.Tensor((N,), T.float32)\n    B: T.Tensor((N,), T.float32)\n"
        "    C = T.empty((N,), T.float32)\n    with T.Kernel(N, threads=32) as bx:\n"
        "        C[bx] = np.add(A[bx], B[bx])\n    return C\n",
        "launch",
        "`add` launched no kernel",
    ),
    "NumPy in a kernel": (
        "@tileprof.jit\ndef add(A, B):\n    A: T.Tensor((T.const('N'),), T.float32)\n"
        "    return np.sqrt(A)\n",
        "kernel",
        "`np.sqrt` works on numbers that are known now",
    ),
    "a kernel that writes nothing": (
        "@tileprof.jit\ndef add(A, B):\n    N = T.const('N')\n    A: T.Tensor((N,), T.float32)\n"
        "    B: T.Tensor((N,), T.float32)\n    C = T.empty((N,), T.float32)\n"
        "    with T.Kernel(1, threads=32) as bx:\n        x = A[0]\n    return C\n",
        "values",
        "C[0] is ",
    ),
    "a result in the argument": (
        "@tileprof.jit\ndef add(A, B):\n    N = T.const('N')\n    A: T.Tensor((N,), T.float32)\n"
        "    B: T.Tensor((N,), T.float32)\n    C = T.empty((N,), T.float32)\n"
        "    with T.Kernel(N, threads=32) as bx:\n        A[bx] += B[bx]\n        C[bx] = A[bx]\n"
        "    return C\n",
        "values",
        "the kernel changes its argument `A`",
    ),
    "an error while it is traced": (
        "@tileprof.jit\ndef add(A, B):\n    A: T.Tensor((T.const('N'),), T.float32)\n"
        "    return int('x')\n",
        "kernel",
        "the kernel cannot be traced: ValueError: invalid literal",
    ),
    "nothing": ("pass\n", "file", "add.py has no kernel `add`"),
    "an error": ("1 / 0\n", "file", "the file cannot be imported: ZeroDivisionError"),
    "no Python": ("def add(:\n", "file", "this is not Python"),
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_only_kernels_count(name: str, tmp_path: Path) -> None:
    """The failure says what is missing."""
    text, stage, message = ATTEMPTS[name]
    (tmp_path / "add.py").write_text(HEAD + text)
    failure = learn.check("add", folder=tmp_path).failure
    assert failure is not None
    assert failure.stage == stage
    assert failure.message.startswith(message)
