"""A function of tiles with its arguments on a device: what a search is about.

In: a `JitFunction`, the values that are fixed, arrays for its tensors.  Out: a `Subject` of
`search`: it traces configurations, makes them ready, and compares their results with those of the
first that ran, or with those of the author's reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.bench import CudaTimer, HostTimer, Timer
from tileprof.bench.timers import torch_stream
from tileprof.lang.calls import BoundCall
from tileprof.lang.jit_function import JitFunction, Kernel
from tileprof.lang.trace import Traced
from tileprof.runtime.cuda.binary import CudaBinary
from tileprof.runtime.device import written_params
from tileprof.runtime.selection import device as on_device
from tileprof.runtime.selection import gpu_number

from .configurations import Configuration
from .machine import Gpu, Machine, gpu, processor
from .space import found_space, listed_space

Reference = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Largest distance between results."""

    relative: float = 1e-2
    absolute: float = 1e-2
    mismatched: float = 0.01
    """Share of elements that may be further apart."""


@dataclass(frozen=True, slots=True)
class Checks:
    """Settings of the check of results."""

    tolerances: Tolerances = Tolerances()
    reference: Reference | None = None
    """Function of the kernel's arguments that gives its results; None to compare with those of the
    first configuration that ran."""
    own: Callable[[Sequence[Any], Sequence[Any]], Any] | None = None
    """The author's comparison of results and reference, which raises where they differ."""
    skipped: bool = False


class KernelSubject:
    """One function, for arguments of one kind."""

    def __init__(
        self,
        function: JitFunction,
        fixed: Mapping[str, Any],
        arguments: Callable[[Kernel], Sequence[Any]],
        device: str,
        machine: Machine,
        configurations: Sequence[Configuration] = (),
        checks: Checks | None = None,
        extents: Mapping[str, int] | None = None,
    ) -> None:
        """`fixed`: values of arguments and extents that are not tuned, arrays or their types among
        them.  `arguments` gives the arguments of a kernel's call.  `extents` are known at launch:
        the model takes them as given, and the kernels that run do not."""
        self._function, self._fixed = function, dict(fixed)
        self._extents = dict(extents or {})
        self._arguments, self._checks = arguments, checks or Checks()
        self.device, self.machine = device, machine
        self._kernels: dict[Configuration, Kernel] = {}
        self._under: dict[Configuration, JitFunction] = {}
        self._given: Sequence[Any] | None = None
        self._outputs: dict[Any, Any] = {}
        """Arrays that timed calls write to, one after the other."""
        self._expected: list[Any] | None = None
        signature = function.signature
        if configurations:
            self.space = listed_space(configurations, signature)
        else:
            on_gpu = isinstance(machine, Gpu)
            self.space = found_space(signature, self._fixed, self._probe, on_gpu=on_gpu)

    @property
    def name(self) -> str:
        """The function's name."""
        return self._function.__name__

    @property
    def function(self) -> JitFunction:
        """The function."""
        return self._function

    def _probe(self, values: Mapping[str, Any]) -> Traced:
        function = self._function.under(self._function.options.controls)
        return function.compile(**{**self._fixed, **self._extents, **values}).variant.traced

    def kernel(self, configuration: Configuration) -> Kernel:
        """Return the traced kernel of a configuration."""
        if configuration not in self._kernels:
            function = self.chosen(configuration)
            values = {**self._fixed, **configuration.named}
            self._kernels[configuration] = function.compile(**values)
        return self._kernels[configuration]

    def chosen(self, configuration: Configuration) -> JitFunction:
        """Return the function under the controls of a configuration, and the author's own."""
        key = Configuration((), configuration.controls)
        if key not in self._under:
            controls = configuration.over(self._function.options.controls)
            self._under[key] = self._function.under(controls)
        return self._under[key]

    def traced(self, configuration: Configuration) -> ir.Kernel:
        """Return the kernel as the frontend wrote it, for these extents alone."""
        if not self._extents:
            return self.kernel(configuration).traced
        values = {**self._fixed, **self._extents, **configuration.named}
        return self.chosen(configuration).compile(**values).traced

    @property
    def takes_binaries(self) -> bool:
        """Whether machine code of a trial is that of the kernel that runs: for a GPU that needs no
        PTX, and where no extent is known at launch only."""
        if not self.device.startswith("cuda") or self._extents:
            return False
        from tileprof.runtime.cuda.device import find_device

        return not find_device(gpu_number(self.device)).from_ptx

    def ready(self, configuration: Configuration, binary: CudaBinary | None = None) -> ReadyKernel:
        """Make ready on the device, and bind arguments: copies of those that it writes."""
        kernel = self.kernel(configuration)
        if binary is not None:
            usual = (frozenset[int](), False)
            kernel.variant.adopt(self.device, lambda need: binary if need == usual else None)
        if self._given is None:
            self._given = list(self._arguments(kernel))
        written = {kernel.traced.params[at].name for at in written_params(kernel.traced)}
        copies = [
            copied(value) if name in written else value
            for name, value in zip(kernel.arguments, self._given)
        ]
        bound = kernel.bound(*copies, device=self.device, outputs=self._outputs)
        return ReadyKernel(self, kernel, copies, bound, sorted(written))

    def timer(self) -> Timer:
        """Return the GPU's timer, or the host's clock."""
        if self.device.startswith("cuda"):
            from tileprof.runtime.cuda.device import find_device

            return CudaTimer(find_device(gpu_number(self.device)), torch_stream)
        return HostTimer()

    def fault(self, arguments: Sequence[Any], results: list[Any]) -> str:
        """Return how results differ from the expected ones; '' where they do not."""
        checks = self._checks
        if checks.skipped:
            return ""
        if self._expected is None:
            if checks.reference is None:
                self._expected = [copied(each) for each in results]
                return ""
            made = checks.reference(*arguments)
            self._expected = list(made) if isinstance(made, tuple | list) else [made]
        if checks.own is not None:
            try:
                checks.own(results, self._expected)
            except AssertionError as error:
                return str(error).partition("\n")[0] or "the author's check failed"
            return ""
        return difference(results, self._expected, checks.tolerances)


