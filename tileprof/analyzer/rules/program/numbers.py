"""Numbers of single rules about programs: thresholds, and what a change was measured to bring.

They stand as those of `rules/numbers` do, which has what rules of several folders share.
"""

from __future__ import annotations

# -- backward_ratio

BACKWARD_RATIO_SLOW = 3.0
"""Time of a backward pass by its forward pass, from which it is slow where nothing else is known:
two products stand for one. By hand."""

BACKWARD_RATIO_ABOVE = 1.5
"""Ratio of an operation by that of the program's others, from which it stands out. By hand."""

BACKWARD_RATIO_BY_BYTES = 1.5
"""Ratio by that of the bytes that both passes move, from which bytes are no reason. By hand."""

# -- compiling

COMPILING_HOST_SHARE = 0.05
"""Of the host's time, below which compiling is not told of a program without a device."""

# -- alignment

ALIGNMENT_PARTS = (0.0, 0.15, 0.4)
"""Of the time of products of unaligned operands whose work is not known, what padding saves: at
least, likely, at most.
Likely is what was measured for GPT-2 with a vocabulary of 50,257 (H200, batch 8×512, bfloat16,
2026-11): 1.037× with a quarter of the time in such products."""

ALIGNMENT_REACHED = 0.7
"""Part of the roof that a product of aligned operands reaches, by hand: cuBLAS reached 0.9 of it
for 8192³ in bfloat16 (H200, 2026-11), and products with a short dimension reach less."""

# -- eager_attention

EAGER_ATTENTION_BETWEEN = (0.5, 0.9, 1.0)
"""Of the time between the products of attention, what a fused kernel saves: at least, likely, at
most. By hand."""

EAGER_ATTENTION_LAUNCHES = (1.0, 2.0)
"""Kernels of a fused attention, in the forward and in the backward pass: of PyTorch's, one, and one
or two more than that."""

EAGER_ATTENTION_PRODUCTS = (0.0, 0.25, 0.67)
"""The same of the time of the products. By hand."""

# -- embedding

EMBEDDING_ROWS = 0.5
"""Part of a table that is looked up in a step, from which a sparse gradient is no gain: it is
written with its indices, and added by index. By hand."""

EMBEDDING_MOSTLY = 0.5
"""Part of the bytes of all parameters from which tables are worth another optimizer. By hand."""

EMBEDDING_SHARED = 0.3
"""Part of the tables' bytes that products take as their matrices, from which tables are shared: an
encoder and a decoder look up in the table that one product has. By hand."""

EMBEDDING_ROWS_COST = 8.0
"""Time of rows of a sparse gradient, and of adding them, by that of the dense gradient, for each
byte of them and of the table. By hand."""

EMBEDDING_SPARSE_NS = 300e3
"""Time on a host of a sparse gradient and its update, however few rows it has, ns. Tables of 20,000
to 200,000 rows of 16 and 32 floats with SGD, PyTorch 2.13 on one thread, 2026-11: 0.2 to 0.4 ms."""

EMBEDDING_LAUNCHES = 4.0
"""Kernels that a sparse gradient takes, and its update. By hand."""

EMBEDDING_SURE = 0.5
"""Part of the time of dense gradients that goes at least. By hand."""

EMBEDDING_OTHER_OPTIMIZER = 0.5
"""Part of an optimizer's time for tables that likely goes where another one takes its place. By
hand."""

# -- padding

PADDING_SHARE = 0.2
"""Part of the elements of batches that fills rows up, from which it is told. By hand."""

PADDING_GOES = (0.3, 0.85, 1.0)
"""Of the time on padding, what goes at least, likely, at most. Two layers of width 64 on a host, 16
texts a batch, PyTorch 2.13, 2026-11: 0.25 where batches stay as they are drawn and each is as long
as its longest text, 1.0 where they are sorted by length (lengths u³ and u of 128, u in 0 to 1)."""

PADDING_OPERATION_NS = 10e3
"""Time of an operation of PyTorch, or of its gradient, on a host where it does next to nothing, ns.
By hand: 2 to 10 µs of additions of a few elements, and several of them in a gradient."""

