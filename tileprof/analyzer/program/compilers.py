"""Which nodes of a program compile, or try variants, rather than do its work.

In: a profile, or a symbol of it.  Out: masks of nodes; whether a symbol is a function of
torch.compile, Triton, JAX or others that compiles, or the driver that does.
"""

from __future__ import annotations

import re

from tileprof.analyzer.program.masks import Mask, below, where
from tileprof.profile import Profile, Symbol, trials_of_xla

_COMPILING = re.compile(
    r"torch/_dynamo/convert_frame\.py:"
    r"|torch/_inductor/(compile_fx|async_compile|select_algorithm|autotune_process)\.py:(?!.*\brun$)"
    r"|torch/_inductor/runtime/triton_heuristics\.py:.*(benchmark|autotune|precompile)"
    r"|torch/utils/cpp_extension\.py:"
    r"|triton/compiler/compiler\.py:(compile$|ASTSource|IRSource|.*_init_handles)"
    r"|triton/runtime/autotuner\.py:.*(_bench|benchmark)"
    r"|triton/testing\.py:do_bench"
    r"|jax/_src/pjit\.py:(_infer_params|_resolve_and_lower|_pjit_lower)"
    r"|jax/_src/interpreters/pxla\.py:(MeshComputation\.compile|lower_sharding_computation)"
    r"|jax/_src/compiler\.py:(compile_or_get_cached|backend_compile)"
    r"|numba/(core/dispatcher\.py:.*_compile_for_args|cuda/dispatcher\.py:.*compile)"
)
"""Code that compiles or tries variants, as `file:function`; running what it made is in other
functions of the same files. Those of JAX and Numba are as recordings of 2026-11 have them."""
_NUMBA = re.compile(r"numba(_cuda)?/")
_DRIVER_COMPILES = "compiling (overhead)"


def compiling(profile: Profile) -> Mask:
    """Return the nodes that compile or try variants, with all below them."""
    return below(profile, where(profile, compiles)) | trials_of_xla(profile)


def compiles(symbol: Symbol) -> bool:
    """Whether what is below it belongs to compiling."""
    place = symbol.location
    if symbol.kind != "frame" or place is None:
        return symbol.kind == "api" and symbol.name == _DRIVER_COMPILES
    file = place.file.replace("\\", "/")
    function = place.function or symbol.name
    return function != "<module>" and bool(_COMPILING.search(f"{file}:{function}"))


def of_numba(symbol: Symbol) -> bool:
    """Whether it is Numba's own code."""
    place = symbol.location
    return place is not None and bool(_NUMBA.search(place.file.replace("\\", "/")))
