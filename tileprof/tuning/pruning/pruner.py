"""`tileprof.triton_pruner`: one line above `@triton.autotune`, and few configurations are timed.

In: an autotuner of Triton, then its calls.  Out: for each key that it tunes the configurations that
it times; `TritonPruner.outcomes` says why.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, overload

from tileprof.errors import ArgumentError
from tileprof.remarks.pruning import KeptUnranked, OtherTarget, TunerNotKnown
from tileprof.remarks.statement import Reason
from tileprof.tuning.machine import Gpu

from .configured import Configured, NotKnown, Resources
from .programs import Call, Program, Refused, compiles_in_threads, current_target, program_of
from .ranking import Ranked, ranked, refusal

_MOST_OUTCOMES = 256
"""Outcomes that one pruner keeps, the newest."""
_log = logging.getLogger("tileprof")


@dataclass(frozen=True)
class Pruned:
    """Outcome for a list of configurations and the arguments of one call."""

    kernel: str
    configurations: tuple[Ranked, ...]
    """Configurations in the author's order."""
    seconds: float
    """Time that it took."""
    compiled: int = 0
    """Configurations whose machine code was made."""
    why_all: Reason | None = None
    """Why all configurations are kept; None where the model knows the kernel."""

    @property
    def kept(self) -> tuple[int, ...]:
        """Positions of those that are kept, the best by the model first."""
        found = [at for at, each in enumerate(self.configurations) if each.kept]
        return tuple(sorted(found, key=lambda at: (self.configurations[at].place < 0,
                                                   self.configurations[at].place)))  # fmt: skip

    def __str__(self) -> str:
        kept, most = len(self.kept), len(self.configurations)
        if self.why_all is not None:
            return f"{self.kernel}: all {most} configurations are kept: {self.why_all}"
        head = (
            f"{self.kernel}: {kept} of {most} configurations are kept; "
            f"{self.compiled} compiled in {self.seconds:.1f} s"
        )
        order = sorted(
            self.configurations, key=lambda e: (e.place < 0, e.place, e.name)
        )  # fmt: skip
        lines = [f"  {_time(each)}  {each.name}: {each.decision}" for each in order]
        return "\n".join([head, *lines])


class TritonPruner:
    """Keeps the configurations of a list that the model of tiles expects to be the fastest."""

    def __init__(
        self, keep: int | None = None, *, machine: Gpu | None = None, compile: bool = True
    ) -> None:
        if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
            raise ArgumentError(
                f"triton_pruner: keep is {keep!r}, not a whole number above 0",
                hint="Leave it out to keep a sixth of each list, at least 2.",
            )
        self.keep = keep
        self.outcomes: list[Pruned] = []
        """Outcomes in this process, the newest last."""
        self._machine = machine
        self._compile = compile
        self._warned: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    @overload
    def __call__(self, tuner: Any, /) -> Any: ...
    @overload
    def __call__(
        self, configs: Sequence[Any], named_args: Mapping[str, Any], /, **keywords: Any
    ) -> list[Any]: ...

    def __call__(self, first: Any, named: Any = None, /, **keywords: Any) -> Any:
        """Prune an autotuner's configurations; as `early_config_prune`, those of one call."""
        if named is None:
            return self._attached(first)
        tuner = _caller_tuner(self)
        function = None if tuner is None else tuner.fn
        return self.kept(function, list(first), {**named, **keywords})

    def _attached(self, tuner: Any) -> Any:
        if not (hasattr(tuner, "prune_configs") and hasattr(tuner, "configs")):
            raise ArgumentError(
                f"triton_pruner: {type(tuner).__name__} is not an autotuner of Triton",
                hint="Write @tileprof.triton_pruner() above @triton.autotune(…).",
            )
        tuner.early_config_prune = _Attached(self, tuner.fn, tuner.early_config_prune)
        return tuner

    def kept(self, function: Any, configs: list[Any], named: Mapping[str, Any]) -> list[Any]:
        """Return the configurations that are kept for the arguments of a call, by name.

        `named` has the call's `grid` as well.  What was found is added to `outcomes`.
        """
        if len(configs) < 2:
            return configs
        outcome = self.ranked(function, configs, named)
        with self._lock:
            self.outcomes.append(outcome)
            del self.outcomes[:-_MOST_OUTCOMES]
        if outcome.why_all is not None:
            self._warn(outcome)
        return [configs[at] for at in outcome.kept]

    def ranked(
        self,
        function: Any,
        configs: Sequence[Any],
        named: Mapping[str, Any],
        target: Any = None,
    ) -> Pruned:
        """Rank configurations for the arguments of a call, by name, with its `grid`.

        `target`: a `GPUTarget` of Triton; without it that of the device at hand.
        """
        began = time.perf_counter()
        name = getattr(getattr(function, "base_fn", function), "__name__", "kernel")
        try:
            if function is None:
                raise NotKnown(TunerNotKnown())
            call = Call(function, dict(named), named.get("grid"), target or current_target())
            made = _Made(call, configs, self._machine or _machine(call.target))
            order = made.ranked(self.keep, compiles=self._compile)
        except NotKnown as error:
            everything = tuple(Ranked(name_of(each), True, KeptUnranked(why=error.reason))
                               for each in configs)  # fmt: skip
            return Pruned(name, everything, time.perf_counter() - began, 0, error.reason)
        return Pruned(name, order, time.perf_counter() - began, made.compiled, made.why_all(order))

    def _warn(self, outcome: Pruned) -> None:
        assert outcome.why_all is not None
        key = outcome.kernel, outcome.why_all.code()
        with self._lock:
            new = key not in self._warned
            self._warned.add(key)
        if new:
            _log.warning("triton_pruner: %s", outcome)


