"""The instructions of a function in columns of JSON values.

In: a function with its samples and counts.  Out: for each instruction its offset, text, loops
around it, line, samples by stall reason; and what stalled instructions wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tileprof.profile import Profile
from tileprof.viewer.code.pc_functions import Place, SeenFunction, SeenInstruction, user_line
from tileprof.viewer.text import encodable


def machine_code(
    profile: Profile, seen: SeenFunction, file_of: Callable[[str], int]
) -> dict[str, Any]:
    """Return the columns; `file_of` says which file of the page a name is."""
    stalls = {name: place for place, name in enumerate(profile.tables.pc.stalls)}
    held = seen.instructions
    lines = [user_line(profile, each.instruction.place) for each in held]
    places: dict[Place | None, int] = {None: -1}
    for line in lines:
        places.setdefault(line, len(places) - 1)
    return {
        "offset": [each.instruction.offset for each in held],
        "text": [encodable(each.instruction.text) for each in held],
        "depth": [each.instruction.depth for each in held],
        "place": [places[line] for line in lines],
        "places": [[file_of(place[0]), place[1]] for place in places if place is not None],
        "samples": [each.samples for each in held],
        "weight": [each.weight for each in held],
        "stalls": [_flat(each.stalls, stalls) for each in held],
        "not_issued": [sum(each.not_issued.values()) for each in held],
        "blames": list(_blames(held, stalls)),
    }


def _flat(stalls: dict[str, int], places: dict[str, int]) -> list[int]:
    """Return reasons and samples alternately, the most samples first."""
    return [value for name, n in stalls.items() if n for value in (places[name], n)]


def _blames(held: list[SeenInstruction], stalls: dict[str, int]) -> Iterator[list[Any]]:
    """Yield who waits, the reason, the offset of the producer, and what passes between them."""
    for place, each in enumerate(held):
        for blame in each.blames:
            if blame.stall in each.stalls:
                through = encodable(blame.through)
                yield [place, stalls[blame.stall], blame.producer, through]
