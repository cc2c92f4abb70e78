"""Metrics that the recorder adds to the standard ones."""

from __future__ import annotations

from tileprof.profile import STANDARD, Metric
from tileprof.profile.metrics import BYTES_AT, FLOPS_AT

BLOCK_TIME = Metric("block_time", "ns")
"""Time at a site, added up over blocks; with n workers up to n times the kernel's `time`."""
BLOCK_TIME_MIN = Metric("block_time_min", "ns", "min")
"""The shortest visit of a site."""
BLOCK_TIME_MAX = Metric("block_time_max", "ns", "max")
"""The longest visit of a site."""
MARKS = Metric("marks", "1")
"""Marks that were made at a site, by which it is measured."""
MARK_TIME = Metric("mark_time", "ns")
"""Time of the marks, by calibration; no part of `block_time`."""
LOST = Metric("lost", "1")
"""Records of a kernel's sites that did not fit into their buffer."""

ELAPSED_TIME = Metric("elapsed_time", "ns")
"""Time from begin to end of the visits of a scope in a coroutine or generator, waiting included.

Such visits overlap, so the times of several scopes may add up to more than the wall time."""

KERNEL_SAMPLES = Metric("kernel_samples", "1")
"""Number of samples of a warp, or a worker of the cpu, at a site; all roles together."""
OF_ROLES: dict[str, tuple[Metric, tuple[Metric, ...]]] = {
    "block": (Metric("looks", "1"), ()),
    "consumer": (Metric("consumer_looks", "1"), (Metric("consumer_samples", "1"),)),
    "producer": (Metric("producer_looks", "1"), (Metric("producer_samples", "1"),)),
}
"""Metrics of each role: the effective sample size at a kernel, and its samples at sites. Samples of
`block`, the role of kernels without any, are what the other roles leave."""

SYNC_TIME = Metric("sync_time", "ns")
"""Time for which the host waited for a device."""
IDLE_TIME = Metric("idle_time", "ns")
"""Time in which a device had nothing to do, at the launch that ended it."""
SLACK_TIME = Metric("slack_time", "ns")
"""Part of a device's `time` that was slack: work that ended before a late launch, and for which the
host had not waited. Had it been shorter, the device would have waited for that launch the longer.
"""
OVERHEAD_TIME = Metric("overhead_time", "ns")
"""Time that the driver or the recording itself took."""
ALLOCATED_BYTES = Metric("allocated_bytes", "bytes")
"""Device and pinned memory that was asked for."""
ALLOCATIONS = Metric("allocations", "1")
"""Number of these requests."""
PEAK_BYTES = Metric("peak_bytes", "bytes")
"""Part of the device memory that was allocated here that was alive when its device had the most."""
LIVE_BYTES = Metric("live_bytes", "bytes")
"""Part of it that was alive when the recording ended."""
LIFETIME = Metric("lifetime", "ns")
"""Time from allocation to release, added up over what was released."""
GROWTH_BYTES = Metric("growth_bytes", "bytes")
"""More memory alive at the end of the last step than of the second, where it grew step by step."""
GROWN_STEPS = Metric("grown_steps", "1", "max")
"""Number of steps in which it grew."""
OP_BYTES = Metric("op_bytes", "bytes")
"""Least bytes that the kernels of an operation have to move, estimated from a sample of its visits.

At operations that launch work of a device themselves and have no exact `bytes`; at nodes of a
backward pass what a visit of the forward operation moves, for each of theirs."""

TABLE_BYTES = Metric("table_bytes", "bytes")
"""Bytes of the tables that an operation's visits look rows up in and that get dense gradients, once
for each visit; as the four that follow, estimated from a sample of the visits."""
ROW_BYTES = Metric("row_bytes", "bytes")
"""Bytes of the rows that were looked up, each as often as it was: at most the table in a visit."""
SHARED_TABLE_BYTES = Metric("shared_table_bytes", "bytes")
"""Bytes of such tables that a product's visits take as their matrix, so that the product makes
their gradients dense."""
SLOTS = Metric("slots", "1")
"""Elements of batches of rows of whole numbers, as tokens and masks are, where they lay on the
host: of what rows are looked up by, and of what is copied to a device."""
PADDING = Metric("padding", "1")
"""Those of them that fill rows up: one value at the ends of rows, or at their beginnings, that is
hardly anywhere else."""
WORK_KINDS = tuple(
    Metric(f"{begin}{least}", unit)
    for least in (0, *(2**octave for octave in range(2, 12)))
    for begin, unit in ((FLOPS_AT, "flop"), (BYTES_AT, "bytes"))
)
"""Parts of an operation's `flops` and `bytes` by how many flops its visits did a byte: from this
number to twice it, from 0 to 4 in the first, from 2048 on in the last.

Visits of one place differ in shape. Some are limited by memory and others by arithmetic, so that
their least time is not that of the sums of both. Declared where operations have them."""

PC_SAMPLES = Metric("pc_samples", "1")
"""Number of samples of program counters in a kernel."""

ADDED = (
    BLOCK_TIME, BLOCK_TIME_MIN, BLOCK_TIME_MAX, MARKS, MARK_TIME, LOST, KERNEL_SAMPLES,
    *(metric for looks, samples in OF_ROLES.values() for metric in (looks, *samples)),
    SYNC_TIME, IDLE_TIME, SLACK_TIME, OVERHEAD_TIME, ALLOCATED_BYTES, ALLOCATIONS, PEAK_BYTES,
    LIVE_BYTES, LIFETIME, GROWTH_BYTES, GROWN_STEPS, OP_BYTES, TABLE_BYTES, ROW_BYTES,
    SHARED_TABLE_BYTES, SLOTS, PADDING, PC_SAMPLES, ELAPSED_TIME,
)  # fmt: skip

RESERVED = {*STANDARD, *(each.name for each in (*ADDED, *WORK_KINDS))} - {"flops", "bytes"}
"""Names that a user's scope cannot give a meaning of its own."""

_OWN = {metric.name: metric for metric in (*ADDED, *WORK_KINDS)}


def of_user(name: str) -> Metric:
    """Return the metric that a keyword of `scope` stands for."""
    return STANDARD.get(name) or _OWN.get(name) or Metric(name, "1")
