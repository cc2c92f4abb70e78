"""Decoding of what measured kernels wrote: records and samples become times of sites.

In: bytes of records of a launch.  Out: times per nesting path, excerpts and counts, without
a Python step per record."""
