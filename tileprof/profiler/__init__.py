"""Recording of what a program does: sessions, scopes, host call paths, kernel launches, sampling of
threads.

In: scopes that the program enters, launches that `runtime.hooks` tells of, Python frames.
Out: a `Profile`, and its file while the program still runs.  A recording is shared by all sessions;
it aggregates by call path, so its size does not depend on how long it runs. It is one of a process,
and in the main interpreter: in a sub-interpreter, each name is refused.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tileprof.errors import UsageError
from tileprof.once import names_of


def _check_interpreter() -> None:
    """Raise `UsageError` in a sub-interpreter, which shares the process and not the recording."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        if find_spec(name) is not None:
            interpreters = import_module(name)
            if interpreters.get_current() != interpreters.get_main():
                raise UsageError(
                    "tileprof does not record in a sub-interpreter",
                    hint="Start the recording in the main interpreter, whose calls of a "
                    "sub-interpreter have its time; or run the code in a process of its own.",
                )
            return


if TYPE_CHECKING:
    from .public import *
else:
    _find, __dir__ = names_of(__name__)

    def __getattr__(name: str) -> object:
        if not name.startswith("__"):
            _check_interpreter()
        return _find(name)
