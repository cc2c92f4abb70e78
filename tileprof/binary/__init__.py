"""Analysis of a cubin without a GPU: resources, lines, SASS, control flow, loops, spills, slices.

In: a cubin of any compiler for sm_70 or later (ours, Triton's, nvcc's), as a file or bytes.  Out:
`Cubin`, and of each `Function`: what it takes, the source chain of each instruction, basic blocks,
loops, spilled registers, the kinds of instructions, and where each operand's value comes from.

The ELF, its attributes and its line table are read here; only the text of instructions comes from
nvdisasm.  Sources: the ELF and DWARF specifications, nvdisasm's own names of attributes.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
