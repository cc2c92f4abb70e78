"""On-chip buffers, variables, views, wishes about layout and cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tileprof.errors import KernelError

from .context import current
from .dtypes import dtype_of
from .spans import here
from .tensors import shape_of
from .threads.pairs import PairBuffer, is_pair_type, pair_buffer

REDUCERS = ("sum", "max", "min", "bitand", "bitor", "bitxor")
"""Ways in which a reducer combines values."""


def alloc_shared(shape: Any, dtype: Any, scope: str = "shared.dyn") -> Any:
    """Return a tile in shared memory, visible to all threads of the block; not initialised."""
    return _allocated("shared", shape, dtype)


def alloc_fragment(shape: Any, dtype: Any, scope: str = "local.fragment") -> Any:
    """Return a tile distributed over the registers of the block's threads; not initialised."""
    return _allocated("fragment", shape, dtype)


def _allocated(space: Any, shape: Any, dtype: Any) -> Any:
    if is_pair_type(dtype):
        return pair_buffer(space, shape_of(shape), dtype)
    return current().alloc(space, shape_of(shape), dtype_of(dtype))


def alloc_reducer(shape: Any, dtype: Any, op: Any = "sum", replication: str | None = None) -> Any:
    """Return an accumulator that the points of a `T.Parallel` update: `acc[i] += x`.

    `op` is "sum", "max", "min", "bitand", "bitor" or "bitxor".  Not initialised; which threads hold
    it is chosen here, whatever `replication` says.
    """
    if op not in REDUCERS:
        raise KernelError(
            f"there is no reducer {op!r}",
            location=here(),
            hint=f"Reducers are: {', '.join(REDUCERS)}.",
        )
    return current().alloc_reducer(shape_of(shape), dtype_of(dtype), op)


def alloc_local(shape: Any, dtype: Any, scope: str = "local") -> Any:
    """Return an array that is private to each thread; not initialised."""
    return _allocated("local", shape, dtype)


def alloc_global(shape: Any, dtype: Any, scope: str = "global") -> Any:
    """Return a tensor in global memory, for data that one `T.Kernel` passes to the next.

    It is not initialised.
    """
    return current().alloc_global(shape_of(shape), dtype_of(dtype))


def alloc_var(dtype: Any, *args: Any, scope: str = "local.var", init: Any = None) -> Any:
    """Return a scalar variable: `x = T.alloc_var("int32", 0)`, after which `x = x + 1` stores."""
    given = [a for a in args if not isinstance(a, str)]
    if len(given) > 1 or (given and init is not None):
        raise KernelError(
            "`T.alloc_var` takes one initial value",
            location=here(),
            hint='`T.alloc_var("float32", 0.0)`.',
        )
    return current().alloc_var(dtype_of(dtype), given[0] if given else init)


def reshape(src: Any, shape: Any) -> Any:
    """Return the same elements, in row-major order, with another shape of equal size."""
    return current().reinterpret(src, shape_of(shape), None)


def view(src: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return the same memory with another shape or element type of equal total size."""
    kind = None if dtype is None else dtype_of(dtype)
    if isinstance(src, PairBuffer):
        src = src.halves
    return current().reinterpret(src, None if shape is None else shape_of(shape), kind)


class Layout:
    """Layout of a buffer's elements as a function of indices; kept as a hint."""

    kind = "layout"

    def __init__(self, shape: Any, forward: Callable[..., Any] | str, **options: Any) -> None:
        self.shape = shape_of(shape)
        self.forward = forward
        self.options = options

    def __str__(self) -> str:
        rule = self.forward if isinstance(self.forward, str) else "custom"
        return f"{self.kind}<{rule}>"


class Fragment(Layout):
    """Assignment of a fragment's elements to threads; kept as a hint."""

    kind = "fragment"

    def __init__(
        self, shape: Any, forward_fn: Callable[..., Any] | str = "", **options: Any
    ) -> None:
        super().__init__(shape, forward_fn or "custom", **options)


def make_swizzled_layout(buffer: Any, *args: Any, **options: Any) -> Layout:
    """Return a layout without bank conflicts for matrix products."""
    return Layout(buffer.shape, "swizzled")


def annotate_layout(layout_map: Mapping[Any, Any]) -> None:
    """Ask for the layouts of buffers: `T.annotate_layout({A_shared: layout})`; a hint."""
    for buffer, layout in layout_map.items():
        if not isinstance(layout, Layout) and not callable(layout):
            raise KernelError(
                f"{layout!r:.60} is not a layout",
                location=here(),
                hint="Use `T.make_swizzled_layout(buffer)`, `T.Layout` or a function of indices.",
            )
        text = str(layout) if isinstance(layout, Layout) else "layout<custom>"
        current().annotate("annotate_layout", buffer, (("layout", text),))


def annotate_safe_value(safe_value_map: Mapping[Any, Any]) -> None:
    """Set the value of reads outside a tensor: `T.annotate_safe_value({A:
    -T.infinity("float32")})`."""
    for buffer, value in safe_value_map.items():
        current().safe_value(buffer, value)


def annotate_l2_hit_ratio(l2_hit_ratio_map: Mapping[Any, float]) -> None:
    """Ask that a share of a tensor stays in the L2 cache; a hint."""
    for buffer, ratio in l2_hit_ratio_map.items():
        current().annotate("annotate_l2_hit_ratio", buffer, (("ratio", float(ratio)),))


def use_swizzle(panel_size: int, order: str = "row", enable: bool = True) -> None:
    """Ask that blocks run in panels of `panel_size` rows (or columns, by `order`), to share L2."""
    if order not in ("row", "column", "mlx"):
        raise KernelError(
            f"`T.use_swizzle` with order {order!r}",
            location=here(),
            hint='Orders are "row", "column" and "mlx".',
        )
    if enable:
        current().annotate("use_swizzle", None, (("swizzle", panel_size), ("order", order)))


def assume(condition: Any) -> None:
    """Accept a promise about values and ignore it: bounds are proved or guarded in any case."""
    current().annotate("assume", None, ())


def sync_threads(barrier_id: int | None = None, arrive_count: int | None = None) -> None:
    """Do nothing: operations take effect in their order, and the compiler places barriers.

    With an `arrive_count`, so many threads meet: those of some roles.
    """
    current().sync_threads(arrive_count)


def sync_grid() -> None:
    """Wait until all blocks of the launch arrive here; then all see what any wrote to tensors.

    On-chip buffers lose their content.
    """
    current().sync_grid()


def pdl_sync() -> None:
    """Do nothing: a launch begins when those before it have ended, whose results it sees."""
    current().need_launch("`T.pdl_sync`")


def pdl_trigger() -> None:
    """Do nothing: the next launch begins when this one has ended."""
    current().need_launch("`T.pdl_trigger`")


def import_source(source: str | None = None) -> None:
    """Take the text of foreign code: none, as where a kernel may call such code and does not."""
    if source is not None:
        raise KernelError(
            "`T.import_source` of a text in another language",
            location=here(),
            hint="A kernel is the same program on every device: write what the text does in it.",
        )


def disable_warp_group_reg_alloc() -> None:
    """Ask that warp groups keep equal shares of the registers; who gets how many is chosen here."""
    current().annotate("disable_warp_group_reg_alloc", None, (("set_max_nreg", 0),))


def no_set_max_nreg() -> None:
    """Do what `disable_warp_group_reg_alloc` does."""
    current().annotate("no_set_max_nreg", None, (("set_max_nreg", 0),))
