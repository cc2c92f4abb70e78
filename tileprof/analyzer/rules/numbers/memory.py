"""Numbers of rules about accesses of memory: how many sectors, how many passes, how much again."""

from __future__ import annotations

# -- bank_conflicts

BANK_CONFLICTS_MUCH = 0.4
"""Share of a kernel's samples at shared memory accesses, or waiting for them, from which on the
waits are reported although their cause is not known, 0 to 1."""

BANK_CONFLICTS_LEAST = 2.0
"""Passes where one would do."""

BANK_CONFLICTS_OF_WORD = 2.0
"""Passes of a request of a word a thread: its addresses', and its bytes'."""

BANK_CONFLICTS_FEWEST = 20
"""Smallest number of samples that issue accesses with conflicts from which the number of requests
is estimated; fewer samples are too few for that."""

# -- coalescing

COALESCING_WASTEFUL = 2.0
"""Sectors for each needed one. An unaligned row of 4-byte words has 5 for 4: not worth a word."""

COALESCING_LANES_OF_A_ROW = 4
"""Lanes that hold neighbouring elements of a row of a product's result (`mma`, PTX ISA): they store
that much of a sector at once, whatever the element."""

COALESCING_MUCH = 0.4
"""Of the samples, from which on waiting for memory is worth telling without a cause."""

# -- layout_copies

LAYOUT_COPIES_HOT = 0.03
"""Of the devices' time, above which copies are worth a change."""

# -- channels_last

CHANNELS_LAST_NARROW = 64
"""Channels up to which Inductor keeps the layout in training, if no convolution has more (its
`decide_layout_opt`, PyTorch 2.13)."""

CHANNELS_LAST_NORMS = (0.3, 0.8, 1.0)
"""Of the time that norms with a block per channel take beyond that of their bytes, what goes with
channels last: at least, likely, at most. Of this and the next two, what went was measured together
with changes of layout, on a residual block (0.8; PyTorch 2.11, H200, 2026-11)."""

CHANNELS_LAST_POOLINGS = (0.0, 0.4, 0.8)
"""The same of poolings, on VGG-19 in training (0.3) and an inception module in inference (0.4)."""

CHANNELS_LAST_CONVOLUTIONS = (0.0, 0.5, 0.9)
"""The same of convolutions without tensor cores and of products, on an inverted residual block in
inference (0.5)."""

CHANNELS_LAST_UNDONE = 0.1
"""Operations on contiguous tensors by convolutions, from which they stand between convolutions and
undo the layout; fewer are at a model's end. By hand: a U-Net with a softmax after each norm became
0.94 times as fast with channels last, two with group norms 0.90 and 0.97 (H200, 2026-11)."""

# -- narrow_access

NARROW_ACCESS_IN_ORDER = (0.9, 1.25)
"""Sectors for each needed one of lanes side by side: unaligned rows of 4-byte words have 5 for 4;
fewer are lanes that share addresses."""

NARROW_ACCESS_GAPS = 1.9
"""Sectors for each needed one of lanes that leave gaps, from which on there are gaps."""

NARROW_ACCESS_FULL = 0.2
"""Of the samples, from which on a full queue is worth telling without a cause."""

# -- traffic

TRAFFIC_MORE = 1.2
"""Moved by needed, below which it is what lines and refills cost."""

TRAFFIC_IDLE = 0.3
"""Of DRAM's bandwidth, below which more traffic than needed does no harm."""

TRAFFIC_BOUND = 0.5
"""From which on DRAM is what some of the time goes to, not only what it is used for meanwhile."""

TRAFFIC_SERVED = 0.7
"""Hits of L2, below which it serves a product badly: of tiles that two blocks share it has half."""

TRAFFIC_MOST_OF_IT = 0.7
"""Of the time, what modelled traffic takes where it is the limit."""

TRAFFIC_FEWER = 1.3
"""Modelled traffic by that of the best groups, from which on the order matters."""

TRAFFIC_BESIDE = 0.03
"""Share of the time that avoidable traffic takes at the roof from which on it is a symptom where
memory is not the limit. On an H200 attention whose heads were the first axis of the grid lost 8 %
to traffic of 4 % (`plant-test-3`)."""

TRAFFIC_TWICE = 2.0
"""Modelled traffic by that of the best order, from which on that is so."""

TRAFFIC_WAITING = 0.2
"""Of samples, that wait for memory where it is the limit."""

TRAFFIC_FULL = (0.95, 0.88, 0.8)
"""Of a roof of memory, what products of a good order, or reads at random, reach at best, likely, at
least."""

TRAFFIC_SURE = 0.5
"""Of a gain, where what the L2 keeps is not known."""

TRAFFIC_IMPOSSIBLE = 1.2
"""Of the time, what modelled traffic can not have taken: then less of it was read again."""

# -- redundant_traffic

REDUNDANT_TRAFFIC_WHOLE = 0.85
"""Part of what repeated turns of a loop take that goes at least. By hand."""

REDUNDANT_TRAFFIC_OTHERS = 0.15
"""Part of what is left that goes at most besides. By hand."""

REDUNDANT_TRAFFIC_SURE = 0.3
"""Part of what waits for repeated accesses that goes at least: others of the loop may be waited for
instead. By hand."""

# -- needless_pass

NEEDLESS_PASS_GOES = (0.9, 1.0, 1.3)
"""Of the time of a pass over a tensor, what leaving it out saves: least, likely, most. 41 passes
around Triton kernels on an H200 saved 0.84 to 1.3 of it where the kernel beside it moves the same
bytes without them, three 1.5 to 1.7: the pass takes the kernel's data out of the L2, and one launch
goes."""

NEEDLESS_PASS_NARROWER = (0.1, 1.0, 1.5)
"""Of what memory takes for the bytes by which a kernel's elements become narrower, what the kernel
saves: least, likely, most. 0.03 to 1.3 in 24 such kernels on an H200, 0.9 in the middle."""

NEEDLESS_PASS_KEPT = 0.3
"""Most of a kernel's time that goes because a pass no longer takes its data out of the L2. By
hand."""

LAID_OUT_KEPT = 0.5
"""Most of a kernel's time that goes with a pass which lays a tensor out for it, because the tensor
then stays in the L2. By hand."""

LAID_OUT_LEAST = 0.95
"""Of what a kernel's bytes take at the memory's roof, what it takes at least without such a pass:
roofs are measured. By hand."""

LAID_OUT_SECTORS = (0.3, 1.0, 1.5)
"""Of what memory takes for sectors' elements that nobody needs, what the kernel saves: least,
likely, most. By hand."""

LAID_OUT_UNSURE = 0.5
"""Of the time of a pass that turns or joins tensors, what leaving it out saves at least: the kernel
then takes its elements in another order. By hand."""

NEEDLESS_PASS_THREADS = 128
"""Threads of a block of PyTorch's elementwise kernels."""

NEEDLESS_PASS_EACH = (8, 4)
"""Elements that a thread of a vectorized elementwise kernel of PyTorch computes, of newer and of
older versions; one that converts while it loads always computes the last number."""

NEEDLESS_PASS_NARROW = 2
"""Bytes of an element before it is widened to 4 bytes, where the text does not tell: bfloat16 or
float16. To 8 bytes half of them."""

NEEDLESS_PASS_ALL = 0.9
"""Bytes that a kernel moves by those of a pass, from which on it may use all that the pass made:
grids are rounded up."""
