"""The rules, one file each: what it looks for, how it knows, what to change, what that brings.

In: a kernel, or a program, with everything that was recorded of it.  Out: drafts of findings. A
rule reads what it needs and says nothing where that was not recorded; it never guesses a number.
"""

from tileprof.analyzer.drafts import KernelRule, ProgramRule
from tileprof.analyzer.rules import bank_conflicts, roofline, spills

__all__ = ["KERNEL_RULES", "PROGRAM_RULES"]

KERNEL_RULES: tuple[KernelRule, ...] = (
    spills.RULE,
    bank_conflicts.RULE,
    roofline.RULE,
)
PROGRAM_RULES: tuple[ProgramRule, ...] = ()
