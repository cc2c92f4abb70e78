"""hatchet's JSON literal, which hatchet and Proton's viewer read."""

from __future__ import annotations

import json

from tileprof.errors import UsageError
from tileprof.profile import Profile
from tileprof.profile.storage.limits import NESTING


def to_hatchet_json(profile: Profile) -> str:
    """Return the literal of `profile.to_literal()` as JSON text.

    Raises UsageError where the tree is so deep that readers of the format, which recurse, fail.
    """
    if (deepest := int(profile.depths.max(initial=-1)) + 1) > NESTING:
        raise UsageError(
            f"the tree is {deepest:,} nodes deep; readers of hatchet's literal end at {NESTING}",
            hint=f"Convert a shallower one: limit_depth(profile, {NESTING}).to_literal()",
        )
    return json.dumps(profile.to_literal())
