"""Watch over the launches of an example on one side: the first launch of each kernel is kept.

While a side compiles, other processes may have the GPU.  Timing loops are not run.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import tilelang_host as host
import torch
from examples_inputs import Profiler, torch_dtype
from examples_results import Side, flat
from examples_turns import Turn

__all__ = ["watching"]


@contextlib.contextmanager
def watching(side: Side, turn: Turn, fake: bool) -> Iterator[None]:
    """Keep first launches inside; `fake`: they are not made, and give empty tensors."""
    with contextlib.ExitStack() as change:

        def put(owner: Any, name: str, new: Any, create: bool = False) -> None:
            change.enter_context(mock.patch.object(owner, name, new, create=create))

        if side.name == "tileprof":
            _watch_tileprof(side, turn, put, fake)
        else:
            _watch_tilelang(side, turn, put, fake)
        yield


def _released(function: Callable[..., Any], turn: Turn) -> Callable[..., Any]:
    """Let others have the GPU while this runs: it compiles."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with turn.released():
            return function(*args, **kwargs)

    return run


def _watch_tileprof(side: Side, turn: Turn, put: Callable[..., None], fake: bool) -> None:
    from tileprof.lang import calls
    from tileprof.lang.calls import Plan, Variant
    from tileprof.lang.jit_function import JitFunction, Kernel
    from tileprof.runtime.device import written_params

    run = Plan.run

    def launched(plan: Any, args: Sequence[Any], warm: Any = None, given: Any = ()) -> Any:
        kernel = plan.variant.traced.kernel
        tensors = [at for at, a in enumerate(args) if isinstance(a, torch.Tensor)]
        sources = [plan.sources[at] for at in written_params(kernel)]
        written = [tensors.index(at) for at in sources if at in tensors]
        launch = functools.partial(_fake if fake else run, plan, args)
        return side.saw(plan.variant, kernel.name, args, written, launch)

    def _fake(plan: Any, args: Sequence[Any]) -> Any:
        _, shapes = plan.ready or plan._settle(args)
        kinds = [torch_dtype(p.type.dtype.name) for _, p in plan.outputs]
        place = next(a.device for a in args if isinstance(a, torch.Tensor))
        made = [torch.empty(s, dtype=k, device=place) for s, k in zip(shapes, kinds)]
        kept = dict(zip((at for at, _ in plan.outputs), made))
        found = tuple(kept[at] for at in plan.returned if at in kept)
        return found[0] if len(found) == 1 else found or None

    # Examples pass tensors that require gradients, of which TileLang takes no notice.
    put(calls, "_refuse_gradient", lambda *_: None)
    for owner, method in (
        (JitFunction, "_plan"), (JitFunction, "_factory"), (JitFunction, "_compile"),
        (Kernel, "_new_plan"),
    ):  # fmt: skip
        put(owner, method, _released(getattr(owner, method), turn))
    put(Plan, "run", launched)
    if fake:
        put(Variant, "loaded", lambda *given: types.SimpleNamespace(device=given[1]))
    put(host, "do_bench", _no_timing(side))
    bench = sys.modules["tilelang.profiler"]
    bench._names["do_bench"] = _no_timing(side)  # type: ignore[attr-defined]
    Kernel.get_profiler = lambda kernel, *a, **k: Profiler(kernel, side)  # type: ignore[attr-defined]


def _watch_tilelang(side: Side, turn: Turn, put: Callable[..., None], fake: bool) -> None:
    jit = importlib.import_module("tilelang.jit")
    kernel_class = importlib.import_module("tilelang.jit.kernel").JITKernel
    profiler = importlib.import_module("tilelang.profiler")
    tuner = importlib.import_module("tilelang.autotuner")
    whole = importlib.import_module("tilelang")

    def launched(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        name = str(kernel.prim_func.attrs["global_symbol"])
        launch = functools.partial(kernel.torch_function, *args, **kwargs)
        if fake:
            place = next(a.device for a in args if isinstance(a, torch.Tensor))
            launch = functools.partial(_fake, kernel, place)
        return side.saw(kernel, name, [*args, *kwargs.values()], None, launch)

    def _fake(kernel: Any, place: torch.device) -> Any:
        outputs = sorted({i % len(kernel.params) for i in flat(kernel.out_idx)})
        made = []
        for at in outputs:
            shape = [d if isinstance(d, int) else 1 for d in kernel.params[at].shape]
            made.append(torch.empty(shape, dtype=kernel.params[at].torch_dtype(), device=place))
        return made[0] if len(made) == 1 else made or None

    keys = importlib.import_module("tilelang.transform").PassConfigKey
    given_jit = whole.jit

    def renamed(*args: Any, pass_configs: Any = None, **kwargs: Any) -> Any:
        return given_jit(*args, pass_configs=_renamed(pass_configs), **kwargs)

    if not hasattr(keys, "TL_DISABLE_FAST_MATH"):
        put(keys, "TL_DISABLE_FAST_MATH", _NO_FAST_MATH, create=True)
        put(whole, "jit", renamed)
    put(kernel_class, "__call__", launched)
    put(kernel_class, "get_profiler", lambda kernel, *a, **k: Profiler(kernel, side))
    put(jit, "cached", _released(jit.cached, turn))
    put(jit.JITImpl, "compile", _released(jit.JITImpl.compile, turn))
    put(profiler, "do_bench", _no_timing(side))
    put(tuner, "autotune", host.autotune)
    put(whole, "autotune", host.autotune)
    put(tuner, "set_autotune_inputs", mock.MagicMock())


_NO_FAST_MATH = "tl.disable_fast_math"
"""Key of earlier versions, which an example still names; 0.1.14 has its opposite."""


def _renamed(configs: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the options of a compilation as TileLang 0.1.14 names them."""
    if configs is None or _NO_FAST_MATH not in configs:
        return None if configs is None else dict(configs)
    kept = {key: value for key, value in configs.items() if key != _NO_FAST_MATH}
    return {**kept, "tl.enable_fast_math": not configs[_NO_FAST_MATH]}


def _no_timing(side: Side) -> Callable[..., float]:
    """`do_bench` that calls what is timed only where nothing was launched before."""

    def do_bench(function: Any = None, *args: Any, **kwargs: Any) -> float:
        if callable(function) and not side.launches:
            function()
        return 1.0

    return do_bench