# -- doubles

DOUBLES_SHARE = 0.05
"""Share of the devices' time from which kernels of doubles are told. By hand."""

DOUBLES_PARTS = (0.25, 0.5, 0.5)
"""Of the time of kernels of doubles, what goes with 32-bit floats: half of the bytes and,
on devices with the most units for doubles, half of the time of arithmetic; at least half of that.
By hand."""

# -- jit_update

JIT_UPDATE_FEWEST = 4
"""Operations outside of `jit` from which a call that runs them is told. By hand."""

JIT_UPDATE_SHARE = 0.1
"""Share of the host's time without compiling from which they are told. By hand."""

# -- recomputation

RECOMPUTATION_SURE = 0.5
"""Part of what runs again that goes at least, where nothing is known of memory. By hand."""

RECOMPUTATION_SURE_WITH_ROOM = 0.9
"""The same where memory has room for all of it. By hand."""

RECOMPUTATION_KEPT = (1.0, 0.4)
"""Of the bytes that operations move which run again, what is kept without a checkpoint, at most and
likely: of a product and an operation on each element the result, once, of three that are moved. By
hand."""

RECOMPUTATION_FULL = 0.05
"""Part of all memory that was never taken, below which memory is full. By hand."""

RECOMPUTATION_ON_HOST = (1.0, 1.4, 1.8)
"""Time that a checkpoint costs on a host by that of the operations which run again: at least,
likely, at most. Four blocks of two linear layers (128, 512) of 256 rows, PyTorch 2.13 on one
thread, 2026-11: 1.7 with use_reentrant=False, 1.3 with True."""

RECOMPUTATION_LEAST_ROOM = 0.1
"""Part of what would likely be kept that memory has room for, below which a checkpoint is needed.
By hand."""

# -- recurrence

RECURRENCE_TURNS = 8
"""Turns of a loop from which it is told as a recurrence: fewer may be unrolled. By hand."""

RECURRENCE_SHARE = 0.05
"""Share of the time from which a recurrence is told. By hand."""

RECURRENCE_MOST = 0.94
"""Of the host's time of a recurrence, what goes at most: nn.LSTM in the place of a cell of 64 turns
with gradients, 5.16 ms and 0.32 ms at a width of 16 and 4 rows; at 256 and 32 rows 74 and 33 ms.
PyTorch 2.13 on one thread, 2026-11."""

# -- same_product

SAME_PRODUCT_SHARE = 0.05
"""Share of the time from which a repeated call is told. By hand."""

# -- small_block

SMALL_BLOCK_BYTES = 4096
"""Bytes that a block moves, below which it ends before its loads pay: 32 bytes for each of 128
threads. By hand."""

SMALL_BLOCK_FAR = 1.5
"""Time by the floor from which a kernel is far from the memory's roof. By hand."""

SMALL_BLOCK_REACHED = 0.8
"""Part of the memory's roof that such a kernel likely reaches with larger blocks. Of two kernels of
a Triton program on an H200, at 0.36 and 0.55 with blocks of 128 elements, blocks of 1,024 made the
program 1.62 times as fast (benchmarks/results/programs-held-out.json, triton_block)."""

# -- handed_over

HANDED_OVER_PARTS = (0.5, 0.9)
"""Of the time of the shorter kernel, what goes at least, and likely. A Triton program on an H200
with two kernels of a third of its time each was 1.49 times as fast with one: all of it
(benchmarks/results/programs-held-out.json, triton_block)."""

# -- gathered_rows

GATHERED_ROWS_NEAR = 0.2
"""Time of a launch by that of the gather, from which an operation beside it works on as many rows.
By hand."""

GATHERED_ROWS_LEFT = (1.75, 0.85, 0.4)
"""Time that is left by that of gathering the rows in both passes: at least saved, likely, at most.
A graph convolution of 60,000 nodes, 900,000 edges and 128 columns on an H200 (2026-11-27): 1.0 with
torch.sparse.mm, 0.6 with torch.compile."""

