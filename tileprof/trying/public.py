"""Names of `tileprof.trying`, loaded when one is first used."""

from tileprof.trying.choosing import worth_keeping
from tileprof.trying.comparing import Check, Comparison
from tileprof.trying.measuring import Pair, Timing
from tileprof.trying.orders import Function, TriedProgram
from tileprof.trying.outcomes import Candidate, Settings, Trial, Verdict
from tileprof.trying.processes import ProgramError
from tileprof.trying.trials import Trials

__all__ = [
    "Candidate", "Check", "Comparison", "Function", "Pair", "ProgramError", "Settings", "Timing",
    "Trial", "Trials", "TriedProgram", "Verdict", "worth_keeping",
]  # fmt: skip
