"""Warm calls: those that a native launcher answers, because an earlier call was like them.

In: calls that went the whole way.  Out: an object whose calls go to the launcher at once, and to
its own `__call__` where no learnt call is like them; `call`, a function from the tuple of arguments
to the outputs, which gives NotImplemented there, and is None while nothing is learnt.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileprof.once import Guard
from tileprof.runtime import hooks
from tileprof.runtime.launch import LoadedKernel
from tileprof.runtime.selection import chosen, environment_device

from .dtypes import dtype

if TYPE_CHECKING:
    from tileprof.runtime.cuda.native_launcher import Launcher

LESSONS = 8
"""Calls of one plan that are looked at: arguments at other alignments, other values of scalars."""
_PLAIN = frozenset({int, float, str, bool, type(None), dtype})
"""Compile-time arguments that cannot change in place."""


class WarmCallable:
    """An object whose calls a launcher answers, before `__call__` of its class is asked."""

    __slots__ = ("_capsule",)


class WarmCalls:
    """Calls that `owner` has learnt, with arguments for its `parameters`, pairs of a name and a
    default; its kernel depends on the globals `depends` of `scope`."""

    __slots__ = ("_depends", "_launcher", "_making", "_owner", "_parameters", "_scope", "call")

    def __init__(
        self,
        owner: WarmCallable,
        parameters: Sequence[tuple[str, Any]],
        scope: Mapping[str, Any],
        depends: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self._owner, self._parameters = weakref.ref(owner), parameters
        self._scope, self._depends = scope, depends
        self._launcher: Launcher | None = None
        self._making = Guard()
        self.call: Callable[[tuple[Any, ...]], Any] | None = None

    def learn(
        self,
        loaded: LoadedKernel,
        given: tuple[Any, ...],
        sources: Sequence[int],
        values: Sequence[Any],
        symbols: Sequence[int],
        returned: tuple[int, ...],
    ) -> bool:
        """Look at a call that has succeeded; False where calls of this kind cannot be learnt.

        `given`: the arguments as they were passed; `sources`: for each parameter the position of
        its argument, -1 for an output.
        """
        if hooks.listener is not None or chosen.get() is not None or environment_device():
            return True  # this call says nothing about others
        from tileprof.runtime.cuda.native_launcher import Known, Launcher, launcher_library

        library = launcher_library()
        executable: Any = loaded.executable
        owner = self._owner()
        if library is None or owner is None or not _plain(given, sources):
            return False
        with self._making:
            launcher = self._launcher = self._launcher or Launcher(
                executable, library, owner, self._parameters
            )
        known = Known(
            given,
            tuple(at if at < len(given) else -1 for at in sources),
            values,
            tuple(symbols),
            returned,
            self._scope,
            self._depends(),
        )
        if launcher.learn(executable, known):
            self.call = launcher.call
            launcher.answer()
            return True
        return False


def _plain(given: Sequence[Any], sources: Sequence[int]) -> bool:
    """Return whether the arguments that are no parameters can be compared by identity and value."""
    return all(type(v) in _PLAIN for at, v in enumerate(given) if at not in sources)
