"""Recording of what a program does: sessions, scopes, host call paths, kernel launches, sampling of
threads.

In: scopes that the program enters, launches that `runtime.hooks` tells of, Python frames.
Out: a `Profile`, and its file while the program still runs.  A recording is shared by all sessions;
it aggregates by call path, so its size does not depend on how long it runs.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
