"""Kernels in text form, compiled and run; what every test of the `cpu` device starts from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.verified import parse
from tileprof.compiler.codegen import CppSource, emit
from tileprof.runtime.cpu.executable import CpuExecutable
from tileprof.runtime.device import RunResult


def source(text: str) -> CppSource:
    """The C++ of a kernel."""
    return emit(parse(text))


def load(text: str) -> CpuExecutable:
    """A kernel, compiled."""
    kernel = parse(text)
    return CpuExecutable(kernel, emit(kernel))


def run(text: str, values: Sequence[Any], symbols: Sequence[int] = ()) -> RunResult:
    """Compile and run on arrays, which are written in place."""
    return load(text).run(values, symbols)


def kernel(name: str, params: Sequence[str], *launches: str, symbols: str = "") -> str:
    """The text of a kernel of one-block launches; `%c0` to `%c4` are constants."""
    named = f" symbols({symbols})" if symbols else ""
    constants = "\n".join(f"  %c{n} = constant {n} : index" for n in range(5))
    bodies = "\n".join(
        f"  launch [%c1] {{threads = [1]}} body(%b: index) {{\n{body}\n  }}" for body in launches
    )
    return f"kernel @{name}({', '.join(params)}){named} {{\n{constants}\n{bodies}\n}}"


def shape(*extents: int) -> str:
    """`2, 3`: extents as a type spells them."""
    return ", ".join(map(str, extents))
