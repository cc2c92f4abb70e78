"""Names of `tileprof.remarks`, loaded when one is first used."""

from .codes import (
    CODES,
    common,
    copies,
    from_plain,
    host,
    launches,
    layouts,
    loops,
    measured,
    products,
    pruning,
    ptxas,
)
from .remark import Rejection, Remark, Severity
from .statement import Candidate, Decision, Reason, Statement, plain

__all__ = ["CODES", "Candidate", "Decision", "Reason", "Rejection", "Remark", "Severity"]
__all__ += ["Statement", "common", "copies", "from_plain", "host", "launches", "layouts", "loops"]
__all__ += ["measured", "plain", "products", "pruning", "ptxas"]
