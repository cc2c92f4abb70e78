"""Parts that the text of a kernel and its plain form share: names of values, attributes of ops.

In: values and ops in the order of the text.  Out: a name for each value, the same in both forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .core import OpBase, Value
from .instructions import CopyInstruction, ProductInstruction
from .schedule import Schedule, decisions


class ValueNames:
    """Names of one kernel's values; a value is named when it is first asked for."""

    def __init__(self) -> None:
        self._names: dict[Value, str] = {}
        self._taken: set[str] = set()
        self._count = 0

    def of(self, value: Value) -> str:
        """Return `%name` by the value's hint, or `%0`, `%1`, … for values without one."""
        known = self._names.get(value)
        if known is None:
            known = self._names[value] = self._fresh(value.name)
        return known

    def operands(self, op: OpBase) -> list[str | tuple[str, ...]]:
        """Return an op's operands: names, tuples of names for lists, `_` for one left out.

        What is left out at the end is not there.
        """
        shown = list[str | tuple[str, ...]]()
        for name, many in op.SPEC.operands:
            held = getattr(op, name)
            if many:
                shown.append(tuple(map(self.of, held)))
            else:
                shown.append("_" if held is None else self.of(held))
        while len(shown) > 1 and shown[-1] == "_":
            del shown[-1]
        return shown

    def _fresh(self, hint: str) -> str:
        base = re.sub(r"\W", "_", hint, flags=re.ASCII)
        if not base or base[0].isdigit():
            self._count += 1
            return f"%{self._count - 1}"
        name, number = base, 0
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return f"%{name}"


def said(op: OpBase) -> Iterator[tuple[str, Any]]:
    """Yield the named attributes that are not what they are by default.

    Instructions are given as their text, schedules as the list of their decisions.
    """
    for name, default in op.SPEC.attributes:
        held = getattr(op, name)
        # The element type is in the type of the result, which is always there.
        if name == "dtype" or held == default:
            continue
        if isinstance(held, CopyInstruction | ProductInstruction):
            held = str(held)
        elif isinstance(held, Schedule):
            held = decisions(held)
        yield name, held
