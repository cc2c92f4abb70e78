"""Pruning of `@triton.autotune`: which of a list's configurations are worth being timed.

In: a Triton autotuner's function and configurations, and the arguments of the call at hand.  Out:
`Pruned`: the few that are kept, and what the model of tiles says of each; or all of them, with the
reason why the model does not know the kernel.  Programs (TTIR) of all configurations are made,
machine code only of the best, and nothing is timed.

`configured` is one configuration; `iterations`, `traffic` and `facts` read its program; `ranking`
ranks, `programs` asks Triton for programs and machine code, `pruner` is the public object,
`everywhere` prunes all autotuners of a process.
"""
