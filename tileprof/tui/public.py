"""Names of `tileprof.tui`, loaded when one is first used."""

from __future__ import annotations

from tileprof.tui.app import Browser
from tileprof.tui.subjects import Feed, OneProfile, Subject, TwoProfiles, Update

__all__ = ["Browser", "Feed", "OneProfile", "Subject", "TwoProfiles", "Update"]
