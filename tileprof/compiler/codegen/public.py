"""Names of `tileprof.compiler.codegen`, loaded when one is first used."""

from .context import Place
from .marks import marked
from .source import ENTRY, CppSource, emit

__all__ = ["ENTRY", "CppSource", "Place", "emit", "marked"]
