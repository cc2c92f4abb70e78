"""Doing something to a module once it has been imported, without importing it.

In: the name of a module and what to do.  Out: a call with the module, at once where it is there
already. A finder in front of all others lets them find the module, and marks what they found:
Python sets `_initializing` of a module's spec to False right after the module has run. So neither
the loader is replaced, nor is a frame of ours around the module when it runs and fails.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

from tileprof.profiler.locks import new_lock

_LAZY: type = importlib.util._LazyModule  # type: ignore[attr-defined]


class Watch:
    """One call that is to come; made by `when_imported`."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self.name = name
        self._then = then

    def forget(self) -> None:
        """Do nothing any more when the module is imported."""
        with _lock:
            if self in _watches:
                _watches.remove(self)
            if not _watches and _finder in sys.meta_path:
                sys.meta_path.remove(_finder)

    def call(self, module: ModuleType) -> None:
        """Do what is to be done, once; a mistake in it does not reach the import."""
        with _lock:
            if self not in _watches:
                return
            self.forget()
        try:
            self._then(module)
        except Exception as error:
            _print(error, f"What was to follow {self.name} failed")


def when_imported(name: str, then: Callable[[ModuleType], None]) -> Watch:
    """Call `then` with the module, now if it is imported, else once it has been.

    In the thread that imports it. An exception from `then` is printed, and goes no further.
    """
    watch = Watch(name, then)
    with _lock:
        _watches.append(watch)
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
    module = sys.modules.get(name)
    if module is not None:
        # Under way, in another thread or further out in this one: its end is heard of, too.
        if not _complete(module):
            _mark(vars(module)["__spec__"])
        if _complete(module):
            watch.call(module)
    return watch


_watches: list[Watch] = []
_lock = new_lock()


class _Finder:
    """Marks the specs of modules that are waited for; it finds nothing by itself."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        watched = {watch.name for watch in _watches[:]}
        for name in watched - {fullname}:
            # One that was found before it was waited for, by a finder in front of this, or by none.
            module = sys.modules.get(name)
            if module is not None and _complete(module):
                _tell(name, module)
        if fullname not in watched:
            return None
        for finder in sys.meta_path[:]:
            find = getattr(finder, "find_spec", None) if finder is not self else None
            spec: ModuleSpec | None = find(fullname, path, target) if find is not None else None
            if spec is not None:
                _mark(spec)
                return spec
        return None


_finder = _Finder()


class _MarkedSpec(ModuleSpec):
    """Tells when its module has run."""

    @property
    def _initializing(self) -> bool:
        return bool(self.__dict__.get("_initializing", False))

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        self.__dict__["_initializing"] = value
        if not value:
            self.__class__ = ModuleSpec  # type: ignore[assignment]
            module = sys.modules.get(self.name)
            if module is not None:
                _tell(self.name, module)


_MarkedSpec.__name__ = _MarkedSpec.__qualname__ = "ModuleSpec"


def _mark(spec: ModuleSpec | None) -> None:
    if type(spec) is ModuleSpec:
        spec.__class__ = _MarkedSpec


def _complete(module: ModuleType) -> bool:
    # Asking a lazy module for an attribute would wake it.
    if type(module) is _LAZY:
        return False
    return not getattr(getattr(module, "__spec__", None), "_initializing", False)


def _tell(name: str, module: ModuleType) -> None:
    for watch in [each for each in _watches[:] if each.name == name]:
        watch.call(module)


def _print(error: Exception, message: str) -> None:
    """Print an error that nobody can catch, through the program's own hook where it has one."""
    if sys.unraisablehook is not sys.__unraisablehook__:
        sys.unraisablehook(_unraisable(error, message))
    elif sys.stderr is not None:
        # Python's own hook takes arguments of a type that only Python can make.
        lines = "".join(traceback.format_exception(error))
        sys.stderr.write(f"{message}\n{lines}")


def _unraisable(error: Exception, message: str) -> Any:
    trace = error.__traceback__
    return SimpleNamespace(
        exc_type=type(error), exc_value=error, exc_traceback=trace, err_msg=message, object=None
    )
