"""Steps of programs that do not mark them: those of PyTorch's optimizers.

In: PyTorch, once the program has imported it.  Out: a call at the end of each step. A program may
have several optimizers in turn (as adversarial networks do): a step ends with the first one's.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tileprof.profiler.frameworks import training_facts
from tileprof.profiler.import_watch import Watch, when_imported
from tileprof.profiler.locks import new_lock

_lock = new_lock()
_told: list[Callable[[], None]] = []
_watch: Watch | None = None
_handle: Any = None


def attach(tell: Callable[[], None]) -> None:
    """Call a function at the end of each step from now on."""
    global _watch
    with _lock:
        if not _told:
            training_facts.forget()
        _told.append(tell)
        if _watch is None:
            _watch = when_imported("torch.optim.optimizer", _hook)


def detach(tell: Callable[[], None]) -> None:
    """Call that function no more."""
    global _watch, _handle
    with _lock:
        if tell in _told:
            _told.remove(tell)
        if not _told and _watch is not None:
            _watch.forget()
            if _handle is not None:
                _handle.remove()
            _watch = _handle = None


def _hook(module: ModuleType) -> None:
    global _handle
    with _lock:
        # PyTorch before 2.0 has no hooks of all optimizers.
        register = getattr(module, "register_optimizer_step_post_hook", None)
        if _told and register is not None:
            _handle = register(_Leader().stepped)


class _Leader:
    """Finds out which optimizer ends the steps."""

    def __init__(self) -> None:
        self._leader: weakref.ref[Any] | None = None
        self._others: set[int] = set()
        """Optimizers that have stepped since the leader did."""

    def stepped(self, optimizer: Any, args: object, kwargs: object) -> None:
        """Hear of an optimizer's step."""
        training_facts.stepped(optimizer)
        leader = self._leader() if self._leader is not None else None
        if optimizer is not leader:
            # One that steps twice meanwhile takes the place of one that steps no more.
            if leader is not None and id(optimizer) not in self._others:
                self._others.add(id(optimizer))
                return
            self._leader = weakref.ref(optimizer)
        self._others.clear()
        for tell in _told[:]:
            tell()
