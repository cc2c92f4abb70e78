"""A kernel on a GPU: the variant for its arguments, its launches, their time and their report.

A launch is enqueued on the stream on which the arguments' framework works, and the call returns.
Only a kernel that prints or can stop its launch, host arrays, and a listener make a call wait for
the device.  What a launch notes of failed checks is raised by the call itself where it waits
anyway, else by a later one (`check_notes.py`).

Kernels are compiled for arguments at multiples of 16 bytes that do not overlap.  Where an address
or a row is no such multiple, or a tensor that is written overlaps another, a variant is compiled
that assumes less; it is chosen at each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tileprof import ir
from tileprof.errors import ArgumentError, ExecutionError, TileprofError
from tileprof.once import Guard, Kept
from tileprof.remarks import Remark
from tileprof.runtime import hooks
from tileprof.runtime.arguments import (
    address,
    check_writable,
    is_host,
    outlives_its_owner,
    stream_of,
)
from tileprof.runtime.device import RunResult, taken, widest_elements, written_params

from .binary import CudaBinary
from .device import CudaDevice
from .driver import FAULTS, INVALID_PTX, NO_BINARY_FOR_GPU, UNSUPPORTED_PTX, DriverFailure
from .host_arrays import Staged
from .launch import Call, Function
from .records.calibration import RecordCost
from .records.comparison import Comparison
from .records.launch_ids import SiteTable, Source
from .records.reader import records_of, samples_of
from .records.samples import SampledFunction
from .report import Origin, Report, Reports
from .tensor_maps import fitting, value_of

Need = tuple[frozenset[int], bool]
"""Parameters that are not aligned to 16 bytes, and whether a written one overlaps another."""
_Facts = tuple[frozenset[int], tuple[tuple[int, int, int, int], ...]]
"""Facts that follow from the symbols: tensors that are unaligned at any address; pairs that must
not overlap, and the bytes of both."""
Heard = tuple[hooks.LateListener, int]
"""Listener for what a launch writes about its inside, and its token."""
_MAX_FACTS = 4096
_ALIGNMENT = 16
_MOST_EXTENT = (1 << 31) - 1


class CudaVariant:
    """A binary loaded into a device's context."""

    def __init__(self, device: CudaDevice, kernel: ir.Kernel, binary: CudaBinary) -> None:
        self.binary = binary
        self.places = binary.places
        with device.current():
            module = _load(device, kernel, binary)
            self.functions = [Function(device, kernel, module, s) for s in binary.launches]
        self.reports = any(f.reports for f in self.functions)
        self.notes = any(f.notes for f in self.functions)
        self.sources: dict[int, Source] = {}
        """Sources of launches that write records: the meaning of these records."""
        self.sampled: dict[int, SampledFunction] = {}
        """Launches that are sampled."""

    def origin(self, number: int, call: Call) -> Origin:
        """Return the origin with which the report of a launch is read."""
        function = self.functions[number]
        return Origin(
            function.kernel, self, number, call.grid, call.symbols, function.spec.in_order
        )

    def grids(self, results: tuple[Any, ...]) -> list[tuple[int, ...]]:
        """Return the grid of each launch, from the results of the host's program."""
        made, at = [], len(results) - sum(self.binary.axes)
        for axes in self.binary.axes:
            made.append(tuple(int(n) for n in results[at : at + axes]))
            at += axes
        return made


