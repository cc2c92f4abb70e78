"""Exploration of the inside of blocks: the kernel's CUDA text on the emulated GPU.

The text is compiled for one GPU and run in some blocks with some schedules.  Accesses that no
barrier, wait or fence orders show in nearly every schedule, because the machine compares what
threads know of each other and not what came first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.source import CudaSource
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator.building import watched_library
from tileprof.emulator.driver import EmulationError, Watch, emulate
from tileprof.emulator.findings import RaceFound, Side, Stuck
from tileprof.errors import BuildError, KernelError, MissingDependencyError
from tileprof.runtime.cuda.tensor_maps import fitting

from .explore import Arguments
from .findings import BlockVerdict, Code, Finding, FoundAccess, Schedule, Status

MOST_STEPS = 20_000_000
"""Changes of thread in one run, about 3 s, after which it is given up."""
SECONDS = 10.0
"""Time after which no further schedule of a kernel is begun; the first one always runs."""
MOST_BLOCKS = 3
"""Blocks of a launch that run: the first, one in the middle and the last."""
MOST_BLOCKS_WHOLE = 64
"""Blocks up to which a launch runs as a whole where later launches need what it writes."""
_SYNCHRONIZES = re.compile(
    r"\b(?:tp_barrier\w*|tp_warp_barrier|tp_mbarrier\w*|TP_SHARED_VARIABLE|tp_cluster_\w+)\b"
)
_CODES: Mapping[str, Code] = {
    "race": "shared-memory-race",
    "missing-fence": "missing-fence",
    "early-registers": "early-accumulator",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Choices about how the inside of blocks is explored."""

    target: str = "sm_90a"
    seeds: tuple[int, ...] = (0, 1, 2)
    controls: Controls | None = None
    """Controls of the compiler; those of the kernel that is checked where it has any."""


@dataclass(frozen=True, slots=True)
class Inside:
    """The results for one kernel."""

    findings: tuple[Finding, ...]
    verdicts: tuple[BlockVerdict, ...]
    """One for each launch."""


def explore_inside(kernel: ir.Kernel, arguments: Arguments | None, plan: Plan) -> Inside:
    """Run a kernel's blocks with the plan's schedules; without arguments nothing is explored."""
    launches = len(kernel.launches())
    if arguments is None:
        return _unchecked(plan, launches, "the kernel did not run")
    if any(isinstance(v, np.ndarray) and min(v.strides, default=0) < 0 for v in arguments.values):
        return _unchecked(plan, launches, "an argument has negative strides")
    try:
        source = emitted(kernel, arguments, plan)
    except KernelError as error:
        return _unchecked(plan, launches, error.message)
    return explore_source(source, kernel, arguments, plan)


def explore_source(
    source: CudaSource, kernel: ir.Kernel, arguments: Arguments, plan: Plan
) -> Inside:
    """Run the blocks of an emitted text."""
    run = _Exploration(source, kernel, arguments, plan)
    if all(run.is_trivial(number) for number in range(len(source.launches))):
        return run.result()
    try:
        run.all_seeds()
    except (MissingDependencyError, BuildError) as error:
        return _unchecked(plan, len(source.launches), error.message)
    return run.result()


def _unchecked(plan: Plan, launches: int, reason: str) -> Inside:
    verdict = BlockVerdict(plan.target, "unchecked", "unchecked", reason=reason)
    return Inside((), (verdict,) * launches)


def emitted(kernel: ir.Kernel, arguments: Arguments, plan: Plan) -> CudaSource:
    """Return the text of the variant that a GPU would run on these arguments.

    Raises `KernelError` where the kernel does not fit the GPU.
    """
    target = find_target(plan.target)
    _, source = fitting(
        lambda unaligned: compile_cuda(kernel, target, plan.controls, unaligned).source,
        lambda source: source.launches,
        dict(zip(kernel.symbols, arguments.symbols)),
    )
    return source


