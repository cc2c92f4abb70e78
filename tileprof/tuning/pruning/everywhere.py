"""Pruning of all of Triton's autotuners of a process, as `tileprof run --prune-triton` does.

In: nothing but that Triton is imported at some time, or never.  Out: lists that are pruned when
they are tuned, until `stop`; those with a pruner of their own are left to it.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from tileprof.profiler.import_watch import Watch, when_imported
from tileprof.profiler.replaced import Replaced

from .pruner import TritonPruner, has_pruner

_METHOD = "prune_configs"


class PrunedEverywhere:
    """Prunes each list that an autotuner of Triton is about to time."""

    def __init__(self, keep: int | None = None) -> None:
        self.pruner = TritonPruner(keep)
        self.on = True
        self._replaced: Replaced | None = None
        self._watch: Watch = when_imported("triton.runtime.autotuner", self._attach)

    def stop(self) -> None:
        """Put Triton's own method back; where somebody has wrapped ours, ours does nothing."""
        self._watch.forget()
        self.on = False
        if self._replaced is not None:
            self._replaced.put_back()

    @property
    def sentence(self) -> str:
        """Sentence about what was pruned; '' where no list was."""
        found = self.pruner.outcomes
        if not found:
            return ""
        timed = sum(len(each.kept) for each in found)
        listed = sum(len(each.configurations) for each in found)
        of = "a list" if len(found) == 1 else f"{len(found)} lists"
        return f"pruned {of} of Triton's autotuner: {timed} of {listed} configurations are timed"

    def _attach(self, module: ModuleType) -> None:
        owner: Any = getattr(module, "Autotuner", None)
        original = vars(owner).get(_METHOD) if isinstance(owner, type) else None
        if not callable(original):
            return

        @functools.wraps(original)
        def prune_configs(tuner: Any, *given: Any, **named: Any) -> Any:
            configs = original(tuner, *given, **named)
            keywords = given[0] if given else named.get("kwargs")
            if not self.on or has_pruner(tuner) or not isinstance(keywords, dict):
                return configs
            return self.pruner.kept(tuner.fn, list(configs), {**(tuner.nargs or {}), **keywords})

        self._replaced = Replaced(owner, _METHOD, original, prune_configs)
