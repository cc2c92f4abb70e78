"""hatchet's JSON literal, which hatchet and Proton's viewer read."""

from __future__ import annotations

import json

from tileprof.profile import Profile

__all__ = ["to_hatchet_json"]


def to_hatchet_json(profile: Profile) -> str:
    """The literal of `profile.to_literal()` as JSON text."""
    return json.dumps(profile.to_literal())
