"""Causes that the text of a Triton kernel and of its launch show; other rules draft them.

In: a kernel, or a program's tree.  Out: drafts of findings."""