# -- convolution

CONVOLUTION_WELL = 0.7
"""Part of its roof from which a library's convolution is left alone. By hand: libraries' products
reach 0.6 to 0.9 of it."""

CONVOLUTION_SHARE = 0.03
"""Share of the devices' time that convolutions take beyond their floors, from which that is told.
By hand."""

CONVOLUTION_FEW = (0.0, 0.5, 1.0)
"""Of the time in which multiprocessors have no block, what goes: at least, likely, at most. By
hand: smaller tiles, or parts of a sum, load more for each product."""

# -- loader

LOADER_SHARE = 0.1
"""Share of the host's time from which a loader without workers is told. By hand."""

LOADER_WORKERS = (2, 4, float("inf"))
"""Workers by which the gain of loading beside computing is told: at least, likely, at most."""

# -- fusion

FUSION_PARTS = (0.5, 0.75, 1.0)
"""Of the time above the longest kernel of a run, what goes: at least, likely, at most."""

FUSION_ALONE = 2.0
"""Time of a kernel with no neighbours, by that of a compiler's kernel for the same work, from which
compiling is worth it for this kernel alone. By hand."""

FUSION_REWRITES = (0.3, 0.65, 1.0)
"""Of the time by which a compiler's kernel is shorter than the longest of a run, what goes: at
least, likely, at most. VGG-19 and an inception module (poolings, sums of gradients) lost nearly all
of it, a residual block (batch norms, training) half (PyTorch 2.11, H200, 2026-11)."""

FUSION_INFERRING = (0.3, 0.9, 1.0)
"""The same where a program only infers: norms know their statistics, poolings keep no indices. Four
models of convolutions lost nearly all of it (PyTorch 2.11, H200, 2026-11)."""

FUSION_LAYOUTS = (0.0, 0.75, 1.0)
"""Of what channels last takes away, what goes where a compiler chooses the layout: at least,
likely, at most. By hand: Inductor keeps channels first in training where one convolution is
grouped or has half as many outputs as inputs, and in inference where most work is grouped
(`decide_layout_opt`, PyTorch 2.13)."""

FUSION_NAMED = 4
"""Kernels of a chain that a sentence names."""

# -- hotspots

HOTSPOTS_HOT = 0.1
"""Share of the host's time below which a place is no hotspot: without it, the program is 1.11 times
as fast. By hand."""

HOTSPOTS_THE_SAME = 0.8
"""Share of a place's time from which places of other kinds within it, reported already, stand for
it. By hand."""

HOTSPOTS_TIMES = (1.2, 2.0)
"""Factors by which a hotspot is imagined to become faster, in the table of Amdahl's law."""

HOTSPOTS_ALL = 0.99
"""Share of the host's time from which nothing is left without a place, so that no gain is stated
for its disappearance."""

HOTSPOTS_EVERYTHING = 0.95
"""Share of the host's time from which a scope says no more than what was found within it."""

HOTSPOTS_WAITING = 0.8
"""Share of their time below which threads that used a processor are said to wait in the rest. By
hand."""

HOTSPOTS_WAITS = 0.8
"""Share of a line's time in files of libraries that wait from which the line is a wait. By hand."""

HOTSPOTS_LEAST_OF_HOST = 0.03
"""Share of the host's time from which its most expensive operation is named. A program on the host
spreads over many operations, and one of them is where to begin."""

# -- launch_bound

LAUNCH_BOUND_SURE = 0.45
"""Of what goes likely, the part that goes at least: other work of the host may come to the fore, or
recording slows a host down by more than usual. Of 23 models and programs on an H200, a DenseNet
whose recorded steps took 2.5 times as long as others got 0.46 of it by a graph; all others got more
(2026-11)."""

LAUNCH_BOUND_LEAST = 0.5
"""Part of the likely gain that a change brings at least. The best change brought 0.5 to 1.3 times
of it in eleven programs on an H200 with a likely gain above 2.5 (2026-11)."""

