"""Names of `tileprof.emulator`, loaded when one is first used."""

from .driver import EmulationError, Failure, Printed, emulate

__all__ = ["EmulationError", "Failure", "Printed", "emulate"]
