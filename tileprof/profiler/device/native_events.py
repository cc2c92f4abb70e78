"""Numbers of the native recorder, added to the nodes of a recording's tree.

In: contexts with host times of operations and calls, totals of devices.  Out: numbers at nodes;
`collect` adds what is new. The recorder in Python asks `inside` and `here` where a scope or a
launch of ours happens within an operation, which only the native side knows.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, ModuleType

from tileprof.errors import Location
from tileprof.profile import CounterSeries, KernelInfo, LaunchVariant, PcSamples
from tileprof.profile.metrics import BYTES_AT, FLOPS_AT
from tileprof.profiler.counters.reading import CounterReading
from tileprof.profiler.device import nvtx
from tileprof.profiler.device.activities import Activities
from tileprof.profiler.device.gpu import Gpu, has_gpu
from tileprof.profiler.device.memory import read_memory
from tileprof.profiler.device.timeline import Part, host_part
from tileprof.profiler.frameworks import allocator, observer, training_facts
from tileprof.profiler.frameworks.jax_programs import programs
from tileprof.profiler.frameworks.triton_work import TritonWork
from tileprof.profiler.native import native_recorder, why_not
from tileprof.profiler.pcs.attribution import Modules, attribute, attribute_counts
from tileprof.profiler.pcs.held_cubins import held_texts
from tileprof.profiler.pcs.kernel_samples import below
from tileprof.profiler.pcs.listings import with_code
from tileprof.profiler.pcs.options import PcOptions
from tileprof.profiler.pcs.raw import RawCounts, RawPcSamples
from tileprof.profiler.pcs.texts import with_texts
from tileprof.profiler.symbols.native_code import NativeCode
from tileprof.profiler.tree.contexts import Contexts
from tileprof.profiler.tree.sampled_nodes import Trail
from tileprof.profiler.tree.totals import DeviceTotals, HostTotals, MemoryTotals
from tileprof.profiler.tree.tree import Node, Tree
from tileprof.runtime import hooks

_recordings = 0


class Events:
    """The native side of one recording; there is one recording at a time."""

    def __init__(
        self,
        native: ModuleType,
        tree: Tree,
        scope_variable: object,
        kernels: list[KernelInfo],
        kernel_of: dict[int, int],
    ) -> None:
        global _recordings
        _recordings += 1
        self._native = native
        self._tree = tree
        native.set_scope_variable(scope_variable, _recordings)
        self._contexts = Contexts(native, tree, _recordings)
        self.trail = Trail()
        """Recent nodes of the main thread; kept while GPUs are recorded."""
        self._activities = Activities(native, tree, self._contexts, self.trail, kernels, kernel_of)
        self._counted = CounterReading(native, tree, self._contexts, kernels, kernel_of)
        native.memory_begin_recording()
        self.gpu = Gpu(native)
        self.native_code = NativeCode(native)
        """Functions behind the native frames that were recorded."""
        hooks.set_unrecorded = native.set_unrecorded
        nvtx.enable()
        self._settled = False
        self._modules = Modules()
        self._pc_raw: RawPcSamples | RawCounts | None = None
        self.timeline = 0
        """Number of single events that are kept, of devices and of the host each."""
        self._triton: TritonWork | None = None
        self.inside = native.inside
        """Whether the calling thread is in an operation that is inside the innermost scope."""
        self.claimed = native.claimed
        """Host time that operations took, in ns by thread, cumulative."""
        self.enter_kernel = native.enter_kernel
        """Says which node what the thread does belongs to; returns what `leave` wants."""
        self.leave = native.leave
        self.trace_scope = native.trace_scope
        """Puts a visit of a scope on the timeline, by the index of its node."""

    def begin(
        self,
        epoch: int,
        frames: bool,
        operations: bool,
        backward_ops: bool,
        native: bool = False,
        sampling: PcOptions | None = None,
        memory: bool = False,
    ) -> None:
        """Record from here on, under a number; `operations`: also those of frameworks.

        With `backward_ops` also those inside nodes of their backward passes; with `native` also
        the native frames that lead to calls of the driver; with `sampling` also where warps of GPUs
        are; with `memory` also what frameworks' allocators hand out.
        """
        self._native.set_frames(frames)
        self._native.set_native(native)
        self.gpu.begin(sampling)
        self._triton = self._triton or TritonWork(self._native)
        self._triton.pause(False)
        programs.attach()
        if operations:
            observer.attach(backward_ops=backward_ops)
        else:
            observer.detach()
        if memory:
            allocator.attach()
        # Last: an observer may have been compiled, which is no part of the program.
        self._native.set_epoch(epoch)

    @property
    def files(self) -> list[str]:
        """Files of what launched kernels of other compilers, as far as these tell."""
        return self._triton.files if self._triton is not None else []

    @property
    def launches(self) -> tuple[LaunchVariant, ...]:
        """Arguments of launches of other compilers' kernels, as far as these tell."""
        return self._triton.launches if self._triton is not None else ()

    def end(self) -> None:
        """Record nothing until `begin`."""
        if self._triton is not None:
            self._triton.pause(True)
        observer.pause()
        self.gpu.pause()
        self._native.set_epoch(0)

    def close(self) -> None:
        """End the recording."""
        self.end()
        self.gpu.end()
        self.limit_timeline(0)
        observer.detach()
        allocator.detach()
        if self._triton is not None:
            self._triton.stop()
            self._triton = None
        programs.detach()

    def limit_timeline(self, most: int) -> None:
        """Keep so many single events of devices, and as many of the host; 0: none."""
        self.timeline = most
        self._native.host_limit_timeline(most)
        self.gpu.limit_timeline(most)

    def facts(self) -> dict[str, str]:
        """Return what provenance tells of what was recorded, and what was not."""
        framework, driver = read_memory(self._native)
        used = [*framework.facts("PyTorch's allocator"), *driver.facts("the driver")]
        missed = allocator.why_not()
        return {
            **self.gpu.facts(),
            **observer.facts(),
            **self.native_code.facts(),
            **training_facts.facts(),
            **({"device memory": "; ".join(used)} if used else {}),
            **({"allocations not recorded": missed} if missed else {}),
        }

    def memory(self) -> dict[int, dict[int, MemoryTotals]]:
        """Return what was allocated until now, by epoch and by index of the node."""
        found: dict[int, dict[int, MemoryTotals]] = {}
        for state in read_memory(self._native):
            for epoch, nodes in state.by_epoch(self._tree, self._contexts).items():
                for index, totals in nodes.items():
                    found.setdefault(epoch, {}).setdefault(index, MemoryTotals()).take(totals)
        return found

    def memory_series(self, begin: int) -> tuple[CounterSeries, ...]:
        """Return devices' memory over time from a time on, in ns on the clock of timelines."""
        framework, driver = read_memory(self._native)
        return (
            *framework.series(begin, ("memory allocated", "memory reserved")),
            *driver.series(begin, ("memory from the driver",)),
        )

    def end_step(self) -> None:
        """Note that a step of the program ends, for the growth of memory."""
        self._native.memory_end_step()

    def pc_samples(self) -> PcSamples | None:
        """Return where warps were seen until now, by the tree's nodes, or how often instructions
        were executed; None if nobody asked."""
        readable = self._native.demangled
        self._pc_raw = sampled = self.gpu.pcs.samples()
        if sampled is not None:
            return attribute(sampled, self._modules, readable, self._launched)
        self._pc_raw = counted = self.gpu.instructions.counts()
        return None if counted is None else attribute_counts(counted, self._modules, readable)

    def with_code(self, samples: PcSamples) -> PcSamples:
        """Return the last of these samples with the code and texts of their functions."""
        if self._pc_raw is None:
            return samples
        cubins = self._modules.cubins(self._pc_raw)
        return with_texts(with_code(samples, cubins, self._native.demangled), held_texts)

    def functions_of(self, node: Node) -> tuple[str, ...]:
        """Return the CUDA functions whose work is at a kernel's node."""
        return self._activities.functions_of(node)

    def _launched(self, context: int, function: str) -> int:
        return below(self._contexts.node(context), function, self.functions_of).index

    def set_base(self, frame: FrameType | None) -> None:
        """Name the frame that runs the user's program, in the thread that calls this."""
        self._native.set_base(frame)

    def split_open(self, count: bool) -> None:
        """Let what is open in the calling thread begin anew.

        With `count`, the time until now is counted at it; without, at nothing.
        """
        self._native.split_open(count)

    def here(self) -> Node:
        """Return the node of the calling thread's path."""
        return self._contexts.node(self._native.here())

    def below(self, name: str, location: Location | None) -> Node:
        """Return the node of a scope that is opened now."""
        return self._tree.child(self.here(), "scope", name, location)

    def sampled(self, frame: FrameType, thread: int, scope: object) -> Node | None:
        """Return the node of a thread's frame if it is in a range inside that scope, else None."""
        context = self._native.sampled(frame, thread, 0 if scope is None else id(scope))
        return self._contexts.node(context) if context else None

    def collect(
        self,
        keys: Callable[[Iterable[int]], dict[int, int]],
        kept: dict[int, HostTotals] | None = None,
    ) -> Iterator[tuple[int, Node, DeviceTotals]]:
        """Add what the host did since the last time to the nodes; hand out what devices did.

        `keys` numbers threads by their identities. With `kept`, what the host did in scopes is
        added there, by index of the node.
        """
        parts = self._contexts.host_parts()
        numbers = keys({ident for part in parts for ident in part.threads})
        for part in parts:
            host = part.node.host
            if kept is not None and part.node.kind == "scope":
                host = kept.setdefault(part.node.index, HostTotals())
            # Launches of ours are counted where they are made.
            host.count += part.count if part.node.kind != "kernel" else 0
            host.own_ns += part.own_ns
            host.claimed_ns += part.claimed_ns
            for ident, (events, ns) in part.threads.items():
                host.add_thread(numbers[ident], events, ns)
            told = {"flops": part.flops, "bytes": part.bytes, **part.sampled._asdict()}
            for least, (flops, moved) in part.kinds.items():
                told |= {f"{FLOPS_AT}{least}": flops, f"{BYTES_AT}{least}": moved}
            for metric, value in told.items():
                if value:
                    host.add(metric, value)
        counted = self._counted.drain(self.gpu.counters)
        # Once: what comes after it may have to be put in order again.
        settle, self._settled = self._settled, False
        return itertools.chain(self._activities.drain(settle), counted)

    def traced(self) -> Iterator[Part]:
        """Hand over single events of the host, and those of devices that `collect` has taken."""
        yield self.traced_host()
        yield self._activities.traced()

    def traced_host(self) -> Part:
        """Hand over single events of the host."""
        return host_part(self._native.host_drain(), self._contexts)

    def flush(self, final: bool) -> None:
        """Have devices' records handed over for the next `collect`: `final`, all that there are.

        A flush that another thread asks for between the final one and `collect` changes nothing.
        """
        self.gpu.flush(force=final)
        self._settled = self._settled or final

    def after_fork(self) -> None:
        """Forget, in a forked child, what the parent measured."""
        self._native.after_fork()
        self._contexts.skip()
        self.gpu.after_fork()


def missing(sampling: bool) -> dict[str, str]:
    """Return what provenance tells where the native side is missed: PyTorch or a GPU is there.

    `sampling`: samples of program counters were asked for.
    """
    if sampling:
        return {"pc sampling failed": f"the native recorder is missing: {why_not()}"}
    missed = has_gpu() or "torch" in sys.modules
    return {"native recorder": why_not()} if missed and why_not() else {}


def native_events(
    tree: Tree, scope_variable: object, kernels: list[KernelInfo], kernel_of: dict[int, int]
) -> Events | None:
    """Return the native side for a tree and its kernels, None where it is not installed."""
    native = native_recorder()
    return Events(native, tree, scope_variable, kernels, kernel_of) if native is not None else None