@dataclass(frozen=True, slots=True)
class ReadyKernel:
    """One configuration on its device."""

    subject: KernelSubject
    kernel: Kernel
    arguments: Sequence[Any]
    bound: BoundCall
    written: Sequence[str]

    def run(self) -> None:
        """Launch, without anything that listens."""
        self.bound()

    def fault(self) -> str:
        """Call once as a user does, and compare."""
        with on_device(self.subject.device):
            made = self.kernel(*self.arguments)
        results = list(made) if isinstance(made, tuple) else [] if made is None else [made]
        named = dict(zip(self.kernel.arguments, self.arguments))
        results += [named[name] for name in self.written if name in named]
        return self.subject.fault(self.arguments, results)


def machine_of(device: str, target: str = "") -> Machine:
    """Return what the model knows of a device, or of a GPU that is not there: of a target."""
    from tileprof.compiler.cuda.target import find_target
    from tileprof.runtime.cpu import pool

    if target:
        return gpu(find_target(target), name="NVIDIA H200" if target == "sm_90a" else "")
    if not device.startswith("cuda"):
        return processor(pool.threads())
    from tileprof.runtime.cuda.device import find_device
    from tileprof.runtime.roofs.keeping import known_roofs

    found = find_device(gpu_number(device))
    measured = known_roofs(found.number, found.driver)
    roofs = {roof.name: roof.value for roof in measured} if measured else None
    return gpu(found.target, name=found.name, sms=found.sms, roofs=roofs)


def copied(value: Any) -> Any:
    """Return a copy of an array of NumPy, PyTorch or CuPy; anything else as it is."""
    if hasattr(value, "clone"):
        return value.clone()
    return value.copy() if hasattr(value, "copy") and hasattr(value, "shape") else value


def difference(found: Sequence[Any], expected: Sequence[Any], limits: Tolerances) -> str:
    """Return how arrays differ, as a sentence; '' where they agree within the limits."""
    if len(found) != len(expected):
        return f"{len(found)} results, where {len(expected)} are expected"
    for at, (one, other) in enumerate(zip(found, expected)):
        if tuple(one.shape) != tuple(other.shape):
            return f"result {at} has shape {tuple(one.shape)}, expected is {tuple(other.shape)}"
        share, most = _apart(one, other, limits)
        if share > limits.mismatched:
            return (
                f"{100 * share:.2g} % of the elements of result {at} differ by more than "
                f"{limits.relative:g} of the value + {limits.absolute:g}, by {most:.3g} at most"
            )
    return ""


def _apart(one: Any, other: Any, limits: Tolerances) -> tuple[float, float]:
    """Return the share of elements that are too far apart, and the largest distance."""
    if hasattr(one, "detach") and hasattr(other, "detach"):
        left, right = one.detach().double(), other.detach().double().to(one.device)
        away = (left - right).abs()
        near = (away <= limits.absolute + limits.relative * right.abs()) & right.isfinite()
        wrong = ~(near | (left == right))
        wrong &= ~(left.isnan() & right.isnan())
        if not wrong.numel():
            return 0.0, 0.0
        return float(wrong.double().mean()), float(away.nan_to_num().max())
    left, right = (_on_host(each).astype(np.float64) for each in (one, other))
    with np.errstate(all="ignore"):
        away = np.abs(left - right)
        near = (away <= limits.absolute + limits.relative * np.abs(right)) & np.isfinite(right)
        wrong = ~(near | (left == right))
    wrong &= ~(np.isnan(left) & np.isnan(right))
    if not wrong.size:
        return 0.0, 0.0
    return float(wrong.mean()), float(np.nan_to_num(away).max())


def _on_host(value: Any) -> Any:
    return value.get() if hasattr(value, "get") and hasattr(value, "device") else np.asarray(value)
