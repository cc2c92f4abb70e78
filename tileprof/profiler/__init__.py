"""Recording of what a program does: sessions, scopes, host call paths, kernel launches, sampling of
threads.

In: scopes that the program enters, launches that `runtime.hooks` tells of, Python frames.
Out: a `Profile`, and its file while the program still runs.  A recording is shared by all sessions;
it aggregates by call path, so its size does not depend on how long it runs.
"""

from tileprof.profiler.api import Profiling, activate, deactivate, finalize, profile
from tileprof.profiler.host.scopes import Scope, scope
from tileprof.profiler.options import Options, parse_options, tagged
from tileprof.profiler.session.program import ProgramTarget, check_target, run_program
from tileprof.profiler.session.recording import start
from tileprof.profiler.session.session import Session
from tileprof.profiler.session.steps import step

__all__ = [
    "Options",
    "Profiling",
    "ProgramTarget",
    "Scope",
    "Session",
    "activate",
    "check_target",
    "deactivate",
    "finalize",
    "parse_options",
    "profile",
    "run_program",
    "scope",
    "start",
    "step",
    "tagged",
]
