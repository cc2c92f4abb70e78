"""Names of `tileprof.lang`, loaded when one is first used."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tileprof.errors import UnknownOperation

from . import dtypes as _dtypes
from . import scalar_math as _math
from .dtypes import dtype
from .foreign import other_name as _other_name
from .functions import macro, prim_func
from .loops import (
    Else,
    If,
    Kernel,
    Parallel,
    Persistent,
    Pipelined,
    Serial,
    Then,
    Unroll,
    Vectorized,
    grid,
    loop_break,
    parallel,
    scope,
    serial,
    unroll,
    vectorized,
)  # fmt: skip
from .memory import (
    Fragment,
    Layout,
    alloc_fragment,
    alloc_global,
    alloc_local,
    alloc_reducer,
    alloc_shared,
    alloc_var,
    annotate_l2_hit_ratio,
    annotate_layout,
    annotate_safe_value,
    assume,
    disable_warp_group_reg_alloc,
    import_source,
    make_swizzled_layout,
    no_set_max_nreg,
    pdl_sync,
    pdl_trigger,
    reshape,
    sync_grid,
    sync_threads,
    use_swizzle,
    view,
)  # fmt: skip
from .scalar_math import (
    And,
    Cast,
    Not,
    Or,
    Select,
    abs,
    acos,
    all_of,
    any_of,
    asin,
    atan,
    atan2,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cast,
    ceil,
    ceildiv,
    clamp,
    clz,
    copysign,
    cos,
    cosh,
    dp4a,
    erf,
    exp,
    exp2,
    exp10,
    fabs,
    floor,
    floordiv,
    floormod,
    fma,
    fmod,
    if_then_else,
    infinity,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    max,
    max_value,
    min,
    min_value,
    nearbyint,
    popcount,
    pow,
    reinterpret,
    round,
    rsqrt,
    shift_left,
    shift_right,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
    truncdiv,
    truncmod,
)  # fmt: skip
from .spans import here as _here
from .tensors import (
    FragmentBuffer,
    LocalBuffer,
    Ref,
    SharedBuffer,
    StridedTensor,
    Tensor,
    const,
    dyn,
    dynamic,
    empty,
)  # fmt: skip
from .threads import pairs as _pairs
from .threads.async_copies import ptx_cp_async, tvm_access_ptr, type_annotation
from .threads.externs import call_extern, call_pure_extern
from .threads.numbers import (
    attr,
    comm_reducer,
    evaluate,
    get_block_binding,
    get_block_bindings,
    get_thread_binding,
    get_thread_bindings,
    thread_binding,
    thread_return,
    tvm_thread_allreduce,
)  # fmt: skip
from .threads.pairs import abs2, add2, fma2, max2, min2, mul2, sub2
from .threads.random_numbers import rng_init, rng_rand, rng_rand_float
from .threads.roles import (
    alloc_barrier,
    annotate_consumer_reg_alloc,
    annotate_producer_reg_dealloc,
    async_copy,
    barrier_arrive,
    barrier_wait,
    cp_async_barrier_noinc,
    dec_max_nreg,
    fence_proxy_async,
    inc_max_nreg,
    mbarrier_arrive,
    mbarrier_wait_parity,
    named_barrier_arrive,
    ptx_commit_group,
    ptx_wait_group,
    set_max_nreg,
    tma_copy,
    wait_wgmma,
    warpgroup_fence_operand,
    wgmma_gemm,
    ws,
)  # fmt: skip
from .threads.warps import (
    all_sync,
    any_sync,
    ballot,
    ballot_sync,
    get_lane_idx,
    get_warp_group_idx,
    get_warp_idx,
    get_warp_idx_sync,
    match_any_sync,
    shfl_down,
    shfl_sync,
    shfl_up,
    shfl_xor,
    shuffle_elect,
    sync_warp,
    tvm_warp_shuffle,
    tvm_warp_shuffle_down,
    tvm_warp_shuffle_up,
    warp_reduce_bitand,
    warp_reduce_bitor,
    warp_reduce_max,
    warp_reduce_min,
    warp_reduce_sum,
)  # fmt: skip
from .tiles import (
    GemmWarpPolicy,
    atomic_add,
    atomic_addx2,
    atomic_addx4,
    atomic_max,
    atomic_min,
    clear,
    copy,
    cummax,
    cumsum,
    device_assert,
    fill,
    finalize_reducer,
    gemm,
    im2col,
    print,
    reduce,
    reduce_absmax,
    reduce_abssum,
    reduce_bitand,
    reduce_bitor,
    reduce_bitxor,
    reduce_max,
    reduce_min,
    reduce_sum,
    reducer_init,
    reducer_update,
)  # fmt: skip

Buffer = Tensor
FloorDiv, FloorMod = floordiv, floormod
symbolic = dynamic
__all__ = [
    "And", "Buffer", "Cast", "Else", "FloorDiv", "FloorMod", "Fragment", "FragmentBuffer",
    "GemmWarpPolicy", "If", "Kernel", "Layout", "LocalBuffer", "Not", "Or", "Parallel",
    "Persistent", "Pipelined", "Ref", "Serial", "SharedBuffer", "StridedTensor", "Tensor", "Then",
    "Unroll", "Vectorized", "abs", "acos", "all_of", "all_sync", "alloc_barrier", "alloc_fragment",
    "alloc_global", "alloc_local", "alloc_reducer", "alloc_shared", "alloc_var",
    "annotate_consumer_reg_alloc", "annotate_l2_hit_ratio", "annotate_layout",
    "annotate_producer_reg_dealloc", "annotate_safe_value", "any_of", "any_sync", "asin", "assume",
    "atan", "atan2", "atomic_add", "atomic_addx2", "atomic_addx4", "atomic_max", "atomic_min",
    "attr", "ballot", "ballot_sync", "barrier_arrive", "barrier_wait", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "cast", "ceil", "ceildiv", "clamp", "clear", "clz", "comm_reducer",
    "compile", "const", "copy", "copysign", "cos", "cosh", "cummax", "cumsum", "device_assert",
    "disable_warp_group_reg_alloc", "dp4a", "dtype", "dyn", "dynamic", "empty", "erf", "evaluate",
    "exp", "exp2", "exp10", "fabs", "fill", "finalize_reducer", "floor", "floordiv", "floormod",
    "fma", "fmod", "gemm", "get_block_binding", "get_block_bindings", "get_lane_idx",
    "get_thread_binding", "get_thread_bindings", "get_warp_group_idx", "get_warp_idx",
    "get_warp_idx_sync", "grid", "if_then_else", "im2col", "import_source", "infinity", "isfinite",
    "isinf", "isnan", "jit", "log", "log1p", "log2", "log10", "loop_break", "macro",
    "make_swizzled_layout", "max", "max_value", "mbarrier_arrive", "mbarrier_wait_parity", "min",
    "min_value", "nearbyint", "no_set_max_nreg", "parallel", "popcount", "pow", "prim_func",
    "print", "ptx_cp_async", "reduce", "reduce_absmax",
    "reduce_abssum", "reduce_bitand", "reduce_bitor", "reduce_bitxor", "reduce_max", "reduce_min",
    "reduce_sum", "reducer_init", "reducer_update", "reinterpret", "reshape", "rng_init",
    "rng_rand", "rng_rand_float", "round", "rsqrt", "scope", "serial", "shfl_down", "shfl_sync",
    "shfl_up", "shfl_xor", "shift_left", "shift_right", "shuffle_elect", "sigmoid", "sin", "sinh",
    "sqrt", "symbolic", "sync_grid", "sync_threads", "sync_warp", "tan", "tanh", "thread_binding",
    "tma_copy", "trunc", "truncdiv", "truncmod", "tvm_access_ptr", "tvm_thread_allreduce",
    "tvm_warp_shuffle", "tvm_warp_shuffle_down", "tvm_warp_shuffle_up", "type_annotation", "unroll",
    "use_swizzle", "vectorized", "view", "warp_reduce_bitand", "warp_reduce_bitor",
    "warp_reduce_max", "warp_reduce_min", "warp_reduce_sum", "ws",
]  # fmt: skip
__all__ += ["dec_max_nreg", "fence_proxy_async", "inc_max_nreg", "wait_wgmma"]
__all__ += ["warpgroup_fence_operand", "wgmma_gemm"]
# Element types, and the fast-math names, which Python would mangle inside of a class.
globals().update(_dtypes.NAMES)
globals().update(_dtypes.PACKED)
globals().update(_math.FAST)
globals().update(_pairs.PAIRS)
# Statements and functions by which authors steer single threads and launches.
__all__ += ["Select", "call_extern", "call_pure_extern", "match_any_sync", "pdl_sync"]
__all__ += ["pdl_trigger", "ptx_commit_group", "ptx_wait_group", "thread_return"]
__all__ += ["async_copy", "cp_async_barrier_noinc", "named_barrier_arrive", "set_max_nreg"]
__all__ += ["abs2", "add2", "fma2", "max2", "min2", "mul2", "sub2", *_pairs.PAIRS]
__all__ += [*_dtypes.NAMES, *_dtypes.PACKED, *_math.FAST]

if TYPE_CHECKING:
    from .jit_function import compile, jit


def __getattr__(name: str) -> Any:
    if name in ("compile", "jit"):
        # Loaded when a kernel is compiled: the compiler and the runtime come with it.
        return getattr(import_module("tileprof.lang.jit_function"), name)
    if name.startswith("__"):
        raise AttributeError(name)
    near = difflib.get_close_matches(name, __all__, 3)
    other = _other_name(name)
    if other:
        hint = f"The language has {other}."
    elif near:
        hint = f"Did you mean {' or '.join(f'`T.{n}`' for n in near)}?"
    else:
        hint = (
            "`dir(tileprof.lang)` lists the operations; single instructions are not part of the "
            "language."
        )
    raise UnknownOperation(f"tileprof.lang has no operation `{name}`", location=_here(), hint=hint)
