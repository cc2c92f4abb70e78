"""Run kernels in the text form: one block at a time, three, and all at once must agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.verified import parse
from tileprof import ir
from tileprof.errors import TileprofError
from tileprof.runtime.device import RunResult
from tileprof.runtime.interpreter import InterpreterExecutable

BATCHES = (1, 3, None)


def run(
    text: str, *values: Any, symbols: tuple[int, ...] = (),
    batches: Sequence[int | None] = BATCHES, **options: Any,
) -> RunResult:  # fmt: skip
    """Run a kernel in place; whatever the batch, results, guards and errors must be the same."""
    kernel = parse(text)
    seen: list[tuple[Any, ...]] = []
    copies = [[v.copy(order="K") if isinstance(v, np.ndarray) else v for v in values]
              for _ in batches[:-1]]  # fmt: skip
    for batch, arguments in zip(batches, [*copies, list(values)]):
        executable = InterpreterExecutable(kernel, batch=batch, **options)
        error: TileprofError | None = None
        result = None
        try:
            result = executable.run(arguments, symbols)
        except TileprofError as found:
            error = found
        arrays = [a.tobytes() for a in arguments if isinstance(a, np.ndarray)]
        counted = (result.guarded, dict(result.guarded_by_line)) if result else None
        # After an error, what later blocks had written by then depends on the batch.
        seen.append((type(error), str(error), counted, None if error else arrays))
    assert all(each == seen[0] for each in seen)
    if error is not None:
        raise error
    assert result is not None
    return result


def elementwise(line: str, types: dict[str, str], result: str) -> str:
    """A kernel in which block i computes element i of `r` by one op on %a, %b, ….

    `types`: element type of each argument.  `line`: the op, e.g. `add %a, %b`.
    """
    params = ", ".join(f"%{n}s: global<n, {t}>" for n, t in types.items())
    loads = "\n".join(f"    %{n} = load %{n}s, [%i] : {t}" for n, t in types.items())
    return f"""
kernel @elementwise({params}, %rs: out global<n, {result}>) symbols(%n) {{
  launch [%n] {{threads = [32]}} body(%i: index) {{
{loads}
    %r = {line} : {result}
    store %r, %rs, [%i]
  }}
}}
"""


def compute(line: str, result: str, **arguments: tuple[str, Any]) -> np.ndarray[Any, Any]:
    """The elements that `line` gives; each argument is (element type, values)."""
    types = {name: dtype for name, (dtype, _) in arguments.items()}
    arrays = [array(dtype, values) for dtype, values in arguments.values()]
    out = np.zeros(len(arrays[0]), ir.DTYPES[result].to_numpy())
    # Few batches, however many elements: a batch takes as long as an element.
    batches = (max(1, len(out) // 9), max(1, len(out) // 3), None)
    run(elementwise(line, types, result), *arrays, out, symbols=(len(out),), batches=batches)
    return out


def array(dtype: str, values: Any) -> np.ndarray[Any, Any]:
    """Values as an array of an element type of the IR."""
    held = ir.DTYPES[dtype]
    if held.is_integer:
        return np.array(values, held.to_numpy())
    # ml_dtypes warns of an overflow that a cast to it may well mean.
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(held.to_numpy())
