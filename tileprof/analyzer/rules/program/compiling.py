"""Compilation and autotuning after the program has warmed up.

Static: none. Dynamic: what devices worked (trial runs) and waited for below the functions that
compile, of torch.compile, Triton, JAX and others, or the driver; in steps, where the profile tells
steps from what came before; regions that were compiled again by the numbers in their names. All of
it goes where the same code serves all steps. Where steps are not told apart, the part of
compilations that were not the first of their region is taken for its part of the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Column, Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, duration, percent
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.program.compilers import compiled_by_xla, is_first_use, of_numba
from tileprof.analyzer.rules.program.numbers import COMPILING_HOST_SHARE
from tileprof.profile import Symbol, of_jax

_REGION = re.compile(r"Torch-Compiled Region: (\d+)/(\d+)")
_ADVICE = (
    "Compile once: mark what varies as dynamic (torch._dynamo.mark_dynamic, dynamic=True), pad to"
    " few shapes, keep Python numbers that change out of compiled functions, and warm up all shapes"
    " before. TORCH_LOGS=recompiles says why a region was compiled again."
)
_ADVICE_FOR_JAX = (
    "Compile once: call jax.jit outside of loops and keep what it returns, keep shapes and static"
    " arguments the same, put single operations into one function under jax.jit, and keep programs"
    " between runs (jax_compilation_cache_dir). JAX_LOG_COMPILES=1 names what is compiled."
)
_ADVICE_FOR_NUMBA = (
    "Keep what is compiled between runs (cache=True of the decorator), name the types that a"
    " function is called with in its decorator, and call it with few different ones: each is"
    " compiled anew. Compiling for threads (parallel=True) takes longest, and is worth it in loops"
    " that run long."
)
_UNKNOWN = (
    "This recording cannot show whether it is the first use or goes on: record"
    " with `tileprof run --every 10`, which separates steps from what comes before them."
)
_ONCE_OR_NOT = (
    "This recording cannot show whether it is the first use alone or goes on: a run with twice the"
    " steps shows it."
)
_FIRST_USE = (
    "Nearly all of this is the first use of functions that are then run again: a longer run has no"
    " more of it. Keep programs between runs (jax_compilation_cache_dir) where starting takes too"
    " long."
)
_COMPILER = (
    "See what the cache is keyed by: a key that has more in it than the code depends on compiles"
    " again for nothing."
)


def find(program: Program) -> Iterator[Draft]:
    """What compiling costs."""
    tree = Contexts(program)
    compiling = tree.compiling & tree.steady
    if not compiling.any():
        return
    share = _of_all(tree, tree.own("time")[compiling] + tree.own("idle_time")[compiling])
    hosts = 0.0 if program.device_time else _host_share(tree, compiling)
    if share >= COLD or hosts >= COMPILING_HOST_SHARE:
        yield _draft(tree, compiling, share)


def _draft(tree: Contexts, compiling: Mask, share: float) -> Draft:
    again, regions = _again(tree)
    evidence = tuple(_evidence(tree, compiling, again, regions))
    node = _most(tree, compiling)
    place, told = tree.place(node), tree.told(node)
    how = _advice(tree.profile.symbols[tree.profile.symbol[node]])
    if not share or not (tree.knows_steps or again):
        when = " in its steps" if tree.knows_steps else ""
        advice = how if tree.knows_steps or again else _unknown(how)
        advice = _FIRST_USE if is_first_use(tree.profile) else advice
        title = f"the program compiles{when} at {told}"
        return Draft("symptom", title, place, evidence, advice, _COMPILER)
    if tree.knows_steps:
        saving, title = Saving(share / 2, share, share), f"steps compile at {told}"
        return Draft("suggestion", title, place, evidence, how, _COMPILER, saving)
    saving = Saving(0, share * again / regions, share)
    title = f"code is compiled again at {told}"
    return Draft("suggestion", title, place, evidence, how, _COMPILER, saving,
                 confidence="low")  # fmt: skip


def _advice(symbol: Symbol) -> str:
    if of_numba(symbol):
        return _ADVICE_FOR_NUMBA
    return _ADVICE_FOR_JAX if of_jax(symbol) else _ADVICE


def _unknown(how: str) -> str:
    """Return advice where steps are not known; what compiles outside of PyTorch has no such run."""
    return _UNKNOWN if how == _ADVICE else f"{_ONCE_OR_NOT} {how}"


def _evidence(tree: Contexts, compiling: Mask, again: int, regions: int) -> Iterator[Evidence]:
    worked, waited = (_of_all(tree, tree.own(name)[compiling]) for name in ("time", "idle_time"))
    if worked + waited:
        text = (
            f"meanwhile devices wait for {percent(waited)} of their time, and work for"
            f" {percent(worked)} on trials"
        )
        yield Evidence("activities", text)
    host = float(tree.own("cpu_time")[compiling].sum())
    share = percent(_host_share(tree, compiling))
    yield Evidence("activities", f"the host compiles for {duration(host)}, {share} of its time")
    counts = compiled_by_xla(tree.profile).values()
    if compiled := sum(each for each, _ in counts):
        text = (
            f"XLA compiled {compiled:,} programs, which ran {sum(ran for _, ran in counts):,} times"
        )
        yield Evidence("activities", text)
    if again:
        yield Evidence("activities", f"{again} of {regions} compilations of regions were of one"
                                     " that had been compiled before")  # fmt: skip


def _of_all(tree: Contexts, times: Column) -> float:
    """A share of all that was recorded: what compiles is mostly not of each step."""
    whole = tree.program.device_time
    return float(times.sum()) / whole if whole else 0.0


def _host_share(tree: Contexts, compiling: Mask) -> float:
    host = tree.own("cpu_time")
    whole = float(host[tree.steady].sum())
    return float(host[compiling].sum()) / whole if whole else 0.0


def _again(tree: Contexts) -> tuple[int, int]:
    """How many compilations of regions were not the first of theirs, and how many there were."""
    found = {each for name in set(tree.profile.names) if (each := _REGION.match(name))}
    pairs = {(match[1], match[2]) for match in found}
    return sum(number != "0" for _, number in pairs), len(pairs)


def _most(tree: Contexts, compiling: Mask) -> int:
    """The outermost place that compiles with most of the time."""
    outer = np.flatnonzero(tree.outermost(compiling))
    cost = tree.profile.total("cpu_time") if "cpu_time" in tree.profile.metrics else tree.count
    lost = sum(
        np.asarray(tree.profile.total(name), np.float64)
        for name in ("time", "idle_time") if name in tree.profile.metrics
    )  # fmt: skip
    ranked = np.asarray(lost) if np.any(lost) else np.asarray(cost)
    return int(outer[ranked[outer].argmax()])


RULE = ProgramRule("compiling", find)