@dataclass(frozen=True)
class _Attached:
    """A pruner as `early_config_prune` of one autotuner, behind the author's own."""

    pruner: TritonPruner
    function: Any
    before: Any

    def __call__(self, configs: Any, named: Any, **keywords: Any) -> list[Any]:
        if self.before is not None:
            configs = self.before(configs, named, **keywords)
        return self.pruner.kept(self.function, list(configs), {**named, **keywords})


def has_pruner(tuner: Any) -> bool:
    """Return whether an autotuner of Triton has a pruner of ours."""
    return isinstance(getattr(tuner, "early_config_prune", None), TritonPruner | _Attached)


def triton_pruner(keep: int | None = None) -> TritonPruner:
    """Let Triton's autotuner time the few configurations that a model expects to be fastest.

        @tileprof.triton_pruner()
        @triton.autotune(configs=[…], key=["M", "N", "K"])
        @triton.jit
        def kernel(…): …

    `keep`: how many of a list; without it a sixth, at least 2.  Where the model does not know a
    kernel, all are kept, with a warning of the logger `tileprof` that says why.
    """
    return TritonPruner(keep)


def name_of(config: Any) -> str:
    """Return a configuration in a line, without what it leaves to Triton."""
    given = config.all_kwargs()
    left = {"num_ctas": 1, "maxnreg": None, "ir_override": None, "pre_hook": None}
    return " ".join(
        f"{name}={value}"
        for name, value in given.items()
        if name not in left or left[name] != value
    )


class _Made:
    """Programs of a list's configurations, and their machine code."""

    def __init__(self, call: Call, configs: Sequence[Any], machine: Gpu) -> None:
        self.call, self.machine = call, machine
        self.names = [name_of(each) for each in configs]
        self.values = [
            {name: float(n) for name, n in each.all_kwargs().items() if isinstance(n, int | float)}
            for each in configs
        ]
        self.programs: dict[int, Program] = {}
        self.refused: dict[int, Reason] = {}
        self.unknown: dict[int, Reason] = {}
        self.compiled = 0
        for at, config in enumerate(configs):
            try:
                self.programs[at] = program_of(call, config)
            except Refused as error:
                self.refused[at] = refusal(str(error))
            except NotKnown as error:
                self.unknown[at] = error.reason

    def ranked(self, keep: int | None, *, compiles: bool) -> tuple[Ranked, ...]:
        given: dict[int, Configured] = {at: p.configured for at, p in self.programs.items()}
        return ranked(
            self.names, self.values, given, self.refused, self.unknown, self.machine,
            self._compiled if compiles else None, keep,
        )  # fmt: skip

    def _compiled(self, wanted: Sequence[int]) -> list[Resources | Reason | NotKnown]:
        self.compiled += len(wanted)
        # Most of the time Triton's compiler does not hold the interpreter's lock.
        workers = min(len(wanted), os.cpu_count() or 1) if compiles_in_threads() else 1
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(self._compiled_one, wanted))

    def _compiled_one(self, at: int) -> Resources | Reason | NotKnown:
        try:
            return self.programs[at].compiled(self.call.target)
        except Refused as error:
            return refusal(str(error))
        except NotKnown as error:
            return error

    def why_all(self, order: Sequence[Ranked]) -> Reason | None:
        """Return why all configurations are kept, where the model has an opinion about none."""
        reasons = [each.decision.why for each in order if isinstance(each.decision, KeptUnranked)]
        return reasons[0] if len(reasons) == len(order) else None


def _machine(target: Any) -> Gpu:
    """Return what the model knows of a target's device.  Raises `NotKnown`."""
    from tileprof.errors import TileprofError
    from tileprof.tuning.subjects import machine_of

    if target.backend != "cuda":
        raise NotKnown(OtherTarget(target=f"{target.backend} {target.arch}"))
    name = f"sm_{target.arch}" + ("a" if int(target.arch) >= 90 else "")
    try:
        number = _device_number()
        machine = machine_of("", name) if number is None else machine_of(f"cuda:{number}")
    except TileprofError as error:
        raise NotKnown(OtherTarget(target=f"{name} ({error.message})")) from error
    if not isinstance(machine, Gpu):
        raise NotKnown(OtherTarget(target=name))
    return machine


def _device_number() -> int | None:
    """Return the number of the device that Triton launches on; None without one."""
    try:
        from triton.runtime.driver import driver

        return int(driver.active.get_current_device())
    except Exception:  # Triton without a device raises RuntimeError and others
        return None


def _caller_tuner(pruner: TritonPruner) -> Any:
    """Return the autotuner that calls a pruner as its `early_config_prune`; None where it is none.

    Triton hands its function's arguments over, but not the function.
    """
    frame = sys._getframe(2)
    tuner = frame.f_locals.get("self")
    return tuner if getattr(tuner, "early_config_prune", None) is pruner else None


def _time(each: Ranked) -> str:
    if each.model is None or each.model.ns == float("inf"):
        return "        –"
    return f"{each.model.ns / 1e3:>6.1f} µs"
