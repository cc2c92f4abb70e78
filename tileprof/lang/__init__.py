"""What a kernel author writes: `import tileprof.lang as T`.

The core of TileLang under its own names and meaning, and `T.scope`.  In: a Python function.  Out: an
`ir.Kernel`, or its results when it is called.  The names here are thin: each hands its arguments to
the active context (`context.py`); tracing (`trace/`) is one, running as plain Python another.
"""

from __future__ import annotations

import difflib
from typing import Any

from tileprof.errors import UnknownOperation

from . import dtypes as _dtypes
from . import loops as _loops
from . import memory as _memory
from . import scalar_math as _math
from . import tensors as _tensors
from . import tiles as _tiles
from .dtypes import dtype
from .functions import macro, prim_func
from .loops import (
    Kernel, Parallel, Persistent, Pipelined, Serial, Unroll, Vectorized, scope, serial, unroll,
    vectorized,
)  # fmt: skip
from .memory import (
    Fragment, Layout, alloc_fragment, alloc_local, alloc_shared, alloc_var, annotate_l2_hit_ratio,
    annotate_layout, annotate_safe_value, make_swizzled_layout, reshape, use_swizzle, view,
)  # fmt: skip
from .scalar_math import (
    Cast, abs, acos, all_of, any_of, asin, atan, atan2, bitwise_and, bitwise_not, bitwise_or,
    bitwise_xor, cast, ceil, ceildiv, clamp, clz, copysign, cos, cosh, erf, exp, exp2, exp10, fabs,
    floor, floordiv, floormod, fma, fmod, if_then_else, infinity, isfinite, isinf, isnan, log, log1p,
    log2, log10, max, max_value, min, min_value, nearbyint, popcount, pow, reinterpret, round, rsqrt,
    shift_left, shift_right, sigmoid, sin, sinh, sqrt, tan, tanh, trunc, truncdiv, truncmod,
)  # fmt: skip
from .spans import here as _here
from .tensors import Ref, StridedTensor, Tensor, const, dyn, dynamic, empty
from .tiles import (
    GemmWarpPolicy, atomic_add, atomic_max, atomic_min, clear, copy, cummax, cumsum, device_assert,
    fill, gemm, print, reduce, reduce_absmax, reduce_abssum, reduce_bitand, reduce_bitor,
    reduce_bitxor, reduce_max, reduce_min, reduce_sum,
)  # fmt: skip

Buffer = Tensor
symbolic = dynamic
# Element types, and the fast-math names, which Python would mangle inside of a class.
globals().update(_dtypes.NAMES)
globals().update(_math.FAST)

__all__ = sorted(
    {"Buffer", "Ref", "StridedTensor", "Tensor", "const", "dtype", "dyn", "dynamic", "empty", "macro",
     "prim_func", "symbolic", *_dtypes.NAMES, *_math.FAST}
    | ({*_loops.__all__, *_memory.__all__, *_tiles.__all__, *_math.__all__} - {"FAST", "Frame"})
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    near = difflib.get_close_matches(name, __all__, 3)
    hint = f"Did you mean {' or '.join(f'`T.{n}`' for n in near)}?" if near else (
        "`dir(tileprof.lang)` lists the operations; operations on single threads and barriers are "
        "not part of the language."
    )  # fmt: skip
    raise UnknownOperation(f"tileprof.lang has no operation `{name}`", location=_here(), hint=hint)
