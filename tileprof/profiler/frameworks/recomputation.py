"""Forward passes that a backward pass runs again: their operations are observed.

In: PyTorch's module of checkpoints, once it is imported, and the observer's library.  Out: while
attached, operations that a checkpoint runs again within a node of the backward pass are entries as
those of the first pass are. Other operations within such nodes are not observed.
"""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import Any

from tileprof.profiler.import_watch import when_imported
from tileprof.profiler.replaced import Replaced

_HOOK = "_recomputation_hook"
"""PyTorch's context manager around what `checkpoint(use_reentrant=False)` runs again, as of PyTorch
2.13, 2026-11. With `use_reentrant=True` it does so in a node of Python, which is observed."""


class Recomputation:
    """PyTorch's context manager around what runs again, replaced while it is recorded."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._replaced: Replaced | None = None
        self._watch = when_imported("torch.utils.checkpoint", self._replace)

    def stop(self) -> None:
        """Put back what was there, unless somebody has put something else there since."""
        self._watch.forget()
        if self._replaced is not None:
            self._replaced.put_back()

    def _replace(self, module: ModuleType) -> None:
        theirs = getattr(module, _HOOK, None)
        if not isinstance(theirs, type):
            return
        with suppress(TypeError):
            self._replaced = Replaced(module, _HOOK, theirs, _observed(theirs, self._library))


def _observed(theirs: Any, library: Any) -> type:
    begin, end = library.tileprof_again_begin, library.tileprof_again_end

    class Observed(theirs):  # type: ignore[misc]
        """The same, with operations observed inside."""

        def __enter__(self) -> Any:
            entered = super().__enter__()
            self._begun_by_tileprof = begin()
            return entered

        def __exit__(self, *reason: Any) -> Any:
            end(self._begun_by_tileprof)
            return super().__exit__(*reason)

    Observed.__name__, Observed.__qualname__ = theirs.__name__, theirs.__qualname__
    return Observed
