"""Numbers by which the steps and threads of a program are found (`analyzer/program`)."""

from __future__ import annotations

# -- program/training_steps

TRAINING_STEPS_NEARLY_ALL = 0.9
"""Least share of backward passes that the function has which makes steps; others may be of an
evaluation, or of a second model. By hand."""

# -- program/steady

STEADY_FEWEST = 3
"""Visits, or launches: of two, one may be a first use."""

STEADY_FIRST = 3
"""First steps of a loop that are slower than others. In eleven loops of 60 steps of inference on an
H200, gaps before late launches took 0.44 to 0.95 times as long without the longest 5 %. Estimates
of a step without a recording were then off by 0 to 62 %, median 19 %; before, by 0 to 99 %, median
22 % (2026-11)."""

STEADY_NEARLY_ALL = 0.8
"""Of the devices' work; what is left may be an evaluation now and then."""

STEADY_MANY = 20
"""Launches from which a kernel runs many times, beside one that runs once. By hand."""

STEADY_ONCE = 2
"""Mean launches of kernels below a line that runs once: some operations launch twice. By hand."""

# -- threads of the host

THREADS_SEVERAL = 0.05
"""Share of the longest thread's time from which another thread counts as running beside it. By
hand."""

# -- tensors of the host

TENSOR_NAMES = 8
"""Names of one tensor in a function of the host that are followed, one after the other. More would
only cost time: no program has so many."""
