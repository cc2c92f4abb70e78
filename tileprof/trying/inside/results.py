"""Results of a program's first steps, kept so that those of another process can be compared.

In: what the program does: calls of `backward`, steps of optimizers, calls of one function.  Out:
arrays by name in a file:

    value/STEP/N          a loss that `backward` was called on
    returned/STEP/N       what the named function returned, one array for each tensor or number; or
                          what the function held whose loop's iterations are the steps
    number/STEP           numbers that it held, some of which may be times
    gradient/P            of the first step, by the number of the parameter
    low_precision         is there where the program computes with fewer bits than 32
    first_update/P        parameter after the first step minus before it
    update/P              parameter after the kept steps minus before the first one

Of a parameter with more elements than `WHOLE` a fixed sample is kept. The order of elements is that
of dimensions, not of memory, so another memory format gives the same arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from tileprof.profiler.import_watch import when_imported
from tileprof.trying.orders import LOW_PRECISION

WHOLE = 1 << 18
"""Elements of a parameter up to which all of them are kept: 1 MB in 32 bits."""
SAMPLED = 1 << 16
"""Elements that are kept of a larger one: a change of one element in a thousand is among them."""
_MOST_RETURNED = 1 << 24
"""Elements that are kept of what a function returns, in all its calls."""
_MOST_NUMBERS = 1 << 16
"""Numbers that are kept of what a function holds, in each step."""
_DEEPEST = 6
"""Levels of lists and dictionaries in what a function returns."""


class Results:
    """Results that one process keeps, until it is asked to write them."""

    def __init__(self, kept: int, disturbed: float = 0.0) -> None:
        self._kept, self._disturbed = kept, disturbed
        self._generators: dict[Any, Any] = {}
        """Random numbers by device: the program's own are not touched."""
        self._step = 0
        self._arrays: dict[str, np.ndarray] = {}
        self._parameters: dict[int, tuple[Any, np.ndarray]] = {}
        """Parameters with their sample before the first step, by the parameter's identity."""
        self._returned = 0
        self._undo: list[Callable[[], None]] = []
        when_imported("torch", self._watch_losses)
        when_imported("torch", self._watch_precision)
        when_imported("torch.optim.optimizer", self._watch_optimizers)

    @property
    def open(self) -> bool:
        """Whether results of the step under way are kept."""
        return self._step < self._kept

    def returned(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its results kept."""

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            found = function(*args, **kwargs)
            if self.open:
                self._keep_returned(found)
            return found

        return watched

    def keep_arrays(self, frame: FrameType) -> None:
        """Keep the numbers, and samples of the tensors and arrays, that a function holds, by itself
        or in objects of classes that its file defines."""
        if not self.open:
            return
        own, numbers = frame.f_globals.get("__name__"), list[float]()
        for value in [*frame.f_locals.values()]:
            is_own = type(value).__module__ == own and hasattr(value, "__dict__")
            for each in _leaves({**vars(value)} if is_own else value):
                if isinstance(each, bool | int | float):
                    numbers.append(float(each))
                    continue
                if hasattr(each, "element_size") and _is_small_float(each):
                    self._keep_precision()
                with suppress(RuntimeError, TypeError):  # such as a sparse tensor
                    self._keep("returned", _sample(each))
        self._arrays[f"number/{self._step}"] = np.array(numbers[:_MOST_NUMBERS])

    def end_step(self) -> None:
        """Count a step; after the last kept one nothing of the program is watched any more."""
        self._step += 1
        if self._step == self._kept:
            self.finish()

    def finish(self) -> None:
        """Keep how parameters have changed, and watch nothing more."""
        self._step = max(self._step, self._kept)
        for undo in self._undo:
            undo()
        self._undo.clear()
        for number, (parameter, before) in enumerate(self._parameters.values()):
            update = _sample(parameter) - before
            self._arrays.setdefault(f"first_update/{number}", update)
            self._arrays[f"update/{number}"] = update
        self._parameters.clear()

    def write(self, path: Path) -> None:
        """Write what was kept."""
        np.savez(path, **self._arrays)  # type: ignore[arg-type]

    # -- what the program does

    def _keep_returned(self, found: Any) -> None:
        for value in _leaves(found):
            self._keep("returned", _array(value))

    def _keep(self, kind: str, value: np.ndarray) -> None:
        if self._returned + value.size <= _MOST_RETURNED:
            self._returned += value.size
            self._add(kind, value)

    def _add(self, kind: str, value: np.ndarray) -> None:
        number = sum(name.startswith(f"{kind}/{self._step}/") for name in self._arrays)
        self._arrays[f"{kind}/{self._step}/{number}"] = value

    def _keep_precision(self) -> None:
        self._arrays[LOW_PRECISION] = np.array(True)

    def _watch_precision(self, torch: Any) -> None:
        enter = torch.autocast.__enter__

        @functools.wraps(enter)
        def watched(context: Any) -> Any:
            self._keep_precision()
            return enter(context)

        def undo() -> None:
            torch.autocast.__enter__ = enter
            if torch.cuda.is_initialized() and torch.get_float32_matmul_precision() != "highest":
                self._keep_precision()

        torch.autocast.__enter__ = watched
        self._undo.append(undo)

    def _watch_losses(self, torch: Any) -> None:
        backward = torch.Tensor.backward

        @functools.wraps(backward)
        def watched(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if self.open:
                self._add("value", _array(tensor))
            return backward(tensor, *args, **kwargs)

        torch.Tensor.backward = watched
        self._undo.append(lambda: setattr(torch.Tensor, "backward", backward))

    def _watch_optimizers(self, module: Any) -> None:
        # PyTorch before 2.0 has no hooks of all optimizers.
        register = getattr(module, "register_optimizer_step_pre_hook", None)
        if register is not None:
            self._undo.append(register(self._before_step).remove)

    def _before_step(self, optimizer: Any, args: object, kwargs: object) -> None:
        numbers = {key: number for number, key in enumerate(self._parameters)}
        for parameter in _parameters_of(optimizer):
            gradient = parameter.grad
            dense = gradient is not None and not gradient.is_sparse
            number = numbers.get(id(parameter))
            if number is None:
                if _is_small_float(parameter):
                    self._keep_precision()
                self._parameters[id(parameter)] = (parameter, _sample(parameter))
                if gradient is not None:
                    whole = gradient if dense else gradient.to_dense()
                    self._arrays[f"gradient/{len(self._parameters) - 1}"] = _sample(whole)
            elif f"first_update/{number}" not in self._arrays:
                before = self._parameters[id(parameter)][1]
                self._arrays[f"first_update/{number}"] = _sample(parameter) - before
            if self._disturbed and dense and gradient.is_floating_point():
                self._disturb(gradient)

    def _disturb(self, gradient: Any) -> None:
        """Add random numbers to a gradient where it is not zero, as rounding would."""
        torch = _torch()
        device = gradient.device
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(0)
        noise = torch.randn(gradient.shape, generator=self._generators[device], device=device)
        with torch.no_grad():
            size = gradient.float().pow(2).mean().sqrt() * self._disturbed
            gradient.add_((noise * size * (gradient != 0)).to(gradient.dtype))


def _sample(tensor: Any) -> np.ndarray:
    """Return elements of a tensor or an array, the same ones each time."""
    flat = tensor.detach().reshape(-1) if hasattr(tensor, "detach") else tensor.reshape(-1)
    size = len(flat)
    if size > WHOLE:
        chosen = np.random.default_rng(size).integers(0, size, SAMPLED)
        if isinstance(flat, np.ndarray):
            return flat[chosen]
        flat = flat[_torch().as_tensor(chosen, device=flat.device)]
    return _array(flat)


def _parameters_of(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _is_small_float(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() and tensor.element_size() < 4)


def _leaves(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the numbers, arrays and tensors of a value, in order."""
    if depth > _DEEPEST:
        return
    if hasattr(value, "detach"):
        yield value
    elif isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind in "biufc":
            yield np.asarray(value)
    elif isinstance(value, bool | int | float | complex):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _leaves(each, depth + 1)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for each in value:
            yield from _leaves(each, depth + 1)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _leaves(getattr(value, field.name), depth + 1)


def _array(value: Any) -> np.ndarray:
    """Return a copy of a tensor, an array or a number as an array; small floats that NumPy does not
    know become 32-bit ones."""
    if not hasattr(value, "detach"):
        return np.array(value)
    held = value.detach()
    if _is_small_float(held):
        held = held.float()
    copied: np.ndarray = held.cpu().resolve_conj().resolve_neg().numpy().copy()
    return copied


def _torch() -> Any:
    import torch

    return torch
