"""Row sums of loops that are added up across threads once, after the loop.

In: loops that scale and add to a total.  Out: partial sums per thread, and one reduction behind the
loop.  `late_sums` is the pass; the others decide whether each use of a sum is linear."""
