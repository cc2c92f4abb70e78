"""Changes that patch PyTorch once the program has imported it.

In: one change, and a function that counts the places it has changed.  Out: patched settings,
constructors or methods. A patch leaves alone what the program has chosen itself, unless that choice
is what the change is about; where PyTorch refuses, the program's own form is kept.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from tileprof.analyzer.fixes import Autocast, LoaderWorkers, MatmulPrecision, OptimizerForm
from tileprof.profiler.import_watch import when_imported

Count = Callable[[], None]

_WITHOUT_OPTIMIZER = {"Optimizer"}


def set_matmul_precision(fix: MatmulPrecision, count: Count) -> None:
    """Let products of 32-bit floats round their operands, and convolutions of cuDNN too."""

    def change(torch: Any) -> None:
        torch.set_float32_matmul_precision(fix.precision)
        torch.backends.cudnn.allow_tf32 = True
        count()

    when_imported("torch", change)


def set_convolution_trials(count: Count) -> None:
    """Let cuDNN time its algorithms."""

    def change(torch: Any) -> None:
        torch.backends.cudnn.benchmark = True
        if torch.backends.cudnn.is_available():
            count()

    when_imported("torch", change)


def set_optimizer_form(fix: OptimizerForm, count: Count) -> None:
    """Give a form to optimizers that the program gives none."""

    def change(module: Any) -> None:
        for kind in _optimizers(module):
            if fix.optimizer in ("", kind.__name__):
                kind.__init__ = _with_form(kind.__init__, fix.form, count)

    when_imported("torch.optim", change)


def _optimizers(module: ModuleType) -> Iterator[Any]:
    """Yield the classes of optimizers in `torch.optim` that say which form they work in."""
    for name, kind in vars(module).items():
        if isinstance(kind, type) and name not in _WITHOUT_OPTIMIZER and "__init__" in vars(kind):
            yield kind


def _with_form(init: Callable[..., None], form: str, count: Count) -> Callable[..., None]:
    if form not in inspect.signature(init).parameters:
        return init

    @functools.wraps(init)
    def changed(self: Any, params: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("fused") or kwargs.get("foreach"):
            init(self, params, *args, **kwargs)
            return
        groups = list(params)  # a generator can be read only once
        try:
            init(self, groups, *args, **{**kwargs, form: True})
        except RuntimeError:
            # A form may be missing for a device or an option: then nothing is changed.
            init(self, groups, *args, **kwargs)
        else:
            count()

    return changed


def set_loader_workers(fix: LoaderWorkers, count: Count) -> None:
    """Give workers to data loaders that have none, as many as there are processors at most."""
    workers = min(fix.workers, os.cpu_count() or 1)

    def change(module: Any, given: dict[str, Any]) -> bool:
        # Each worker would give all elements of a dataset that is only iterated over.
        iterated = isinstance(given.get("dataset"), module.IterableDataset)
        if given.get("num_workers", 0) or iterated:
            return False
        given.update(num_workers=workers, persistent_workers=True)
        return True

    _change_loaders(change, count)


def _change_loaders(change: Callable[[Any, dict[str, Any]], bool], count: Count) -> None:
    """Let `change` change the arguments of data loaders, by name, before they are made.

    It is called with `torch.utils.data` and the arguments, and returns whether it changed any.
    """

    def patch(module: Any) -> None:
        init = module.DataLoader.__init__
        signature = inspect.signature(init)

        @functools.wraps(init)
        def changed(self: Any, *args: Any, **kwargs: Any) -> None:
            bound = signature.bind(self, *args, **kwargs)
            is_changed = change(module, bound.arguments)
            init(*bound.args, **bound.kwargs)
            if is_changed:
                count()

        module.DataLoader.__init__ = changed

    when_imported("torch.utils.data", patch)


def set_pinned_memory(count: Count) -> None:
    """Let data loaders give pinned memory, and copies of that to a device return at once."""

    def pin(module: Any, given: dict[str, Any]) -> bool:
        torch: Any = importlib.import_module("torch")
        if given.get("pin_memory") or not torch.cuda.is_available():
            return False
        given["pin_memory"] = True
        return True

    def change_copies(torch: Any) -> None:
        for name in ("to", "cuda"):
            setattr(torch.Tensor, name, _without_wait(getattr(torch.Tensor, name)))

    _change_loaders(pin, count)
    when_imported("torch", change_copies)


def _without_wait(copy: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(copy)
    def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Only towards a device: the host may read what comes from there before it has arrived.
        if self.device.type == "cpu" and self.is_pinned():
            kwargs.setdefault("non_blocking", True)
        return copy(self, *args, **kwargs)

    return changed


def set_channels_last(count: Count) -> None:
    """Bring the weights of convolutions into the format before they are used first.

    Not when they are made: the program may fill them later, and random numbers go into memory in
    the order of its format.
    """

    def change(torch: Any) -> None:
        forward = torch.nn.Conv2d.forward
        done = set[int]()

        @functools.wraps(forward)
        def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
            if id(self) not in done:
                done.add(id(self))
                weight = self.weight
                weight.data = weight.data.contiguous(memory_format=torch.channels_last)
                count()
            return forward(self, *args, **kwargs)

        torch.nn.Conv2d.forward = changed

    when_imported("torch", change)


def set_gradients_to_none(count: Count) -> None:
    """Let `zero_grad` drop gradients, whatever it was asked for."""

    def change(torch: Any) -> None:
        for kind in (torch.optim.Optimizer, torch.nn.Module):
            kind.zero_grad = _dropping(kind.zero_grad, count)

    when_imported("torch", change)


def _dropping(zero_grad: Callable[..., None], count: Count) -> Callable[..., None]:
    @functools.wraps(zero_grad)
    def changed(self: Any, set_to_none: bool = True) -> None:
        if not set_to_none:
            count()
        zero_grad(self, set_to_none=True)

    return changed


def set_no_checkpoints(count: Count) -> None:
    """Let checkpoints call their functions, whose activations are then kept."""

    def change(module: Any) -> None:
        module.checkpoint = _calling(module.checkpoint, count)

    when_imported("torch.utils.checkpoint", change)


def _calling(checkpoint: Callable[..., Any], count: Count) -> Callable[..., Any]:
    held = inspect.signature(checkpoint).parameters.values()
    own = {each.name for each in held if each.kind is inspect.Parameter.KEYWORD_ONLY}
    own |= {each.name for each in held if each.default is not inspect.Parameter.empty}
    own.add("preserve_rng_state")  # which it takes out of those for the function

    @functools.wraps(checkpoint)
    def changed(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        count()
        return function(*arguments, **{k: v for k, v in named.items() if k not in own})

    return changed


def set_sparse_gradients(count: Count) -> None:
    """Let embeddings have sparse gradients, where the program does not say which they have."""

    def change(nn: Any) -> None:
        for kind in (nn.Embedding, nn.EmbeddingBag):
            kind.__init__ = _sparse(kind.__init__, count)

    when_imported("torch.nn", change)


def _sparse(init: Callable[..., None], count: Count) -> Callable[..., None]:
    signature = inspect.signature(init)

    @functools.wraps(init)
    def changed(*arguments: Any, **named: Any) -> None:
        given = signature.bind(*arguments, **named).arguments
        # A maximum of rows has no sparse gradient.
        if "sparse" not in given and given.get("mode") != "max":
            count()
            named["sparse"] = True
        init(*arguments, **named)

    return changed


def set_autocast(fix: Autocast, count: Count) -> None:
    """Run the outermost calls of modules under `torch.autocast`, and losses in 32 bits."""

    def change(torch: Any) -> None:
        dtype = getattr(torch, fix.dtype)

        def outermost(self: Any, call: Callable[[], Any]) -> Any:
            device = _device_of(self)
            if device is None or torch.is_autocast_enabled(device):
                return call()
            with torch.autocast(device, dtype):
                count()
                return call()

        _around_outermost_calls(torch, outermost)

    when_imported("torch", change)


def set_compiled_models(count: Count) -> None:
    """Compile modules with parameters when they are called outside of any other module."""

    def change(torch: Any) -> None:
        compiled = set[int]()

        def outermost(self: Any, call: Callable[[], Any]) -> Any:
            # What the program compiled itself is in a wrapper that has the original.
            own = "_orig_mod" in self._modules
            if id(self) not in compiled and not own and _device_of(self) is not None:
                compiled.add(id(self))
                self.compile()
                count()
            return call()

        _around_outermost_calls(torch, outermost)

    when_imported("torch", change)


def draw_alike() -> None:
    """Let code that is compiled draw random numbers as PyTorch does without compilation.

    By default it draws others, of the same distribution.
    """

    def change(config: Any) -> None:
        config.fallback_random = True

    when_imported("torch._inductor.config", change)


def _around_outermost_calls(torch: Any, outermost: Callable[[Any, Callable[[], Any]], Any]) -> None:
    """Let a function make the calls of modules that are in no other module's call."""
    call = torch.nn.Module.__call__
    depth = 0

    @functools.wraps(call)
    def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        if depth:
            return call(self, *args, **kwargs)
        depth += 1
        try:
            return outermost(self, lambda: call(self, *args, **kwargs))
        finally:
            depth -= 1

    torch.nn.Module.__call__ = changed


def _device_of(module: Any) -> str | None:
    """Return the type of device that a module's parameters are on; None without parameters."""
    first = next(module.parameters(), None)
    return None if first is None else str(first.device.type)
