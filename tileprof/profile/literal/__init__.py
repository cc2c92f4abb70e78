"""Profiles as hatchet's JSON literal, as Triton's Proton writes it.

In: a literal or a profile.  Out: the other one."""
