"""Names of `tileprof.remarks`, loaded when one is first used."""

from . import common, copies, host, launches, layouts, loops, measured, products, ptxas
from .remark import Rejection, Remark, Severity
from .statement import CODES, Candidate, Decision, Reason, Statement, from_plain, plain

__all__ = ["CODES", "Candidate", "Decision", "Reason", "Rejection", "Remark", "Severity"]
__all__ += ["Statement", "common", "copies", "from_plain", "host", "launches", "layouts", "loops"]
__all__ += ["measured", "plain", "products", "ptxas"]
