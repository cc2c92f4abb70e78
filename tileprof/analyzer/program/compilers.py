"""Which nodes of a program compile, or try variants, rather than do its work.

In: a profile, or a symbol of it.  Out: masks of nodes; whether a symbol is a function of
torch.compile, Triton, JAX or others that compiles, or the driver that does.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container

import numpy as np

from tileprof.analyzer.numbers.programs import STEADY_NEARLY_ALL
from tileprof.analyzer.program.masks import Mask, below, nearest, outermost, own, where
from tileprof.profile import Profile, Symbol, of_jax, trials_of_xla

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
_OF_XLA = re.compile(r"Xla(Compile|Module):#(?:.*,)?(?:hlo_)?module=((?:jit|pmap)_[^,#]*)")
"""Name of the range in which XLA compiles a function of JAX, or runs it."""
_DRIVER_COMPILES = "compiling (overhead)"


def compiling(profile: Profile) -> Mask:
    """Return the nodes that compile or try variants, with all below them."""
    return below(profile, where(profile, compiles)) | trials_of_xla(profile)


def compiled_by_xla(profile: Profile) -> dict[str, tuple[int, int]]:
    """Return how often XLA compiled functions of JAX, and how often it ran them, by their names."""
    visits = np.bincount(profile.symbol, own(profile, "count"), len(profile.symbols))
    found = defaultdict[str, list[int]](lambda: [0, 0])
    for number, symbol in enumerate(profile.symbols):
        if symbol.kind == "scope" and (said := _OF_XLA.match(symbol.name)) is not None:
            found[said[2]][said[1] == "Module"] += int(visits[number])
    return {name: (compiled, ran) for name, (compiled, ran) in found.items()}


def is_first_use(profile: Profile) -> bool:
    """Whether XLA compiles nearly only functions that it compiles once and then runs again."""
    if "cpu_time" not in profile.metrics:
        return False
    counts, times = compiled_by_xla(profile), profile.total("cpu_time")
    once = {name for name, (compiled, ran) in counts.items() if compiled == 1 < ran}

    def taken(names: Container[str]) -> float:
        compilations = where(profile, lambda symbol: _compiles_module(symbol, names))
        return float(times[compilations].sum())

    return taken(once) > STEADY_NEARLY_ALL * taken(counts)


def _compiles_module(symbol: Symbol, names: Container[str]) -> bool:
    """Whether it is the range in which XLA compiles a module of one of these names."""
    said = _OF_XLA.match(symbol.name) if symbol.kind == "scope" else None
    return said is not None and said[1] == "Compile" and said[2] in names


def first_uses(profile: Profile) -> Mask:
    """Return what compiles functions of JAX that run more than twice as often as they compile.

    And functions that compile but once. Whatever compiles another one is left out, with all of it.
    """
    counts = compiled_by_xla(profile)
    again = {name for name, (compiled, ran) in counts.items() if 1 < compiled > ran / 2}
    compilers = where(profile, lambda symbol: of_jax(symbol) and compiles(symbol))
    if not any(compiled for compiled, _ in counts.values()) or not compilers.any():
        return np.zeros(len(profile), bool)
    outer = outermost(profile, compilers)
    inside = nearest(profile, outer)
    known = where(profile, lambda symbol: _compiles_module(symbol, counts.keys() - again))
    others = where(profile, lambda symbol: _compiles_module(symbol, again))
    first = outer.copy() if not again else np.isin(np.arange(len(profile)), inside[known]) & outer
    first[inside[others & (inside >= 0)]] = False
    return below(profile, first)


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
