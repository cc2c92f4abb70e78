"""What the compiler and the profiler say of single ops: codes with typed facts.

In: facts, from passes and measurements; or their JSON, from files.  Out: `Remark`s, which compiler,
runtime, profile and analyzer hand on as they are.  `statement` is what a code is; each of the other
modules has those of one subject, so that all are known where one is read.
"""

from . import common, copies, host, launches, layouts, loops, measured, products, ptxas
from .remark import Rejection, Remark, Severity
from .statement import CODES, Candidate, Decision, Reason, Statement, from_plain, plain

__all__ = ["CODES", "Candidate", "Decision", "Reason", "Rejection", "Remark", "Severity"]
__all__ += ["Statement", "common", "copies", "from_plain", "host", "launches", "layouts", "loops"]
__all__ += ["measured", "plain", "products", "ptxas"]
