"""Make changes in this process, before the program begins.

In: changes.  Out: how many places of the program each of them has changed. A change that never
came to act is told apart from one that brought nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

from tileprof.analyzer.fixes import (
    CHANNELS_LAST,
    COMPILED_MODELS,
    CONVOLUTION_TRIALS,
    GRADIENTS_TO_NONE,
    NO_CHECKPOINTS,
    PINNED_MEMORY,
    SPARSE_GRADIENTS,
    Autocast,
    CompiledFunction,
    EnvironmentVariable,
    Fix,
    LoaderWorkers,
    LoweringControl,
    MatmulPrecision,
    OptimizerForm,
    Setting,
)
from tileprof.profiler.tree.paths import hidden
from tileprof.profiler.tree.sources import of_user
from tileprof.trying.orders import Place

from . import libraries, sources

_MOST_PLACES = 200
"""Times that a change acts whose places are kept: more than a program has optimizers or loaders."""


class Made:
    """Changes that were made, and how often each came to act."""

    def __init__(self, fixes: Sequence[Fix]) -> None:
        self.counts = [0] * len(fixes)
        self.places: list[dict[Place, None]] = [{} for _ in fixes]
        """Places of the program's code when each change acted first."""
        for at, fix in enumerate(fixes):
            _make(fix, partial(self._count, at))

    def _count(self, at: int) -> None:
        self.counts[at] += 1
        if self.counts[at] > _MOST_PLACES:
            return
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and (hidden(frame.f_code) or not of_user(frame.f_code.co_filename)):
            frame = frame.f_back
        if frame is not None:
            self.places[at][os.path.realpath(frame.f_code.co_filename), frame.f_lineno] = None


def environment(fixes: Sequence[Fix]) -> Mapping[str, str]:
    """Return the variables that have to be set before Python starts."""
    return {fix.name: fix.value for fix in fixes if isinstance(fix, EnvironmentVariable)}


_SETTERS: dict[Setting, Callable[[Callable[[], None]], None]] = {
    CONVOLUTION_TRIALS: libraries.set_convolution_trials,
    PINNED_MEMORY: libraries.set_pinned_memory,
    CHANNELS_LAST: libraries.set_channels_last,
    GRADIENTS_TO_NONE: libraries.set_gradients_to_none,
    NO_CHECKPOINTS: libraries.set_no_checkpoints,
    SPARSE_GRADIENTS: libraries.set_sparse_gradients,
    COMPILED_MODELS: libraries.set_compiled_models,
}


def _make(fix: Fix, count: Callable[[], None]) -> None:
    match fix:
        case Setting():
            _SETTERS[fix](count)
        case MatmulPrecision():
            libraries.set_matmul_precision(fix, count)
        case Autocast():
            libraries.set_autocast(fix, count)
        case OptimizerForm():
            libraries.set_optimizer_form(fix, count)
        case LoaderWorkers():
            libraries.set_loader_workers(fix, count)
        case CompiledFunction(file=file, function=name, line=line):
            sources.decorate_function(file, name, line, partial(_compiled, count))
        case LoweringControl():
            _set_control(fix, count)
        case EnvironmentVariable():
            count()  # it was there when the process started


def _set_control(fix: LoweringControl, count: Callable[[], None]) -> None:
    """Change one control of every kernel that is defined from now on, whatever its author chose."""
    from tileprof.compiler.cuda.controls import controls_of
    from tileprof.lang import compiled

    def changed(given: Any) -> Any:
        found = replace(controls_of(given), **{fix.name: fix.value})  # type: ignore[arg-type]
        count()
        return found

    # Decorators and `tileprof.compile` look it up there.
    setattr(compiled, "controls_of", changed)  # noqa: B010 - the module only imports it


def _compiled(count: Callable[[], None], function: Any) -> Any:
    import torch

    count()
    return torch.compile(function)
