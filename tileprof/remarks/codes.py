"""All codes: whoever looks one up by its name imports this module, which imports those that declare
them."""

from . import common, copies, host, launches, layouts, loops, measured, products, pruning, ptxas
from .statement import CODES, from_plain

__all__ = ["CODES", "common", "copies", "from_plain", "host", "launches", "layouts", "loops"]
__all__ += ["measured", "products", "pruning", "ptxas"]
