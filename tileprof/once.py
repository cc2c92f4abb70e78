"""Initialisation that happens once in a process, however many threads ask for it at the same time.

`functools.cache` does not give that: it lets every thread whose call begins before the first result
is stored run the function.  Nothing here hangs a forked child: a lock that another thread held at
the fork is a new one in the child, and what that thread had not finished is done anew.
"""

from __future__ import annotations

import _frozen_importlib
import functools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast

__all__ = ["Guard", "Kept", "cached_property", "names_of", "once", "unforked"]

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Guard:
    """A lock that its thread may take again, and that a forked child never finds held."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _GUARDS.add(self)

    def __enter__(self) -> None:
        """Wait until no other thread is inside."""
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let another thread in."""
        self._lock.release()

    def _renew(self) -> None:
        """Replace the lock in a forked child, unless the forking thread itself is inside."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()


_GUARDS: weakref.WeakSet[Guard] = weakref.WeakSet()


_MISSING = object()


class Kept(dict[K, V]):
    """Values by key, each made once: threads that want one that is being made wait for it.

    Values of other keys can be made meanwhile.
    """

    __slots__ = ("_making",)

    def __init__(self) -> None:
        super().__init__()
        self._making: dict[K, Guard] = {}

    def made(self, key: K, make: Callable[[], V]) -> V:
        """Return the value; `make` is called where there is none, and again if it raised."""
        # Values may be cleared at any time, so none is looked up twice.
        missing: Any = _MISSING
        made: V = self.get(key, missing)
        if made is not missing:
            return made
        with self._making.setdefault(key, Guard()):
            made = self.get(key, missing)
            if made is missing:
                made = self[key] = make()
        self._making.pop(key, None)
        return made


class Once(Protocol[P, R]):
    """A function whose result is computed once for each tuple of arguments."""

    __wrapped__: Callable[..., Any]
    """The function itself."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result, computed by the first call."""

    def cache_clear(self) -> None:
        """Forget all results, so that the next call computes anew."""


def once(function: Callable[P, R]) -> Once[P, R]:
    """Decorate a function so that it runs once for each tuple of (hashable) arguments.

    Threads that call it meanwhile wait and get the same result.  A call that raises is not
    remembered: the next call tries again.  The function may call itself with other arguments.
    """
    results: dict[Hashable, R] = {}
    guard = Guard()

    # Calls after the first cost what `functools.cache` costs: some are made at each launch.
    @functools.cache
    @functools.wraps(function)
    def locked(*args: Any, **kwargs: Any) -> R:
        key = (args, tuple(sorted(kwargs.items())))
        with guard:
            if key not in results:
                results[key] = function(*args, **kwargs)
            return results[key]

    forget = locked.cache_clear

    def cache_clear() -> None:
        with guard:
            results.clear()
            forget()

    made: Any = locked
    made.cache_clear = cache_clear
    made.__wrapped__ = function
    return cast(Once[P, R], made)


if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property(functools.cached_property):
        """`functools.cached_property` without a lock, and with one value for all threads.

        The lock of Python 3.11 belongs to the property and not to the object: all objects wait for
        one, and a forked child waits for ever if another thread was computing at the fork.  Later
        versions have none, and threads that compute together get different values.  Here some
        threads may compute in vain, but all get the value that was stored first.
        """

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            """Return the value, computed where there is none yet."""
            if instance is None:
                return self
            held = instance.__dict__
            if self.attrname not in held:
                held.setdefault(self.attrname, self.func(instance))
            return held[self.attrname]


# -- names of packages


def names_of(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for the `__init__` of `package`, which load its names.

    They are those of the module `public` of the package. That module is imported when a name is
    first used, because no `__init__` of tileprof may import a module of its own package: Python
    holds a module's lock while it is imported, and takes that of `package.module` before that of
    `package`. An `__init__` would take them the other way round, and two threads that import the
    package and the module would wait for each other.

    No public name may be that of a module of the package, because Python puts the module in its
    place.
    """
    held = vars(sys.modules[package])

    def find(name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name != "__all__":
            # Python and its tools ask every module for many of these.
            raise AttributeError(f"module '{package}' has no attribute '{name}'", name=name)
        if find_spec(f"{package}.{name}"):
            # Modules of the package that `public` imports import each other like this.
            return import_module(f"{package}.{name}")
        public = import_module(f"{package}.public")
        # All at once: whoever steps through a kernel in a debugger does not step through this.
        for each in public.__all__:
            if each in vars(public):
                held.setdefault(each, vars(public)[each])
        if name not in vars(public) and "__getattr__" not in vars(public):
            raise AttributeError(f"module '{package}' has no attribute '{name}'", name=name)
        return getattr(public, name)

    def list_names() -> list[str]:
        return sorted({*held, *find("__all__")})

    return find, list_names


# -- forks

_WHOLE = threading.RLock()
_PATIENCE_S = 2.0
"""How long a fork waits for imports of tileprof's modules in other threads, which take less."""


@contextmanager
def unforked() -> Iterator[None]:
    """Do a short piece of work that no fork of another thread may meet half done.

    For work of C code whose state a child cannot mend, such as loading a library.
    """
    with _WHOLE:
        yield


def _foreign_imports() -> dict[str, Any]:
    """Locks of modules that other threads are importing for tileprof, by the modules' names.

    A module of tileprof that is being imported, and all that the same thread imports for it.
    """
    held: dict[str, Any] = getattr(_frozen_importlib, "_module_locks", {})
    locks = {name: lock for name, ref in list(held.items()) if (lock := ref()) is not None}
    owners = {lock.owner for name, lock in locks.items() if name.startswith("tileprof.")}
    owners -= {None, threading.get_ident()}
    return {name: lock for name, lock in locks.items() if lock.owner in owners}


def _before_fork() -> None:
    # Python's lock of a module that another thread imports is never released in a child.
    until = time.monotonic() + _PATIENCE_S
    while _foreign_imports() and time.monotonic() < until:
        time.sleep(0.001)
    _WHOLE.acquire()


def _after_fork_in_parent() -> None:
    _WHOLE.release()


def _after_fork_in_child() -> None:
    _WHOLE.release()
    for name in _foreign_imports():  # some began after the wait: the child imports these anew
        _frozen_importlib._module_locks.pop(name, None)  # type: ignore[attr-defined]
        if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
            del sys.modules[name]
    for each in list(_GUARDS):
        each._renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