class CudaExecutable:
    """One kernel on one device; `build` gives the binary for a need."""

    device_type = 2
    """Device type of DLPack: kDLCUDA."""

    def __init__(
        self, kernel: ir.Kernel, build: Callable[[Need], CudaBinary], device: CudaDevice
    ) -> None:
        self.kernel, self.device = kernel, device
        self._build = build
        self._variants: Kept[Need, CudaVariant] = Kept()
        self._comparing = Guard()
        self._tensors = {
            at: p.type for at, p in enumerate(kernel.params) if isinstance(p.type, ir.BufferType)
        }
        self._outputs = frozenset(at for at, p in enumerate(kernel.params) if p.role == "out")
        self._widest = widest_elements(kernel)
        self.written = written_params(kernel)
        self.overlaps = [
            (w, o) for w in self.written for o in self._tensors
            if o != w and not {w, o} & self._outputs and (o not in self.written or w < o)
        ]  # fmt: skip
        self._extents = [
            (at, name)
            for at, name in enumerate(kernel.symbols)
            if any(name in t.shape for t in self._tensors.values())
        ]
        self._facts: dict[tuple[int, ...], _Facts] = {}
        self._needs: dict[tuple[tuple[int, ...], Need], Need] = {}
        self._reports = Reports(device.driver)
        self._events: list[tuple[int, int]] = []
        self.sites = SiteTable()
        """Sites of all variants."""
        self.compared: Comparison | None = None
        """Cost of the marks, once it is known."""
        # Errors of the kernel come before its first launch.
        self.binary = self.variant((frozenset(), False)).binary

    def variant(self, need: Need) -> CudaVariant:
        """Return the variant for a need, compiled and loaded when it is first asked for."""
        return self._variants.get(need) or self._variants.made(need, lambda: self._loaded(need))

    def _loaded(self, need: Need) -> CudaVariant:
        made = CudaVariant(self.device, self.kernel, self._build(need))
        made.sources = self.sites.sources(made.binary, self.device.clock_khz, self.compare)
        made.sampled = self.sites.sampled(made.binary)
        return made

    @property
    def records(self) -> bool:
        """Whether its launches can write records."""
        return bool(self.sites.sites)

    def run(
        self, values: Sequence[Any], symbols: Sequence[int], heard: Heard | None = None
    ) -> RunResult:
        """Enqueue the kernel; see `Executable.run` and the note above for when it waits.  `heard`:
        who is told what the launch writes about its inside."""
        for at, name in self._extents:
            if symbols[at] > _MOST_EXTENT:
                raise self._too_large(name, symbols[at])
        check_writable(self.kernel, self.written, values)
        with self.device.current():
            stream = self.stream(values)
            self.device.notes.check(stream)
            hosted = {at: values[at] for at in self._tensors if is_host(values[at])}
            if hosted:
                return self._run_copied(values, symbols, hosted, stream, heard)
            addresses = [address(v) if at in self._tensors else 0 for at, v in enumerate(values)]
            return self._launch(values, addresses, tuple(symbols), stream, heard)

    def told(self) -> list[Remark]:
        """Return remarks from the records of its launches."""
        found: list[Remark] = []
        for variant in list(self._variants.values()):
            for source in variant.sources.values():
                with suppress(TileprofError):
                    found += source.remarks()
        return found

    def record_cost(self) -> RecordCost | None:
        """Return the cost of a record in its launches; None if none was decoded."""
        sources = (s for v in list(self._variants.values()) for s in v.sources.values())
        return next((each.cost for each in sources if each.cost is not None), None)

    def compare(self) -> None:
        """Find out what the marks cost; takes as long as it takes to compile the kernel."""
        with self._comparing:
            if self.compared is None and self.binary.compare is not None:
                self.compared = self.binary.compare()

    def stream(self, values: Sequence[Any]) -> int:
        """Return the stream of the first array on the device, else the legacy default one."""
        for at in self._tensors:
            if not is_host(values[at]):
                return stream_of(values[at], self.device.number)
        return 0

    def _run_copied(
        self, values: Sequence[Any], symbols: Sequence[int], hosted: dict[int, Any], stream: int,
        heard: Heard | None,
    ) -> RunResult:  # fmt: skip
        staged = Staged(self.device, stream, hosted, self._outputs)
        try:
            held = staged.addresses
            addresses = [
                held[at] if at in held else address(v) if at in self._tensors else 0
                for at, v in enumerate(values)
            ]
            result = self._launch(values, addresses, tuple(symbols), stream, heard, waits=True)
            self._synchronize(stream)
            staged.copy_out(self.written)
        finally:
            staged.free()
        return RunResult(result.time_ns, result.grid, result.blocks, copies=tuple(staged.copies))

    def prepare(
        self, values: Sequence[Any], symbols: tuple[int, ...]
    ) -> tuple[list[Function], list[Call]] | None:
        """Return the functions and launches for arguments on the device; None where a call has more
        to do than to launch."""
        if any(is_host(values[at]) for at in self._tensors):
            return None
        addresses = [address(v) if at in self._tensors else 0 for at, v in enumerate(values)]
        variant = self.variant(self.need(addresses, symbols))
        if variant.reports or (variant.notes and self.device.notes.is_blocking):
            return None
        calls = self._calls(variant, values, addresses, symbols, 0)
        self._lend_reports(variant, calls, captured=False)
        return variant.functions, calls

    def refuse(self, code: int) -> None:
        """Raise what the code of a launch stands for."""
        try:
            self.device.driver.fail("cuLaunchKernelEx", code)
        except DriverFailure as failure:
            raise self._fault(failure) from None

    # -- which variant

    def need(self, addresses: Sequence[int], symbols: tuple[int, ...]) -> Need:
        """Return the conditions that arguments at these addresses do not fulfil."""
        by_rows, overlaps = self._facts.get(symbols) or self._look_at(symbols)
        unaligned, aliased = by_rows, False
        for at in self._tensors:
            if addresses[at] % _ALIGNMENT:
                if addresses[at] % self._widest[at].bytes:
                    raise self._misaligned(at)
                unaligned |= {at}
        for a, b, a_bytes, b_bytes in overlaps:
            if addresses[a] < addresses[b] + b_bytes and addresses[b] < addresses[a] + a_bytes:
                aliased = True
                break
        if aliased or unaligned != by_rows:
            return self._fitting(symbols, (unaligned, aliased))
        return by_rows, False

    def _fitting(self, symbols: tuple[int, ...], need: Need) -> Need:
        """Return a need with the parameters that its own variant cannot copy."""
        found = self._needs.get((symbols, need))
        if found is None:
            if len(self._needs) >= _MAX_FACTS:
                self._needs.clear()
            named = dict(zip(self.kernel.symbols, symbols))
            unaligned, aliased = need
            unaligned, _ = fitting(
                lambda some: self.variant((some, aliased)),
                lambda variant: variant.binary.launches,
                named,
                unaligned,
            )
            found = self._needs[symbols, need] = (unaligned, aliased)
        return found

    def _look_at(self, symbols: tuple[int, ...]) -> _Facts:
        """Tensors whose rows are no multiples of a copy; the bytes of those that may overlap."""
        found = (
            self._fitting(symbols, (frozenset(), False))[0],
            tuple((a, b, self.span(a, symbols), self.span(b, symbols)) for a, b in self.overlaps),
        )
        if len(self._facts) >= _MAX_FACTS:
            self._facts.clear()
        self._facts[symbols] = found
        return found

    def span(self, at: int, symbols: tuple[int, ...]) -> int:
        """Bytes from the first element of a parameter to the end of its last."""
        held = self._tensors[at]
        named = dict(zip(self.kernel.symbols, symbols))
        shape = [value_of(d, named) for d in held.shape]
        if held.strides is None:
            strides = [1] * len(shape)
            for axis in reversed(range(len(shape) - 1)):
                strides[axis] = strides[axis + 1] * shape[axis + 1]
        else:
            strides = [value_of(d, named) for d in held.strides]
        if not all(shape):
            return 0
        return (sum((n - 1) * abs(s) for n, s in zip(shape, strides)) + 1) * held.dtype.bytes

    # -- launches

    def _launch(
        self, values: Sequence[Any], addresses: Sequence[int], symbols: tuple[int, ...],
        stream: int, heard: Heard | None, *, waits: bool = False,
    ) -> RunResult:  # fmt: skip
        """`waits`: the caller waits for the stream in any case."""
        variant = self.variant(self.need(addresses, symbols))
        calls = self._calls(variant, values, addresses, symbols, stream)
        for number, function in enumerate(variant.functions):
            if function.counts:
                calls[number] = replace(calls[number], counter=self.device.counters.address(stream))
        if heard is not None and (variant.sources or variant.sampled):
            self._give_places(variant, calls, stream, heard)
        timed = self._is_timed() and not self.device.driver.is_capturing(stream)
        own = self._give_reports(variant, calls, stream, waits or timed) if variant.notes else {}
        events = self._record(stream) if timed else None
        try:
            for number, (function, call) in enumerate(zip(variant.functions, calls)):
                if function.reports:
                    self._reports.launch(function, call, variant.origin(number, call))
                else:
                    function.launch(call)
        except DriverFailure as failure:
            raise self._fault(failure) from None
        loose = [values[at] for at in self._tensors if not outlives_its_owner(values[at])]
        if loose and not self.device.driver.is_capturing(stream):
            self.device.held.keep(loose, stream)
        time_ns = self._elapsed(stream, events) if events else -1
        if own:
            self._synchronize(stream)
            self._reports.tell([(r, variant.origin(n, calls[n])) for n, r in own.items()])
        blocks = sum(f.blocks(c.grid) for f, c in zip(variant.functions, calls))
        return RunResult(time_ns, calls[0].grid if calls else (), blocks)

    def _give_places(
        self, variant: CudaVariant, calls: list[Call], stream: int, heard: Heard
    ) -> None:
        """Say in each call that can write records, or be sampled, where they go."""
        captured = self.device.driver.is_capturing(stream)
        for number, function in enumerate(variant.functions):
            source, sampled = variant.sources.get(number), variant.sampled.get(number)
            if not (blocks := function.blocks(calls[number].grid)):
                continue
            if source is not None:
                records = records_of(self.device)
                given = records.argument(source, *heard, blocks, captured=captured)
                calls[number] = replace(calls[number], recording=given)
            if sampled is not None:
                samples = samples_of(self.device)
                given = samples.argument(sampled, *heard, blocks, captured=captured)
                calls[number] = replace(calls[number], sampling=given)

    def _is_timed(self) -> bool:
        """Return whether somebody wants the time of a launch who has no other way to get it."""
        return hooks.listener is not None and not hooks.listener.times_gpus

    def _calls(
        self,
        variant: CudaVariant,
        values: Sequence[Any],
        addresses: Sequence[int],
        symbols: tuple[int, ...],
        stream: int,
    ) -> list[Call]:
        """One for each launch of the kernel."""
        results = variant.binary.host.run(values, symbols)
        return [
            Call(values, addresses, symbols, results, grid, stream, 0)
            for grid in variant.grids(results)
        ]

    def _give_reports(
        self, variant: CudaVariant, calls: list[Call], stream: int, waits: bool
    ) -> dict[int, Report]:
        """Say in each call that notes failed checks where; gives the reports of this call alone,
        by launch, where it waits and raises itself."""
        captured = self.device.driver.is_capturing(stream)
        if captured or not (waits or self.device.notes.is_blocking):
            self._lend_reports(variant, calls, captured=captured)
            return {}
        own = {n: self._reports.take() for n, f in enumerate(variant.functions) if f.notes}
        for number, report in own.items():
            calls[number] = replace(calls[number], report=report.address)
        return own

    def _lend_reports(self, variant: CudaVariant, calls: list[Call], *, captured: bool) -> None:
        """The same for launches of which a later call tells."""
        for number, function in enumerate(variant.functions):
            if function.notes:
                origin = variant.origin(number, calls[number])
                lent = self.device.notes.lend(origin, captured=captured)
                calls[number] = replace(calls[number], report=lent.address, lent=lent)

    def _record(self, stream: int) -> tuple[int, int]:
        driver = self.device.driver
        events = taken(self._events) or (
            driver.pointer("cuEventCreate", 0),
            driver.pointer("cuEventCreate", 0),
        )
        driver.call("cuEventRecord", events[0], stream)
        return events

    def _elapsed(self, stream: int, events: tuple[int, int]) -> int:
        """Wait for the launch; its time in ns."""
        driver = self.device.driver
        try:
            driver.call("cuEventRecord", events[1], stream)
            driver.call("cuEventSynchronize", events[1])
        except DriverFailure as failure:
            raise self._fault(failure) from None
        self._events.append(events)
        return driver.elapsed_ns(*events)

    def _synchronize(self, stream: int) -> None:
        try:
            self.device.driver.call("cuStreamSynchronize", stream)
        except DriverFailure as failure:
            raise self._fault(failure) from None

    # -- errors

    def _fault(self, failure: DriverFailure) -> ExecutionError:
        """Return a fault of a running kernel, with the kernel's name and line."""
        what = FAULTS.get(failure.code)
        if what is None:
            return failure
        return ExecutionError(
            f"`{self.kernel.name}`, or a kernel before it, was stopped on {self.device.name} by "
            f"{what} ({failure.message})",
            location=self.kernel.location,
            hint="The device is lost to this process. CUDA_LAUNCH_BLOCKING=1 shows which "
            "kernel failed, and TILEPROF_DEVICE=interpreter which access.",
        )

    def _misaligned(self, at: int) -> ArgumentError:
        name, kind = self.kernel.params[at].name, self._widest[at]
        return ArgumentError(
            f"`{name}` is accessed as {kind} in `{self.kernel.name}`, and begins at an address that"
            f" is not a multiple of {kind.bytes}",
            location=self.kernel.location,
            hint="Copy it, with `clone()` or `copy()`; copies are aligned.",
        )

    def _too_large(self, name: str, extent: int) -> ArgumentError:
        return ArgumentError(
            f"extent `{name}` of `{self.kernel.name}` is {extent}, and {_MOST_EXTENT} is the most",
            location=self.kernel.location,
            hint="Call the kernel on parts of the tensor.",
        )


def _load(device: CudaDevice, kernel: ir.Kernel, binary: CudaBinary) -> int:
    try:
        return device.driver.pointer("cuModuleLoadDataEx", binary.image, 0, None, None)
    except DriverFailure as failure:
        if failure.code not in (INVALID_PTX, UNSUPPORTED_PTX, NO_BINARY_FOR_GPU):
            raise
        raise ExecutionError(
            f"`{kernel.name}`, compiled for {binary.target}, cannot be loaded on {device.name} of "
            f"compute capability {device.capability[0]}.{device.capability[1]}"
            f" ({failure.message})",
            location=kernel.location,
            hint=f"The driver is of CUDA {device.driver.version()}: update it, or compile with an"
            " NVRTC that is not newer.",
        ) from None
