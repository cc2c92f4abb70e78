"""Kernels in text form, with layouts already chosen, run on the emulated machine and compared with
the interpreter."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tests.cuda.emulated import Joined
from tests.verified import parse
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.emit.unit import emit
from tileprof.compiler.cuda.source import CudaSource
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.runtime.interpreter import InterpreterExecutable

Array = np.ndarray[Any, Any]
HOPPER = find_target("sm_90a")


def source(text: str, controls: Controls | None = None) -> CudaSource:
    """The CUDA text of a kernel."""
    return emit(parse(text), HOPPER, controls or Controls())


def compare(
    text: str,
    arrays: Sequence[Array],
    symbols: Sequence[int] = (),
    *,
    seeds: int = 2,
    rtol: float = 0,
) -> CudaSource:
    """Run on the emulator for some seeds and in the interpreter; the arrays must be the same."""
    kernel = parse(text)
    made = emit(kernel, HOPPER, Controls())
    _compare(partial(emulate, made, kernel), kernel, text, arrays, symbols, seeds, rtol)
    return made


def compare_together(cases: Sequence[tuple[str, Sequence[Array], Sequence[int]]]) -> list[str]:
    """Compare kernels on arrays and symbols for one seed, compiled as one text; return the CUDA
    texts of each."""
    kernels = [parse(text) for text, _, _ in cases]
    sources = [emit(kernel, HOPPER, Controls()) for kernel in kernels]
    joined = Joined(sources)
    for made, kernel, (text, arrays, symbols) in zip(sources, kernels, cases):
        run = partial(joined.emulate, made, kernel)
        _compare(run, kernel, text, arrays, symbols, 1, 0)
    return [made.text for made in sources]


def _compare(
    run: Callable[..., object], kernel: ir.Kernel, text: str, arrays: Sequence[Array],
    symbols: Sequence[int], seeds: int, rtol: float,
) -> None:  # fmt: skip
    expected = [a.copy() for a in arrays]
    # The interpreter runs the points of a block as one: it has no use for barriers.
    plain = parse("\n".join(t for t in text.splitlines() if t.strip() != "barrier"))
    InterpreterExecutable(plain).run(expected, symbols)
    for seed in range(seeds):
        found = [a.copy() for a in arrays]
        run(found, dict(zip(kernel.symbols, symbols)), seed=seed)
        for param, one, other in zip(kernel.params, found, expected):
            np.testing.assert_allclose(
                one.astype(np.float64), other.astype(np.float64), rtol=rtol,
                err_msg=f"{param.name} of\n{text}",
            )  # fmt: skip


def numbers(dtype: str, *shape: int, seed: int = 0) -> Array:
    """Small numbers that every type holds."""
    rng = np.random.default_rng(seed)
    low = 0 if dtype[0] in "ub" else -8
    made: Array = rng.integers(low, 9, shape).astype(ir.dtype(dtype).to_numpy())
    return made


def launch(
    params: str,
    body: str,
    *,
    symbols: str = "",
    grid: str = "%c1",
    before: str = "",
    threads: int = 128,
) -> str:
    """The text of a kernel of one launch; `%cN` are constants for all N that the text names."""
    named = f" symbols({symbols})" if symbols else ""
    text = f"{body} {grid} {before}"
    wanted = sorted({int(n) for n in re.findall(r"%c(\d+)\b", text)})
    constants = "\n".join(f"  %c{n} = constant {n} : index" for n in wanted)
    return f"""kernel @points({params}){named} {{
{constants}
{before}
  launch [{grid}] {{threads = [{threads}]}} body(%bx: index) {{
{body}
  }}
}}
"""
