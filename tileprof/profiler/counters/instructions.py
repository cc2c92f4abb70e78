"""Counts of single instructions: what is asked for, what the device has, what was counted.

In: names of CUPTI's SASS metrics, or the set `instructions`.  Out: the native recorder set up for
them, made ready before the program runs; what it has counted, with the cubins of the modules that
ran; and sentences: what counting costs, why it did not happen.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from tileprof.errors import MissingDependencyError, UsageError
from tileprof.profile.instruction_counts import SET, name_of
from tileprof.profiler.cupti import cupti_library
from tileprof.profiler.pcs.held_cubins import ModuleCubins
from tileprof.profiler.pcs.raw import RawCounts

from .lookup import find_instruction_metrics
from .problems import NOT_READ, problem
from .requests import AskedInstructions


@dataclass(frozen=True, slots=True)
class InstructionPlan:
    """Input of the native recorder."""

    asked: AskedInstructions
    metrics: tuple[str, ...]
    """CUPTI's names."""
    chip: str
    """The kind of device, as CUPTI calls it: `GH100`."""

    def sentence(self) -> str:
        """Return a notice for before the program runs."""
        what = f"counting {', '.join(self.asked.names)}"
        return (
            f"{what} on {self.chip}: kernels are patched when they are launched first, run one"
            " after the other and much slower; the times of this profile are those of patched"
            " kernels"
        )


Find = Callable[[Path | str], tuple[str, Sequence[str]]]


def make_instruction_plan(
    asked: AskedInstructions, find: Find = find_instruction_metrics
) -> InstructionPlan:
    """Find out what this machine's first device can count.

    MissingDependencyError where there is no CUPTI or no device; UsageError for a metric that such a
    device does not have.
    """
    found = cupti_library.find_cupti()
    if found is None:
        raise MissingDependencyError(cupti_library.why_not(), hint=cupti_library.remedy())
    chip, known = find(found.path)
    metrics: dict[str, None] = {}
    for name in asked.names:
        if name == SET:
            metrics |= dict.fromkeys(each for each in asked.metrics_of(SET) if each in known)
        elif name in known:
            metrics[name] = None
        else:
            raise UsageError(f"{chip} counts no `{name}` by instruction", hint=_hint(name, known))
    if not metrics:
        raise MissingDependencyError(
            f"CUPTI counts nothing by instruction on {chip}",
            hint="Another version of CUPTI may know this device: pip install -U nvidia-cuda-cupti",
        )
    return InstructionPlan(asked, tuple(metrics), chip)


def _hint(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    of_launches = f"{name}.sum is the sum of each launch, where the device has it."
    return f"It counts {', '.join(near)}; {of_launches}" if near else of_launches.capitalize()


class InstructionCounting:
    """The native recorder's counts of instructions, for one recording."""

    def __init__(self, native: ModuleType) -> None:
        self._native = native
        self._cubins = ModuleCubins(native)
        self.plan: InstructionPlan | None = None
        """Plan of what is counted, if anything."""

    def want(self, plan: InstructionPlan) -> None:
        """Count from the next beginning on; while nothing is recorded."""
        self.plan = plan
        self._native.sass_configure(list(plan.metrics))

    def stop(self) -> None:
        """Count nothing from the next beginning on, and forget what was counted."""
        self.plan = None
        self._native.sass_configure([])

    def counts(self) -> RawCounts | None:
        """Return all that was read until now; None where nobody asked or nothing came."""
        if self.plan is None:
            return None
        drained = self._native.sass_drain()
        if not len(drained["count"]):
            return None
        functions = tuple(drained["functions"])
        return RawCounts(
            drained["function"].astype(np.int64),
            drained["offset"].astype(np.int64),
            drained["metric"].astype(np.int64),
            drained["count"].astype(np.int64),
            functions,
            self._cubins.of(functions),
            tuple(name_of(metric) for metric in self.plan.metrics),
        )

    def facts(self) -> dict[str, str]:
        """Return what provenance tells."""
        if self.plan is None:
            return {}
        status = self._native.sass_status()
        told = f"{', '.join(self.plan.asked.names)} on {self.plan.chip}"
        facts = {"instruction counts": f"{told}; kernels ran patched, one after the other"}
        if status["dropped"]:
            facts["instruction counts"] += f"; {status['dropped']:,} values lost"
        if status["hung"]:
            facts[NOT_READ] = "counts of instructions could not be read in time"
        elif status["code"]:
            facts[NOT_READ] = problem(self._native, status["code"], status["text"])
        elif status["records"] and not len(self._native.sass_drain()["count"]):
            facts[NOT_READ] = f"all {status['records']:,} counts of instructions are 0"
        return facts
