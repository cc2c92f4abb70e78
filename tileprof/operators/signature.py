"""The schema of an operator, from the signature of its function.

In: a `@tileprof.jit` function or an annotated Python function.  Out: the text that
`torch.library.define` takes, and the names of the results.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import Any

import torch

from tileprof.errors import Location, UnsupportedPython, UsageError
from tileprof.lang.dtypes import NAMES, dtype, is_dtype
from tileprof.lang.jit_function import JitFunction
from tileprof.lang.rewrite.shaping import annotated_tensors, returned_names
from tileprof.lang.rewrite.source import parse
from tileprof.lang.spans import function_location
from tileprof.lang.tensors import TensorType

_TENSORS = ("Tensor", "StridedTensor")


def schema_of(function: Callable[..., Any], mutates: Sequence[str]) -> str:
    """Return the schema of a function: `(Tensor x, float epsilon=1e-06) -> Tensor`."""
    prototype = _prototype(function) if isinstance(function, JitFunction) else function
    for name in mutates:
        if name not in inspect.signature(prototype).parameters:
            raise UsageError(
                f"`mutates` names `{name}`, which is not a parameter of `{function.__name__}`",
                location=location_of(function),
                hint="Name parameters that the function writes.",
            )
    try:
        return str(torch.library.infer_schema(prototype, mutates_args=tuple(mutates)))
    except ValueError as error:
        first = str(error).splitlines()[0]
        raise UsageError(
            f"`{function.__name__}` cannot be an operator: {first}",
            location=location_of(function),
            hint="Annotate each parameter and the result with `torch.Tensor`, `int`, `float`, "
            "`bool`, `str` or `| None` of one: `def f(x: Tensor, scale: float = 1.0) -> Tensor`.",
        ) from None


def _prototype(kernel: JitFunction) -> Callable[..., Any]:
    """Return a function whose annotations are those that PyTorch reads."""
    if kernel.lazy:
        raise UsageError(
            f"`{kernel.__name__}` makes kernels and is none itself",
            location=kernel.location,
            hint="Make a Python function that calls its kernels the operator.",
        )
    in_body = annotated_tensors(kernel.source)
    params = []
    for name, param in kernel.signature.parameters.items():
        kind, default = _kind(name, in_body, param.default, kernel), param.default
        if isinstance(default, dtype):
            default = str(default)
        params.append(param.replace(annotation=kind, default=default))
    count = len(returned_names(kernel.source))
    many = GenericAlias(tuple, (torch.Tensor,) * count)
    result: Any = {0: None, 1: torch.Tensor}.get(count, many)

    def prototype() -> None:
        """Stand for the kernel."""

    held: Any = prototype
    held.__signature__ = inspect.Signature(params, return_annotation=result)
    return prototype


def _kind(name: str, in_body: dict[str, ast.expr], default: Any, kernel: JitFunction) -> Any:
    """Return the type of a kernel's parameter as an operator's."""
    annotation = kernel.annotation(name)
    if isinstance(annotation, TensorType):
        return torch.Tensor
    if is_dtype(annotation):
        return _number(annotation)
    if name in in_body:
        shown = in_body[name]
        called = getattr(shown, "func", getattr(shown, "value", shown))
        last = getattr(called, "attr", getattr(called, "id", ""))
        last = last if last in _TENSORS else getattr(shown, "attr", getattr(shown, "id", ""))
        return _number(NAMES[last]) if last in NAMES else torch.Tensor
    if annotation is not None:
        return annotation
    if isinstance(default, (bool, int, float, str)):
        known = (bool, int, float, str)
        return next(k for k in known if isinstance(default, k))
    raise UsageError(
        f"nothing gives the type of `{name}` of `{kernel.__name__}`",
        location=kernel.location,
        hint=f"Annotate it: `{name}: int`, or in the body `{name}: T.Tensor((M, N), dtype)`.",
    )


def _number(kind: dtype) -> type:
    if kind == "bool":
        return bool
    return float if "float" in kind else int


def result_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names in the function's `return`; () where its text cannot be found."""
    if isinstance(function, JitFunction):
        return returned_names(function.source)
    try:
        return returned_names(parse(function))
    except UnsupportedPython:
        return ()


def location_of(function: Callable[..., Any]) -> Location | None:
    """Return the place of a function."""
    if isinstance(function, JitFunction):
        return function.location
    code = getattr(function, "__code__", None)
    return None if code is None else function_location(code)
