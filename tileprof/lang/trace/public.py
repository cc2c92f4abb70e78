"""Names of `tileprof.lang.trace`, loaded when one is first used."""

from .core import Retrace
from .evaluate import Evaluator
from .signature import Given, Knowledge, Traced, Tracer

__all__ = ["Evaluator", "Given", "Knowledge", "Retrace", "Traced", "Tracer"]
