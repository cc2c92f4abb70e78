"""Run a kernel's function under a tracer, again where one trace learns for the next."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tileprof import ir
from tileprof.errors import InternalError, KernelError, Location, UnsupportedPython, UsageError

from .context import activate
from .dtypes import is_dtype
from .functions import Kernelized, PrimFunc
from .spans import traceback_location
from .tensors import TensorType
from .trace import Given, Knowledge, Retrace, Traced, Tracer
from .values import Poison

_MAX_TRACES = 100


def trace_prim_func(
    function: PrimFunc,
    given: Mapping[str, Given],
    out_idx: Sequence[int] | None,
    knowledge: Knowledge,
) -> Traced:
    """Trace a function whose parameters are all annotated; `out_idx` are those that a call
    allocates and returns."""
    names = list(function.signature.parameters)
    for name in names:
        if name not in function.annotations:
            raise UsageError(
                f"parameter `{name}` of `{function.function.__name__}` has no annotation",
                location=function.location,
                hint="Annotate it: `A: T.Tensor((M, K), dtype)`, or `alpha: T.float32`.",
            )
    traced = _trace(function, {}, function.annotations, given, knowledge)
    assert isinstance(traced, Traced)
    return _with_outputs(traced, out_idx, function) if out_idx is not None else traced


def _with_outputs(traced: Traced, out_idx: Sequence[int], function: PrimFunc) -> Traced:
    params = list(traced.kernel.params)
    count = len(traced.params)
    chosen = []
    for each in out_idx:
        if not -count <= each < count:
            raise UsageError(
                f"`out_idx` {each} of `{function.function.__name__}`, which has {count} parameters",
                location=function.location,
                hint="-1 is the last parameter.",
            )
        at = each % count
        if not isinstance(params[at].type, ir.BufferType):
            raise UsageError(
                f"`out_idx` {each} is the scalar `{params[at].name}`",
                location=function.location,
                hint="A call allocates and returns tensors.",
            )
        params[at] = replace(params[at], role="out")
        chosen.append(at)
    outs = {params[at].name for at in chosen}
    return replace(
        traced,
        kernel=replace(traced.kernel, params=tuple(params)),
        returned=tuple(chosen),
        params=tuple(n for n in traced.params if n not in outs),
    )


def trace_eager(
    function: Kernelized,
    values: Mapping[str, Any],
    annotations: Mapping[str, Any],
    given: Mapping[str, Given],
    knowledge: Knowledge,
) -> Traced | PrimFunc:
    """Trace a function whose body annotates its tensors.  `values` are the arguments that are known
    at compile time; a function that returns a `prim_func` gives that."""
    return _trace(function, values, annotations, given, knowledge)


def _trace(
    function: Kernelized,
    values: Mapping[str, Any],
    annotations: Mapping[str, Any],
    given: Mapping[str, Given],
    knowledge: Knowledge,
) -> Traced | PrimFunc:
    name = function.kernel_name
    order = list(function.signature.parameters)
    for _ in range(_MAX_TRACES):
        try:
            tracer = Tracer(function.staged.__code__, given, knowledge, order)
            tracer.absent = frozenset(n for n, v in values.items() if v is None)
            with activate(tracer):
                args = [_argument(tracer, n, values.get(n), annotations.get(n)) for n in order]
                returned = function.staged(*args)
                if isinstance(returned, PrimFunc):
                    return returned
                return tracer.finish(name, returned, function.location)
        except Retrace:
            continue
        except RecursionError as error:
            raise _too_deep(error, function) from None
        except (TypeError, NameError) as error:
            misuse = _misuse(error) if isinstance(error, TypeError) else _undefined(error, function)
            if misuse is None:
                raise
            raise misuse from None
    raise InternalError(
        f"the trace of `{name}` does not come to an end",
        location=function.location,
        hint="Please report this with the function's text.",
    )


def _misuse(error: TypeError) -> KernelError | None:
    """Return the error of a call of the language with arguments that it does not take."""
    name, parenthesis, rest = str(error).partition("() ")
    location = traceback_location(error)
    if location is None or not parenthesis or not name.isidentifier():
        return None
    surface = sys.modules[__package__]
    function = getattr(surface, name, None) if name in surface.__all__ else None
    if not callable(function):
        return None
    return KernelError(
        f"`T.{name}` {rest}",
        location=location,
        hint=f"It is defined as `T.{name}{_shown(inspect.signature(function))}`.",
    )


def _too_deep(error: RecursionError, function: Kernelized) -> UnsupportedPython:
    """Return the error of text that is nested too deeply, or of functions that call themselves."""
    trace = error.__traceback__
    place = function.location
    while trace is not None:
        # The last line of the kernel's own file that ran: the expression, or the first call.
        if trace.tb_frame.f_code.co_filename == function.source.file:
            place = Location(function.source.file, trace.tb_lineno)
            break
        trace = trace.tb_next
    return UnsupportedPython(
        f"`{function.__name__}` is nested too deeply to be compiled",
        location=place,
        hint="Split long expressions with variables, and let helpers that call themselves end.",
    )


def _undefined(error: NameError, function: Kernelized) -> KernelError | None:
    """Return the error of a name that stands for nothing, in the kernel's own text."""
    location = traceback_location(error)
    name = error.name or ""
    if location is None or location.file != function.source.file or not name:
        return None
    extent = name.isupper() or name in _names_in_shapes(function)
    hint = (
        f'An extent that the arguments give is `{name} = T.const("{name}")`, before the annotations'
        f' that use it; `T.dynamic("{name}")` does not compile again for each value.'
        if extent
        else f"Assign it before this line, or make it a parameter: `{name}` is known to nothing."
    )
    return KernelError(f"`{name}` is not defined", location=location, hint=hint)


def _names_in_shapes(function: Kernelized) -> set[str]:
    """Names in the annotations of a function's body."""
    held = (n.annotation for n in ast.walk(function.source.tree) if isinstance(n, ast.AnnAssign))
    return {n.id for each in held for n in ast.walk(each) if isinstance(n, ast.Name)}


def _shown(signature: inspect.Signature) -> str:
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(plain))


def _argument(tracer: Tracer, name: str, value: Any, annotation: Any) -> Any:
    if isinstance(annotation, TensorType) or is_dtype(annotation):
        return tracer.argument(name, value, annotation)
    if name in tracer.given:
        return unannotated(name)
    return value


def unannotated(name: str) -> Poison:
    """Return what an argument is until the body annotates it."""
    return Poison(
        f"`{name}` is used before its annotation",
        f"Annotate it first: `{name}: T.Tensor((M, N), dtype)`.",
    )
