"""Commands on kernels and functions in Python files: compile, inspect, events, check and bench.

In: FILE:NAME, values for `--set`, inputs.  Out: what each command prints. `kernels` finds what is
named, `inputs` makes arguments for it.
"""
