"""Kernels that compute in double precision, NumPy's default.

Static: the only type of floats in a kernel's template arguments is `double`, or a library's name of
a product of doubles; names in which another type of floats stands too are of kernels that take
scalars as doubles, or convert. Dynamic: their time. With 32-bit floats a kernel moves half of the
bytes, and a device with the most units for doubles multiplies twice as fast; others gain far more
in arithmetic, of which nothing is promised. Doubles within a tile kernel are told by `slow-math`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.rules.program.numbers import DOUBLES_PARTS, DOUBLES_SHARE

_DOUBLE = re.compile(r"<.*\bdouble\b.*>|dgemm|_d884|f64f64")
_OTHER = re.compile(r"\bfloat\b|half|bfloat16|complex|tf32|f32|f16", re.IGNORECASE)
_ADVICE = (
    "If 24 bits of mantissa suffice, make the arrays 32-bit floats at their source:"
    " np.asarray(x, np.float32), torch.from_numpy(x).float(), dtype=torch.float32. NumPy's arrays"
    " are doubles by default, and operations on them stay in double precision."
)


def find(program: Program) -> Iterator[Draft]:
    """Such kernels, all together."""
    cases = [case for case in program.kernels if _works_on_doubles(case.name) and case.nodes]
    if not cases:
        return
    tree = Contexts(program)
    time = sum(tree.in_steps(case) for case in cases)
    share = tree.share(time)
    if share < DOUBLES_SHARE:
        return
    text = (
        f"{len(cases)} kernels with `double` in their names take {percent(share)} of {tree.whose}"
    )
    place = tree.place(cases[0].nodes[0])
    yield Draft(
        "suggestion", f"kernels on doubles take {percent(share, 0)} of {tree.whose}", place,
        (Evidence("activities", text),), _ADVICE, "",
        tree.saving(*(time * part for part in DOUBLES_PARTS)), confidence="low",
        nodes=tuple(node for case in cases for node in case.nodes),
    )  # fmt: skip


def _works_on_doubles(name: str) -> bool:
    return bool(_DOUBLE.search(name)) and not _OTHER.search(name)


RULE = ProgramRule("doubles", find)
