"""Names of `tileprof.tuning`, loaded when one is first used."""

from tileprof.tuning.configurations import Configuration
from tileprof.tuning.outcomes import Looked, Measured, Outcome
from tileprof.tuning.search import Settings, tuned
from tileprof.tuning.subjects import Checks, KernelSubject, Tolerances, machine_of

__all__ = [
    "Checks", "Configuration", "KernelSubject", "Looked", "Measured", "Outcome", "Settings",
    "Tolerances", "machine_of", "tuned",
]  # fmt: skip
