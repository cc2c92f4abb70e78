"""Names of `tileprof.learn`, loaded when one is first used."""

from .catalogue import find
from .exercise import Exercise, Failure, Hint, Result
from .face import check, course, hint, start

__all__ = ["Exercise", "Failure", "Hint", "Result", "check", "course", "find", "hint", "start"]
