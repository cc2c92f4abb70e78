"""Analysis of a cubin without a GPU: resources, lines, SASS, control flow, loops, spills, slices.

In: a cubin of any compiler for sm_70 or later (ours, Triton's, nvcc's), as a file or bytes.  Out:
`Cubin`, and of each `Function`: what it takes, the source chain of each instruction, basic blocks,
loops, spilled registers, the kinds of instructions, and where each operand's value comes from.

The ELF, its attributes and its line table are read here; only the text of instructions comes from
nvdisasm.  Sources: the ELF and DWARF specifications, nvdisasm's own names of attributes.
"""

from .attributes import Parameter, Resources
from .control_flow import Block, Loop
from .cubin import Cubin, Function, read
from .disassembly import find_nvdisasm
from .effects import Effects, effects
from .instructions import Control, Instruction
from .line_table import Chain, Line, LineTable
from .listing import listing, place
from .opcodes import group_of, opcode_class, opcode_mix
from .slices import Dependence
from .spills import Spill
from .waits import Wait, is_long, waits

__all__ = [
    "Block", "Chain", "Control", "Cubin", "Dependence", "Effects", "Function", "Instruction",
    "Line", "LineTable", "Loop", "Parameter", "Resources", "Spill", "Wait", "effects",
    "find_nvdisasm", "group_of", "is_long", "listing", "opcode_class", "opcode_mix", "place",
    "read", "waits",
]  # fmt: skip
