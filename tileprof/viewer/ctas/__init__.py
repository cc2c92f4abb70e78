"""Timelines of single CTAs (thread blocks) in a terminal.

In: a profile with excerpts of launches.  Out: rows of warps over time."""
