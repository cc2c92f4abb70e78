"""Functions of CUDA that an author may call by name.

    T.call_extern("float16", "__float2half_rz", x)

In: the name of a function whose meaning is known here, and its operands.  Out: the operations of
the language that give the same, on every device; an error for any other name, because a text in
another language would run on GPUs only.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from tileprof.errors import UnknownOperation
from tileprof.lang import scalar_math as math
from tileprof.lang.context import current
from tileprof.lang.dtypes import dtype_of
from tileprof.lang.spans import here
from tileprof.lang.static import is_number
from tileprof.lang.values import Scalar

from . import warps

__all__ = ["call_extern", "call_pure_extern", "float16_toward_zero"]


def call_extern(dtype: Any, name: Any = None, *operands: Any) -> Any:
    """Return what a function of CUDA gives for these operands, in the type `dtype`.

    UnknownOperation for a function whose meaning is not known here.
    """
    if isinstance(dtype, str) and dtype in FUNCTIONS:  # the order of other builders
        dtype, name = name, dtype
    function = FUNCTIONS.get(name)
    if function is None:
        near = difflib.get_close_matches(str(name), FUNCTIONS, 3)
        raise UnknownOperation(
            f"`T.call_extern` of {name!r:.60}, whose meaning is not known here",
            location=here(),
            hint=f"Did you mean {' or '.join(near)}?"
            if near
            else "A kernel is the same program on every device: write what the function does in "
            "it.",
        )
    made = function(*operands)
    return math.cast(made, dtype_of(dtype)) if isinstance(made, Scalar) or is_number(made) else made


call_pure_extern = call_extern


def float16_toward_zero(x: Any) -> Any:
    """Return a float32 as a float16, rounded toward zero."""
    nearest = math.cast(x, "float16")
    above = math.abs(math.cast(nearest, "float32")) > math.abs(math.cast(x, "float32"))
    bits = math.reinterpret(nearest, "uint16")
    return math.reinterpret(
        math.if_then_else(above, bits - math.cast(1, "uint16"), bits), "float16"
    )


def _to(kind: str) -> Callable[[Any], Any]:
    return lambda x: math.cast(x, kind)


def _as(kind: str) -> Callable[[Any], Any]:
    return lambda x: math.reinterpret(x, kind)


def _masked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes the threads of a warp that take part first, as CUDA's do."""

    def call(mask: Any, *operands: Any) -> Any:
        warps.check_mask(mask, name)
        return function(*operands)

    return call


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{f"{n}f": getattr(math, n) for n in (
        "fabs", "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin",
        "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "atan2", "pow", "fmod",
        "floor", "ceil", "trunc", "nearbyint", "copysign", "erf", "fma",
    )},
    "fmaxf": math.max, "fminf": math.min, "max": math.max, "min": math.min, "abs": math.abs,
    "__expf": math.exp, "__logf": math.log, "__sinf": math.sin, "__cosf": math.cos,
    "__float2half": _to("float16"), "__float2half_rn": _to("float16"),
    "__float2half_rz": float16_toward_zero, "__half2float": _to("float32"),
    "__float2bfloat16": _to("bfloat16"), "__float2bfloat16_rn": _to("bfloat16"),
    "__bfloat162float": _to("float32"), "__int2float_rn": _to("float32"),
    "__float2int_rz": _to("int32"),
    "__float_as_int": _as("int32"), "__float_as_uint": _as("uint32"),
    "__int_as_float": _as("float32"), "__uint_as_float": _as("float32"),
    "__half_as_ushort": _as("uint16"), "__ushort_as_half": _as("float16"),
    "__popc": math.popcount, "__popcll": math.popcount, "__clz": math.clz, "__clzll": math.clz,
    "__ldg": lambda x: x,
    "__match_any_sync": _masked("call_extern", warps.match_any_sync),
    "__shfl_sync": _masked("call_extern", warps.shfl_sync),
    "__shfl_xor_sync": _masked("call_extern", warps.shfl_xor),
    "__shfl_up_sync": _masked("call_extern", warps.shfl_up),
    "__shfl_down_sync": _masked("call_extern", warps.shfl_down),
    "__any_sync": _masked("call_extern", warps.any_sync),
    "__all_sync": _masked("call_extern", warps.all_sync),
    "__ballot_sync": _masked("call_extern", warps.ballot_sync),
    "__syncwarp": lambda *mask: warps.sync_warp(),
    "__syncthreads": lambda: current().sync_threads(),
}  # fmt: skip
"""Meaning of each known function."""
