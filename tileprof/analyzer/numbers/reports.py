"""Numbers of estimates and reports: what a gain may be, what is worth a word."""

from __future__ import annotations

# -- account

ACCOUNT_FIRST = 3
"""Changes whose gain together opens a report. By hand."""

# -- changes

CHANGES_LEAST = 0.02
"""Of the time of a launch, what differs from one process to the next."""

CHANGES_RESOLUTION = 0.016
"""Of quantiles, as a share."""

CHANGES_SIGMAS = 2.0
"""Standard errors by which two means differ from which on the difference is reported."""

CHANGES_TOLD_OPS = 6
"""Ops that changed, of which a sentence lists no more."""

CHANGES_QUARTILES = 1.35
"""Standard deviations between the quartiles of normal times."""

# -- contexts

CONTEXTS_ALL = 0.999
"""Share of the devices' time from which steps are all of it; the rest is rounding."""

CONTEXTS_RECORDING_PART = 0.27
"""Part of the host's recorded time, where its launches are late, that recording adds. Of eleven
programs on a host of an H200 0.10, 0.12, 0.14, 0.25, 0.26, 0.27, 0.28, 0.32, 0.35, 0.45 and 0.51:
the median, which is 0.26 to 0.28 whichever is left out (2026-11-29, steps recorded and not)."""

CONTEXTS_SAMPLING_PART = 0.38
"""The same with samples of program counters: 0.23, 0.29, 0.30, 0.33, 0.34, 0.42, 0.45, 0.51, 0.52
and 0.58, the median; 0.34 to 0.42 whichever is left out."""

# -- estimates

ESTIMATES_INDEPENDENT = 0.1
"""Of samples, the part that counts as independent: neighbours of one multiprocessor see one phase
of one wave."""

ESTIMATES_SPREAD = 0.4
"""Power that the part of a defect in what is left to gain is raised to; set on PLANT's development
split."""

ESTIMATES_ALL_FROM = 0.1
"""Share of what is left to gain from which on a defect may be all of it. By hand, on PLANT's
development split."""

ESTIMATES_FOLD = 3.0
"""Upper bound of a defect's share of the time, as a multiple of its share of samples."""

ESTIMATES_UNSEEN = 1.5
"""Highest gains are made of what known kernels reached. Of 55 kernels of two splits that were
unknown when they were run, nine of ten gained, of S - 1, at most so many times what they said."""

# -- findings

FINDINGS_LONGEST_NAME = 64
"""Characters of a kernel's name in a sentence; names of cuDNN's kernels have 130. By hand."""

# -- floors

FLOORS_LAUNCH_NS = 1000.0
"""Time of a kernel that does next to nothing, ns: 0.8 to 1.2 µs of PyTorch's smallest kernels on an
H200 (`tests/data/h200-training.tar.xz`, by 12 to 1,212 launches)."""

FLOORS_USUAL = {
    "NVIDIA H200": {
        "hbm_read": 4.63e12, "hbm_write": 4.67e12, "hbm_copy": 4.09e12, "l2_read": 10.6e12,
        "tensor_bfloat16": 897e12, "tensor_float16": 833e12, "tensor_float8_e4m3": 1.71e15,
        "tensor_tf32": 453e12, "fma_float32": 65.0e12, "fma_float64": 33.1e12,
    },
}  # fmt: skip
"""Roofs of devices by their names, in bytes or operations a second, where those of the very device
were not measured: `tileprof doctor --roofs` of an H200, 2026-11-27."""

FLOORS_IMPOSSIBLE = 1.5
"""Multiple of the L2's measured rate above which bytes that a kernel is said to move are wrong. By
hand: the rate is of reads alone, and writes go the other way meanwhile. Too low a number drops true
bytes of kernels that live in the L2; too high a one takes a wrong floor for the whole time."""

FLOORS_CACHED = 2.6
"""Rate of the L2 as a multiple of the memory's, where the L2's was not measured: 10.6 to 4.09
TB/s of an H200 (`FLOORS_USUAL`)."""

# -- shortfalls

SHORTFALLS_SHORT = 10_000.0
"""Mean time of a launch in ns, below which one of at most one wave is latency alone: it starts,
loads, computes and ends, each once. By hand; an empty kernel takes 1,000 ns, and kernels of one
short loop 3,000 to 8,000 (`benchmarks/programs`, H200)."""

SHORTFALLS_REWRITTEN = 0.85
"""Part of the memory's rate that a compiler's kernel reaches which reads and writes whole tensors.
By hand; PyTorch's own vectorised kernels reach 0.85 to 0.95 of it (H200, tensors of 100 MB)."""

SHORTFALLS_ISSUED = 0.7
"""Share of cycles in which schedulers issue in PyTorch's kernels that compute an index for each
element: 0.46 to 0.93 of nine such kernels with full grids on an H200, by samples."""

# -- report

NOISE = 1.02
"""Gains below are not told: what a measurement of a kernel differs by from the next one."""

REPORT_LEAST_OF_KERNEL = 1.03
"""Kernels without a defect are as near to a roof as that or farther, by what they do."""

REPORT_LIKELY_OF_ROOF = 0.9
"""Part of the highest roof that a kernel likely reaches without its defect. Of 177 kernels without
a defect on an H200, each of another family, one came above 0.95 of its roof, and the median of
those above 0.75 was 0.88, whichever family is left out (`benchmarks/results/plant-*.json`). Without
it gains of kernels that a roof bounds are stated as if the roof itself could be reached."""

REPORT_LEAST_SEEN = 0.02
"""Of a kernel's samples, below which nothing is made of them."""

REPORT_LEAST_SLACK = 0.05
"""Part of a saving, 0 to 1, that does not shorten the program, from which that is told."""

REPORT_LEAST_OF_PROGRAM = 1.005
"""Suggestions that bring a program less, even at best, are not made."""

REPORT_LEAST_SHARE = 0.01
"""Share of kernel time, 0 to 1, below which a kernel is not judged."""

# -- unexplained

UNEXPLAINED_LEAST = 0.03
"""Share of the devices' time beyond a kernel's floor, without a cause, that is told. By hand."""

UNEXPLAINED_FAR = 1.5
"""Times the floor and what causes explain, from which on a kernel is far from it. By hand:
libraries' products reach 0.6 to 0.9 of their roof."""

UNEXPLAINED_FAR_OF_MEMORY = 1.25
"""The same of a sampled kernel whose floor is that of its bytes: kernels without a defect reached
0.83 of that roof or more on an H200 (`benchmarks/results/plant-dev.json`). By hand."""

# -- leads

LEADS_PART = 3
"""Stall reasons, and kinds of instructions, that a lead names, the most frequent first. By hand."""

# -- calibrated

CALIBRATED_NOMINAL = 0.8
"""Probability with which the true gain of a new family's defect is inside its interval."""

CALIBRATED_NARROWEST = 0.02
"""Least distance of an end of an interval to its middle, of the logarithm of a gain."""
