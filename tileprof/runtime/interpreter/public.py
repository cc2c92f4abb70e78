"""Names of `tileprof.runtime.interpreter`, loaded when one is first used."""

from .executable import InterpreterExecutable
from .recording import OpClock

__all__ = ["InterpreterExecutable", "OpClock"]
