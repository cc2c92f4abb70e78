"""Fragments that products are added up in by loops over elements.

    gemm %a, %b, %part                     %total is stored as the sum of a product is
    parallel [64, 64] (i, j):        ⇒
      store …, %total, [i, j]        (from elements [i, j] of %part)

In: ops of a launch, and the fragments that its products write.  Out: further fragments of the same
shape, whose elements lie best with the threads that have those of the product.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from tileprof import ir
from tileprof.ir.memory import base


def added_products(ops: Iterable[ir.OpBase], products: Set[ir.Value]) -> set[ir.Value]:
    """Return the fragments that loops fill from elements of products at the same place, which they
    add to what is there."""
    return {
        store.buffer
        for loop in ops
        if isinstance(loop, ir.Parallel)
        for store in loop.body.ops
        if isinstance(store, ir.Store) and _adds(loop, store, products)
    }


def _adds(loop: ir.Parallel, store: ir.Store, products: Set[ir.Value]) -> bool:
    place, total = list(loop.body.args), store.buffer
    if total in products or total.buffer.space != "fragment" or list(store.indices) != place:
        return False
    here = {o.buffer for o in loop.body.ops if isinstance(o, ir.Load) and list(o.indices) == place}
    shape = total.buffer.static_shape
    return total in here and any(
        base(each) is each and each in products and each.buffer.static_shape == shape
        for each in here
    )