class _Exploration:
    """The runs of one text."""

    def __init__(
        self, source: CudaSource, kernel: ir.Kernel, arguments: Arguments, plan: Plan
    ) -> None:
        self._source, self._kernel, self._arguments, self._plan = source, kernel, arguments, plan
        self._functions = [spec.function for spec in source.launches]
        self._blocks: dict[int, tuple[int, ...]] = {}
        self._whole = True
        self._seeds: list[int] = []
        self._findings: dict[object, Finding] = {}
        self._ended: dict[int, str] = {}
        """Launches that were not run to the end, with the reason."""

    def is_trivial(self, number: int) -> bool:
        """Return whether the threads of a launch's blocks share nothing and wait for nothing."""
        shared = self._source.launches[number].shared
        return not shared and not _SYNCHRONIZES.search(self._source.text)

    def all_seeds(self) -> None:
        """Run one schedule after the other while there is time."""
        watched_library(self._source)  # compiled before the time runs
        deadline = time.monotonic() + SECONDS
        for seed in self._plan.seeds:
            if self._seeds and (self._ended or time.monotonic() > deadline):
                return
            self._seeds.append(seed)
            self._run(seed)

    def _run(self, seed: int) -> None:
        watch = Watch()
        numbers = iter(range(len(self._functions)))

        def blocks(total: int) -> Sequence[int]:
            number = next(numbers)
            self._blocks[number] = self._chosen(number, total)
            return self._blocks[number]

        named = dict(zip(self._kernel.symbols, self._arguments.symbols))
        try:
            emulate(
                self._source,
                self._kernel,
                self._arguments.again(),
                named,
                seed=seed,
                blocks=blocks,
                resident=_resident,
                watch=watch,
                steps=MOST_STEPS,
            )
        except EmulationError as error:
            self._add_error(error, seed)
        for function, found in watch.found:
            self._add_race(self._functions.index(function), found, seed)

    def _chosen(self, number: int, total: int) -> tuple[int, ...]:
        is_last = number == len(self._functions) - 1
        if not is_last and total <= MOST_BLOCKS_WHOLE:
            return tuple(range(total))
        chosen = tuple(sorted({0, total // 2, total - 1} & set(range(total))))
        self._whole &= is_last or len(chosen) == total
        return chosen

    def _add_race(self, launch: int, found: RaceFound, seed: int) -> None:
        sides = found.first, found.second
        # Each pair of the author's lines once, however many lines of CUDA they became.
        accesses = frozenset((s.actor, s.way, s.location or s.line) for s in sides)
        key = (launch, found.fault, found.buffer, accesses)
        if key in self._findings:
            return
        index = () if found.fault == "early-registers" else (found.byte,)
        self._findings[key] = Finding(
            _CODES[found.fault],
            self._kernel.name,
            launch,
            found.buffer,
            tuple(_access(side, index) for side in sides),
            schedule=Schedule(self._plan.target, seed),
        )

    def _add_error(self, error: EmulationError, seed: int) -> None:
        launch = self._functions.index(error.function) if error.function else 0
        text = str(error).removeprefix(f"{error.function}: ")
        if error.end == "limit":
            self._ended[launch] = f"a run took more than {MOST_STEPS:,} steps"
            return
        if error.failure is not None:
            self._ended[launch] = "a check of the kernel failed"
            return
        if error.end == "fault" and not self._whole:
            # Some blocks of an earlier launch did not run, and this one may miss what they write.
            self._ended[launch] = f"not all blocks of earlier launches ran; {text}"
            return
        code: Code = "deadlock" if error.end == "deadlock" else "gpu-fault"
        self._ended[launch] = "a run ended at the fault above"
        self._findings[(launch, code)] = Finding(
            code,
            self._kernel.name,
            launch,
            "",
            tuple(map(_wait, error.stuck)),
            text.partition("\n")[0],
            schedule=Schedule(self._plan.target, seed),
        )

    def result(self) -> Inside:
        """Return what was found in all runs."""
        verdicts = []
        for number in range(len(self._functions)):
            if self.is_trivial(number):
                verdicts.append(BlockVerdict(self._plan.target, "proved", "proved"))
                continue
            codes = {each.code for each in self._findings.values() if each.launch == number}
            first_end = min(self._ended, default=len(self._functions))
            missed = number >= first_end
            reason = self._ended[first_end] if missed else ""
            status: Status = "unchecked" if missed else "explored"
            verdict = BlockVerdict(
                self._plan.target,
                "refuted" if codes - {"deadlock"} else status,
                "refuted" if "deadlock" in codes else status,
                self._blocks.get(number, ()),
                tuple(self._seeds),
                reason,
            )
            verdicts.append(verdict)
        return Inside(tuple(self._findings.values()), tuple(verdicts))


def _resident(tiles: int) -> int:
    """Return how many blocks of a persistent launch there are, so that each has few tiles."""
    return max(tiles // MOST_BLOCKS, 1)


def _access(side: Side, index: tuple[int, ...]) -> FoundAccess:
    return FoundAccess(
        side.way,
        side.location,
        index,
        (side.block,),
        actor=side.actor,
        thread=side.thread,
        cuda_line=side.line,
    )


def _wait(stuck: Stuck) -> FoundAccess:
    return FoundAccess(
        "wait",
        stuck.location,
        (),
        (stuck.block,),
        actor="thread",
        thread=stuck.first,
        threads=stuck.threads,
        cuda_line=stuck.line,
        what=stuck.what,
    )