LAUNCH_BOUND_MORE = (5, 10)
"""Likely gain from which its estimate is trusted by half, in logarithms, and how many times as much
work each launch has at most. Where the device works for a small part of the time, what recording
adds to the host's is most of the error. By steps' likely time without a recording and kernels'
time, six models and programs on an H200 would become 3.2, 4.2, 6.6, 10.7, 14.0 and 14.5 times as
fast; a graph or a larger batch brought 3.2, 3.5, 3.1, 6.9, 8.0 and 5.8. Replays of graphs took 0.98
to 1.05 times as long as the recorded kernels in four, and 0.47 and 0.61 in two recurrent networks
on four streams (2026-11)."""

LAUNCH_BOUND_COMPILED = (0.7, 1.5)
"""Gains of torch.compile without other changes in programs whose launches are late: 0.72 to 1.49 in
21 of 22 on an H200, median 1.04, and 3.05 in one that recomputes activations
(`benchmarks/results/programs*.json`, 2026-11-27 and 29, and nine models of KernelBench,
2026-11-30). The host still launches what is left, and checks guards in each call."""

LAUNCH_BOUND_OPTIMIZER = (0.15, 0.33)
"""Share of late launches' gaps in optimizers below which another form of them is not tried, and
from which it is tried first. Of nine trainings on an H200, a fused optimizer brought 1.00 to 1.06
times where the share was 0 to 0.1, and 1.12 to 1.47 times from 0.36 on, more than torch.compile in
four of five (`benchmarks/results/programs-?of3.json`, 2026-11-29)."""

LAUNCH_BOUND_WORKERS = (0.4, 2)
"""Of the time that devices wait for a data loader, the part that goes at least; and workers whose
batches it likely gets. A worker computes with one thread, and hands each batch over by a copy: 8
made a ResNet 1.50 times as fast of whose time 0.8 was waiting, 4 a perceptron 1.44 times, with 0.33
(H200, 16 cores, 2026-11-27, the same files)."""

LAUNCH_BOUND_MOST = 2 / 3
"""Share of the late launches' gaps around which a place is named: most of them, by hand; above a
half, so that only places around each other have as much."""

# -- memory_growth

MEMORY_GROWTH_LEAST = 0.001
"""Share of the peak of device memory from which its growth is reported: a list of numbers grows by
less. By hand."""

MEMORY_GROWTH_PLACES = 3
"""Largest number of places that are named, those that grew most."""

# -- optimizer_passes

OPTIMIZER_PASSES_COLD = 0.005
"""Share of the devices' time in steps below which an optimizer is not worth a line."""

OPTIMIZER_PASSES_SLOWER = 4 / 3
"""Time of a fused kernel by that of its passes, at most."""

OPTIMIZER_PASSES_UNSURE = 1.1
"""Passes of a fused kernel, at least likely, by those that it needs."""

# -- small_kernels

SMALL_KERNELS_SHORT = 10_000.0
"""Mean time of a launch in ns, below which launching takes as long as working. `fusion` tells
runs of longer ones."""

SMALL_KERNELS_LOOP = 8.0
"""Launches of one kernel by those of another, up to which both are of one straight piece of code: a
line may launch a kernel several times. What a loop repeats less often, a compiler unrolls."""

SMALL_KERNELS_FEWEST = 4
"""Kernels of a chain: of fewer little is left to fuse."""

# -- transfers

TRANSFERS_SLOW_LINK = 12.0
"""GB/s of copies from pinned memory by PCIe 3.0 with 16 lanes, as devices have had since 2012."""

TRANSFERS_LARGE = 1e6
"""Bytes of a copy, below which it is its beginning that takes time, not the link."""

# -- unread_results

UNREAD_RESULTS_MOST = 0.9
"""Share of the devices' time above which work whose results nobody reads is what the program is
for: a benchmark. By hand."""

UNREAD_RESULTS_SURE = 0.9
"""Part of the time of unread work that goes at least: what it shares with its neighbours, such as
caches, may cost them more or less. By hand."""
