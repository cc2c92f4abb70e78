"""Calls that `tileprof bench` times: functions, and kernels with arguments made for them.

In: what `FILE:FUNCTION` names, and the values of `--set`.  Out: functions without arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tileprof import ir
from tileprof.bench.arrays import SEED, made_array
from tileprof.errors import ExecutionError, TileprofError, UsageError, last_line, said
from tileprof.runtime.selection import device as on_device

from .kernels import compiled, is_kernel

if TYPE_CHECKING:
    from tileprof.lang.jit_function import Kernel


def calls_of(
    found: Sequence[Callable[..., Any]], values: Mapping[str, Any], device: str
) -> list[Callable[[], Any]]:
    """Return a call of each function or kernel; UsageError for a value that is missing or unknown.

    Functions get the values that they have parameters for, kernels get all.
    """
    taken = set[str]()
    calls = []
    for each in found:
        if is_kernel(each):
            calls.append(_kernel_call(each, values, device))
            taken |= values.keys()
        else:
            _refuse_unfinished(each)
            bound = _bound(each, values)
            taken |= bound.keys()
            calls.append(partial(each, **bound) if bound else each)
    for name in values:
        if name not in taken:
            raise UsageError(f"no function has a parameter `{name}`", hint=f"Drop --set {name}=….")
    return calls


@contextmanager
def failures_of(names: Sequence[str], calls: Sequence[Callable[[], Any]]) -> Iterator[None]:
    """Turn errors that come from the code of these calls into `ExecutionError`s with a place."""
    try:
        yield
    except (TileprofError, KeyboardInterrupt):
        raise
    except BaseException as error:
        for name, call in zip(names, calls):
            code = getattr(getattr(call, "func", call), "__code__", None)
            place = last_line(error, code.co_filename) if code else None
            if place is not None:
                raise ExecutionError(f"`{name}` failed: {said(error)}", location=place) from None
        raise


def _refuse_unfinished(function: Callable[..., Any]) -> None:
    """Raise `UsageError` for a function whose call does none of its work."""
    for is_one, what in (
        (inspect.iscoroutinefunction, "is a coroutine function"),
        (inspect.isasyncgenfunction, "is an asynchronous generator"),
        (inspect.isgeneratorfunction, "is a generator function"),
    ):
        if is_one(function):
            raise UsageError(
                f"`{function.__name__}` {what}: a call of it does none of its work",
                hint="Time a function that runs it to its end, as `asyncio.run` or `list` does.",
            )


def _bound(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    open_ended = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    bound = {n: v for n, v in values.items() if n in parameters or open_ended}
    missing = [
        each.name
        for each in parameters.values()
        if each.default is each.empty
        and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        and each.name not in bound
    ]
    if missing:
        name = getattr(function, "__name__", "the function")
        raise UsageError(
            f"`{name}` needs a value for {', '.join(f'`{n}`' for n in missing)}",
            hint=f"Give it: {' '.join(f'--set {n}=…' for n in missing)}; for arrays, write a "
            "function without arguments that makes them once and calls it.",
        )
    return bound


def _kernel_call(found: Any, values: Mapping[str, Any], device: str) -> Callable[[], Any]:
    from tileprof.lang.functions import PrimFunc

    extents = values
    if isinstance(found, PrimFunc):
        extents = {n: v for n, v in values.items() if n not in found.signature.parameters}
    kernel = compiled(found, extents)
    arguments = arguments_of(kernel, values, device)

    def call() -> Any:
        with on_device(device):
            return kernel(*arguments)

    # Where arrays lie on the GPU, they say where the kernel runs, and a warm call costs less.
    return partial(kernel, *arguments) if device.startswith("cuda") else call


def arguments_of(kernel: Kernel, values: Mapping[str, Any], device: str) -> list[Any]:
    """Return arguments for a kernel: random arrays, and scalars from `--set`."""
    params = {each.name: each for each in kernel.traced.params}
    random = np.random.default_rng(SEED)
    made = []
    for name in kernel.arguments:
        kind = params[name].type
        if not isinstance(kind, ir.BufferType):
            if name not in values:
                raise _unbound(kernel, name)
            made.append(values[name])
            continue
        for extent in kind.shape:
            if not isinstance(extent, int):
                raise _unbound(kernel, extent)
        made.append(made_array(kind.static_shape, kind.dtype, device, random))
    return made


def _unbound(kernel: Kernel, name: str) -> UsageError:
    return UsageError(
        f"`{kernel.__name__}` needs a value for `{name}`",
        location=kernel.location,
        hint=f"Give it: --set {name}=…",
    )
