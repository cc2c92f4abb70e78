"""Random arguments for kernels of examples, and calls on them that are compared with a reference.

Both sides' compiled kernels are understood: those of tileprof and those of TileLang.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tilelang_host as host
import torch
from examples_results import Side, compared, flat

__all__ = ["Profiler", "call", "supply", "torch_dtype"]

_DECAYS = ("g", "gk", "gate", "da_cumsum")
"""Parameters whose exponential is taken: small negative numbers, or it is infinite."""


def supply(kernel: Any, **given: Any) -> list[Any]:
    """Return random arguments for a compiled kernel.

    `given` makes some of them from their extents.  A gate is a small negative number.
    """
    made = []
    for name, shape, kind in _inputs(kernel):
        if name in given:
            made.append(given[name](*shape) if callable(given[name]) else given[name])
        elif name.lower() in _DECAYS:
            made.append((torch.rand(shape, device="cuda") * -0.1).to(kind))
        elif kind.is_floating_point:
            # Scaled so that sums over 128 products are of the size of 1.
            size = 0.3 if len(shape) > 2 else 1.0
            made.append((torch.randn(shape, device="cuda") * size).to(kind))
        elif kind == torch.bool:
            made.append(torch.rand(shape, device="cuda") > 0.5)
        else:
            low, high = (0, 100) if kind == torch.uint8 else (-2, 3)
            made.append(torch.randint(low, high, shape, device="cuda").to(kind))
    return made


def call(
    kernel: Any,
    against: Callable[..., Sequence[torch.Tensor]] | None = None,
    side: Side | None = None,
    **given: Any,
) -> Any:
    """Run a compiled kernel on random arguments; the side's comparison is `against` a reference,
    which takes the same arguments."""
    inputs = supply(kernel, **given)
    made = kernel(*inputs)
    if against is not None and side is not None and not side.dry:
        side.checks.append(compared(flat(made), against(*inputs), str(against.__name__)))
    return made


def torch_dtype(name: str) -> torch.dtype:
    """Return the type of PyTorch that has this name of tileprof."""
    return getattr(torch, {"float8_e4m3": "float8_e4m3fn"}.get(name, name))  # type: ignore[no-any-return]


def _inputs(kernel: Any) -> list[tuple[str, tuple[int, ...], torch.dtype]]:
    """Name, extents and element type of each argument."""
    if hasattr(kernel, "traced"):
        found = []
        for param in kernel.traced.params:
            if param.role == "in":
                kind = torch_dtype(param.type.dtype.name)
                found.append((param.name, tuple(param.type.static_shape), kind))
        return found
    outputs = {i % len(kernel.params) for i in flat(kernel.out_idx)}
    names = [str(v.name).removesuffix("_handle") for v in kernel.prim_func.params]
    return [
        (name, tuple(int(d) for d in param.shape), param.torch_dtype())
        for at, (name, param) in enumerate(zip(names, kernel.params))
        if at not in outputs
    ]


class Profiler:
    """`kernel.get_profiler()` of both sides: one call, compared with the reference."""

    def __init__(self, kernel: Any, side: Side) -> None:
        self.kernel, self.side = kernel, side
        self.func = kernel

    def do_bench(self, *args: Any, **kwargs: Any) -> float:
        """Run the kernel where nothing was run before."""
        if not args and not self.side.launches:
            call(self.kernel)
        return 1.0

    def run_once(self) -> Any:
        """Call the kernel once on random inputs."""
        return self.kernel(*supply(self.kernel))

    def assert_allclose(
        self, reference: Callable[..., Any], rtol: float = 1e-2, atol: float = 1e-2, **rest: Any
    ) -> None:
        """Run the kernel and the reference on one set of inputs."""
        inputs = supply(self.kernel)
        results = flat(self.kernel(*inputs))
        expected = flat(reference(*inputs))
        for got, want in zip(results, expected):
            host.compare(got.float(), want.float(), rtol=rtol, atol=atol,
                         max_mismatched_ratio=rest.get("max_mismatched_ratio", 0.01))  # fmt: skip

    def assert_consistent(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: every kernel is run many times anyway."""
