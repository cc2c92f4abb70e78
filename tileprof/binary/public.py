"""Names of `tileprof.binary`, loaded when one is first used."""

from .attributes import Parameter, Resources
from .control_flow import Block, Loop
from .cubin import Cubin, Function, read
from .disassembly import find_nvdisasm
from .instructions import Control, Instruction
from .line_table import Chain, Line, LineTable
from .listings import listing, place
from .opcodes import group_of, opcode_class, opcode_mix
from .register_effects import Effects, effects
from .slices import Dependence
from .spills import Spill
from .waiting import Wait, is_long, waits

__all__ = [
    "Block", "Chain", "Control", "Cubin", "Dependence", "Effects", "Function", "Instruction",
    "Line", "LineTable", "Loop", "Parameter", "Resources", "Spill", "Wait", "effects",
    "find_nvdisasm", "group_of", "is_long", "listing", "opcode_class", "opcode_mix", "place",
    "read", "waits",
]  # fmt: skip
