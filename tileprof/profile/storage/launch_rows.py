"""Arguments of launches in a profile's database: a row for each tensor and number.

In: variants of launches, or an open database.  Out: rows of `launch_arguments`, or the variants. A
number's row has no type, and a tensor's no bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tileprof.errors import Location
from tileprof.profile.launch_facts import (
    Argument,
    LaunchVariant,
    NumberArgument,
    Origin,
    TensorArgument,
)
from tileprof.profile.storage.database import Database
from tileprof.profile.storage.schema import LAUNCH_ARGUMENTS, LAUNCH_VARIANTS


def arguments(
    launches: Sequence[LaunchVariant], text: Callable[[str], str]
) -> Iterator[tuple[object, ...]]:
    """Yield the rows of `launch_arguments`; `text` makes a text fit for a database."""
    for variant, launch in enumerate(launches):
        for position, each in enumerate(launch.arguments):
            begin = variant, position, text(each.parameter)
            if isinstance(each, NumberArgument):
                yield *begin, "", 0, 0, 0, "", 0, "", each.low, each.high
                continue
            origin = each.origin or Origin("", 0, "")
            yield (
                *begin, text(each.dtype), each.elements, each.width, each.memory,
                text(origin.kernel), origin.line, text(origin.parameter), None, None,
            )  # fmt: skip


def read(database: Database, places: Sequence[Location]) -> tuple[LaunchVariant, ...]:
    """Return all variants; none from files of before these tables."""
    variants = list(database.rows(LAUNCH_VARIANTS).tuples())
    held: list[list[Argument]] = [[] for _ in variants]
    columns = [each.name for each in LAUNCH_ARGUMENTS.fields if each.name != "position"]
    for variant, name, dtype, *numbers in database.rows(LAUNCH_ARGUMENTS).tuples(*columns):
        elements, width, memory, kernel, line, parameter, low, high = numbers
        origin = Origin(kernel, line, parameter) if kernel else None
        held[variant].append(
            TensorArgument(name, dtype, elements, width, memory, origin)
            if dtype
            else NumberArgument(name, low, high)
        )
    return tuple(
        LaunchVariant(kernel, places[place], looked_at, others, tuple(given))
        for (kernel, place, looked_at, others), given in zip(variants, held)
    )
