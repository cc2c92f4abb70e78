"""Names of `tileprof.profiler`, loaded when one is first used."""

from tileprof.profiler.api import Profiling, activate, deactivate, finalize, profile
from tileprof.profiler.host.scopes import Scope, scope
from tileprof.profiler.options import Options, parse_options, tagged
from tileprof.profiler.session.program import ProgramTarget, check_target, run_program
from tileprof.profiler.session.recording import start
from tileprof.profiler.session.session import Session
from tileprof.profiler.session.steps import step

__all__ = [
    "Options", "Profiling", "ProgramTarget", "Scope", "Session", "activate", "check_target",
    "deactivate", "finalize", "parse_options", "profile", "run_program", "scope", "start", "step",
    "tagged",
]  # fmt: skip
