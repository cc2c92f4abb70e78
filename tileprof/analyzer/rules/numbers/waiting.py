"""Numbers of rules about waits: barriers, fences, stages, products in turn."""

from __future__ import annotations

# -- barriers

BARRIERS_NOTABLE = 0.05
"""Of the samples: below, barriers whose late warps are not known are not told."""

BARRIERS_SKEWED = 0.1
"""Share of the work in code that only some warps run, from which these warps are named as late."""

BARRIERS_MOSTLY = 0.5
"""Share of the work in code that only some warps run, from which confidence is not low. By hand."""

BARRIERS_DEALT = 0.7
"""Of the likely gain: what dealing a loop's work out to all warps brings at least."""

BARRIERS_SURE = 0.25
"""Of the likely gain: whether the late work can be dealt out, samples do not say."""

# -- drain

DRAIN_SHORT = 0.03
"""Share of samples below which a single fence is considered necessary work, not a defect."""

DRAIN_END = 0.1
"""Of the samples, below which an end is as long as ends are: an H200 had 0.07 of them at the end of
tiles of 128 x 240 products, while the next tiles were on their way."""

DRAIN_ONCE = 0.5
"""The part that comes back of what has to be done once anyway; of fences in loops all does."""

DRAIN_MEANWHILE = 0.85
"""The part that comes back of the end of a tile that another follows: a copy by TMA goes on
meanwhile. (An H200 that had 0.62 of its samples there took 0.47 of the time.)"""

DRAIN_SURE = 0.5
"""Of the time of atomics, and of such ends, what comes back at least."""

DRAIN_NEAR = 5
"""Instructions between an atomic and the fences that belong to it: `MEMBAR`, `ERRBAR`, `CGAERRBAR`
in front of it, `CCTL.IVALL` behind it."""

# -- pipeline_depth

PIPELINE_DEPTH_MUCH = 0.1
"""Of the time, what is worth a word where no gain can be told."""

PIPELINE_DEPTH_MOST_STAGES = 8
"""Stages, more than which are not advised. By hand."""

PIPELINE_DEPTH_LEAST_REST = 0.02
"""Of a turn, what is never hidden: more would be a guess."""

PIPELINE_DEPTH_BY_SAMPLES = 0.95
"""Of what a turn takes, how much less it may be: turns are counted by some hundred samples."""

PIPELINE_DEPTH_BY_HAND = 0.8
"""Of the waits for loads that do not run ahead, as far as the loop's pace lets them go, what goes
likely: 0.5 to 1.1, and 0.75 in the middle, in 12 kernels of an H200 (`plant-dev-1`, `plant-test-1`,
`plant-test-2`). Of copies in loops of products that a compiler left to loads and stores, 0.77 to
0.98 in six kernels (`plant-test-3`), 0.23 and 0.55 in two others (`plant-test-4`)."""

# -- wgmma_serialised

WGMMA_SERIALISED_FILLING = 2
"""Warp groups beside one that fill its waits for products: of an H200's kernels with four on a
multiprocessor that waited after each product, none gained (`plant-test-2`). By hand."""

# -- locks

LOCKS_LONGER = (5.0, 0.7, 0.0)
"""How much longer what is left of a kernel takes without its locks, times their samples' part:
most, likely, least. An H200's kernels with 0.7 to 0.97 of their samples at locks were 2.2 to 24
times as fast without (`plant-test-5`)."""
