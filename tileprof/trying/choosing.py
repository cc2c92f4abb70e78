"""Decisions about changes: which need no trial any more, which do the same, and which are kept.

In: candidates, and what came of those before.  Out: decisions without any measurement of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileprof.analyzer.fixes import (
    COMPILED_MODELS,
    CompiledFunction,
    EnvironmentVariable,
    Fix,
    LoaderWorkers,
    LoweringControl,
)

from .outcomes import Candidate, Trial

_AHEAD = 3
"""Batches for each worker that may be ready while a process waits for its turn, with one more."""


def worth_keeping(trials: Sequence[Trial]) -> Trial | None:
    """Return the kept trial that brings most, of equals the one with more changes; None where none
    was kept."""
    return max(
        (each for each in trials if each.verdict == "kept"),
        key=lambda each: (each.measured.value if each.measured else 0, len(each.candidate.fixes)),
        default=None,
    )


def kept_together(tried: Sequence[Trial]) -> tuple[Fix, ...]:
    """Return all changes that were kept; of those that exclude each other, the fastest one."""
    kept = [each for each in tried if each.verdict == "kept"]
    found: dict[str, Fix] = {}
    for trial in sorted(kept, key=lambda each: -(each.measured.value if each.measured else 0)):
        for fix in trial.candidate.fixes:
            found.setdefault(_setting(fix), fix)
    return tuple(found.values())


def is_beaten(candidate: Candidate, tried: Sequence[Trial]) -> bool:
    """Return whether a change that does the same was kept with more than is expected of this one,
    or has timed what this one is a part of."""
    if candidate.predicted is None or len(candidate.fixes) != 1:
        return False
    (fix,) = candidate.fixes
    for trial in tried:
        if len(trial.candidate.fixes) != 1 or not does(trial.candidate.fixes[0], fix):
            continue
        brought = trial.measured.value if trial.measured and trial.verdict == "kept" else 0.0
        if brought >= candidate.predicted.mid:
            return True
        in_model = isinstance(fix, CompiledFunction) and fix.function.endswith(".forward")
        if in_model and trial.verdict in ("kept", "not-faster", "undecided"):
            return True
    return False


def does(first: Fix, second: Fix) -> bool:
    """Return whether a change leaves nothing for a second one to do, or excludes it."""
    compiled = first == COMPILED_MODELS and isinstance(second, CompiledFunction)
    return compiled or _setting(first) == _setting(second)


def lacks_memory(trial: Trial) -> bool:
    """Return whether a process of it ended for want of memory."""
    return trial.verdict == "failed" and "out of memory" in trial.why.lower()


def _setting(fix: Fix) -> str:
    """Return what a change sets: two changes that set the same exclude each other."""
    match fix:
        case EnvironmentVariable(name=name) | LoweringControl(name=name):
            return f"{fix.code} {name}"
        case CompiledFunction():
            return str(fix)
    return fix.code


def lead_of(fixes: Sequence[Fix]) -> int:
    """Return how many steps before each batch are not timed."""
    workers = max((fix.workers for fix in fixes if isinstance(fix, LoaderWorkers)), default=0)
    return 1 + _AHEAD * workers
