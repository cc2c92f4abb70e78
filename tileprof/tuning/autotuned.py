"""Functions that choose their tile sizes by themselves: `@tileprof.autotune` above `@tileprof.jit`.

In: a call.  Out: what the function gives with the configuration for the call's shapes.  That comes
from, in this order: the process, the author's table, the cache, a result for near shapes, and a
search, which happens once for new shapes.  In the interpreter, while a CUDA graph is captured, and
with `TILEPROF_TUNE=0`, nothing is searched: the nearest known result, else the defaults, serve.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.bench.arrays import SEED, made_array, moved_array
from tileprof.errors import MissingDependencyError, UsageError
from tileprof.lang import abstract
from tileprof.lang.calls import place, spec_of
from tileprof.lang.compiled import debugging
from tileprof.lang.jit_function import JitFunction, Kernel
from tileprof.lang.static import is_number
from tileprof.lang.tensors import TensorType
from tileprof.once import Kept
from tileprof.runtime import hooks
from tileprof.runtime.arguments import TensorSpec
from tileprof.runtime.selection import choose

from .configurations import Configuration
from .kept import Place, Result, add_to_table, nearest, read_table
from .machine import Machine
from .numbers import MOST_TIMED, NEAR
from .outcomes import Outcome
from .search import Settings, tuned
from .shapes import Shapes, shapes_of
from .shipped import save_tuned
from .space import found_space
from .subjects import Checks, KernelSubject, Tolerances, machine_of

Configurations = Sequence[Configuration] | Callable[..., Any] | None

_SWITCH = "TILEPROF_TUNE"
_MOST_VALUE = 1 << 16
"""Largest value of an argument that a file may choose."""
_inputs: ContextVar[tuple[Any, ...] | None] = ContextVar("tileprof_tuning_inputs", default=None)


@dataclass(frozen=True, slots=True)
class Wishes:
    """Wishes of an author."""

    configurations: Configurations = None
    """None: the tuner proposes."""
    settings: Settings = field(default_factory=Settings)
    checks: Checks = field(default_factory=Checks)
    supply: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    """Makes the arguments of a factory's kernel from the types of its parameters."""
    ignored: frozenset[str] = frozenset()
    """Arguments and extents by which results are not told apart."""
    near: float = NEAR
    """Factor by which extents known at launch may differ for a result to be used."""
    table: Path | None = None
    """File with results that come with the kernel."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Configuration and kernel that a kind of call runs."""

    function: JitFunction
    configuration: Configuration
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values of the tuned arguments."""


class AutotunedFunction(JitFunction):
    """A function under `@tileprof.autotune`; its tunable arguments may be left out."""

    def __init__(self, function: JitFunction, wishes: Wishes) -> None:
        super().__init__(
            function.function, function.out_idx, function._annotations, function._debug,
            function.options,
        )  # fmt: skip
        self.untuned = function
        """The function with its defaults."""
        self.wishes = wishes
        self._by_call: Kept[Any, _Chosen] = Kept()
        self._under: Kept[Configuration, JitFunction] = Kept()
        self.outcomes: list[Outcome] = []
        """Searches of this process, in their order."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run with the configuration for these shapes; a factory gives the kernel of it. Where a
        tunable argument is given, nothing is chosen: the others have their defaults."""
        if abstract.state.calls is not None or self._debug or debugging():
            return self.untuned(*args, **kwargs)
        named = self._named(args, kwargs)
        key = self._call_key(named)
        chosen = self._by_call.get(key)
        if chosen is None:
            chosen = self._by_call.made(key, lambda: self._choose(named))
        held = {**named, **chosen.values}
        full = tuple(held.get(n, d) for n, d in zip(self._names, self._defaults))
        return chosen.function(*full)

    def tune(self, *args: Any, **kwargs: Any) -> Outcome:
        """Search for these arguments now, whatever is known, and keep and return what was found."""
        named = self._named(args, kwargs)
        specs = self._specs(named)
        where, _ = place(list(specs.values()))
        if where == "interpreter":
            raise UsageError(
                "the interpreter defines what a kernel means; its time says nothing",
                hint="Tune on `cpu` or `cuda`: `with tileprof.device(...)`, TILEPROF_DEVICE.",
            )
        found = self._search(named, where, machine_of(where))
        self._by_call.pop(self._call_key(named), None)
        return found

    def results(self, device: str = "") -> list[Result]:
        """Return what the cache has for a device (default: where kernels with host arrays run),
        the newest first."""
        return self._place(machine_of(device or choose([]))).read()

    def save_table(self, path: str | Path, device: str = "") -> None:
        """Add the results for a device to a table, a file that `autotune(table=path)` reads."""
        add_to_table(path, self.results(device))

    def save(self, path: str | Path, targets: Sequence[str] = (), device: str = "") -> None:
        """Write the kernels of all results for a device to one file, compiled for GPUs, which
        `tileprof.tuning.load_tuned` reads; UsageError without a result."""
        held = [(each, self._kernel_of(each)) for each in self.results(device)]
        save_tuned(path, held, targets)

    def _kernel_of(self, result: Result) -> Kernel:
        """Return the kernel of a result, for the types that it was found for."""
        chosen = self._chosen(result.configuration)
        types = {
            each.name: TensorType(each.shape, ir.DTYPES[each.dtype])
            for each in result.shapes.tensors
            if each.name in self._names
        }
        values = {n: v for n, v in result.shapes.values if n in self._names}
        return chosen.function.compile(**{**types, **values, **chosen.values})

    def _compile(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Kernel:
        # Compiling measures nothing: what compiles kernels to look at them gets the defaults, and
        # where an argument has none, the author's first configuration.
        named = {**dict(zip(self._names, args)), **kwargs}
        first = self._default(named).named
        defaults = dict(zip(self._names, self._defaults))
        lacking = {n: v for n, v in first.items() if n not in named and defaults.get(n) is None}
        return self.untuned.compile(*args, **{**lacking, **kwargs})

    # -- calls

    def _named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        named = dict(zip(self._names, args))
        if len(args) > len(self._names) or not kwargs.keys() <= {*self._names} - named.keys():
            self._bound(args, kwargs)  # says what is wrong
        return named | dict(kwargs)

    def _call_key(self, named: Mapping[str, Any]) -> Any:
        parts: list[Any] = []
        specs: list[TensorSpec] = []
        for name, value in named.items():
            spec = None if is_number(value) else spec_of(value, name, self)
            if spec is not None:
                specs.append(spec)
                parts.append((name, id(spec)))
            elif name not in self._scalars:
                parts.append((name, type(value), value))
        return place(specs)[0], self._dependencies(), tuple(parts)

    def _specs(self, named: Mapping[str, Any]) -> dict[str, TensorSpec]:
        held = {n: None if is_number(v) else spec_of(v, n, self) for n, v in named.items()}
        return {n: s for n, s in held.items() if s is not None}

    # -- choice

    def _choose(self, named: Mapping[str, Any]) -> _Chosen:
        if self._sets_tunables(named):
            return _Chosen(self.untuned, Configuration())
        specs = self._specs(named)
        where, _ = place(list(specs.values()))
        machine = machine_of(where)
        configuration = self._known(named, machine)
        if configuration is None:
            if where == "interpreter" or not _is_allowed():
                configuration = self._default(named)
            else:
                configuration = self._search(named, where, machine).winner.configuration
        return self._chosen(configuration)

    def _sets_tunables(self, named: Mapping[str, Any]) -> bool:
        """Return whether a call sets an argument that would be tuned."""
        if listed := self.listed(named):
            return not listed[0].named.keys().isdisjoint(named)
        defaults = dict(zip(self._names, self._defaults))
        suspects = {n for n, v in named.items() if type(v) is int and type(defaults[n]) is int}
        if not suspects:
            return False
        rest = {n: v for n, v in named.items() if n not in suspects}
        try:
            found = found_space(
                self.signature,
                rest,
                lambda values: self._kernel({**named, **values}).variant.traced,
                on_gpu=True,
            )
        except UsageError:
            return False
        return not suspects.isdisjoint(t.name for t in found.tunables)

    def _chosen(self, configuration: Configuration) -> _Chosen:
        if not configuration.controls:
            return _Chosen(self.untuned, configuration, configuration.named)

        def make() -> JitFunction:
            return self.untuned.under(configuration.over(self.options.controls))

        key = Configuration((), configuration.controls)
        return _Chosen(self._under.made(key, make), configuration, configuration.named)

    def _known(self, named: Mapping[str, Any], machine: Machine) -> Configuration | None:
        """Return the configuration of a result for these shapes or near ones; None without one."""
        shapes = self._shapes(named)
        near = math.inf if not _is_allowed() else self.wishes.near
        table = self.wishes.table
        listed = read_table(table) if table is not None and table.exists() else []
        mine = [r for r in listed if (r.kernel, r.device) == (self.__name__, machine.name)]
        for results in (mine, self._place(machine).read()):
            fitting = [r for r in results if self._fits(r)]
            if (found := nearest(fitting, shapes, near)) is not None:
                return found.configuration
        return None

    def _fits(self, result: Result) -> bool:
        """Return whether a result may be believed: it is one of the author's configurations; or,
        without these, it gives whole numbers to arguments that have such a default."""
        listed = self.wishes.configurations
        if isinstance(listed, Sequence):
            return result.configuration in listed
        defaults = dict(zip(self._names, self._defaults))
        named = result.configuration.named
        if callable(listed):
            return named.keys() <= defaults.keys()
        return all(
            type(defaults.get(name)) is int and type(value) is int and 0 < value <= _MOST_VALUE
            for name, value in named.items()
        )

    def _place(self, machine: Machine) -> Place:
        return Place.of(self.__name__, self.source.text, machine)

    def _default(self, named: Mapping[str, Any]) -> Configuration:
        """Return the author's first configuration for a call; an empty one where none is listed."""
        listed = self.listed(named)
        return listed[0] if listed else Configuration()

    def listed(self, named: Mapping[str, Any]) -> tuple[Configuration, ...]:
        """Return the author's configurations for a call; none where the tuner proposes."""
        given = self.wishes.configurations
        if callable(given):
            given = listed_configurations(given(**_taken(given, named)))
        return tuple(given or ())

    def _shapes(self, named: Mapping[str, Any]) -> Shapes:
        """Return the shapes of a call, from the kernel with its default configuration."""
        kernel = self._default_kernel(named)
        symbols = _symbols(kernel.traced, self._specs(named))
        static = {n: v for n, v in named.items() if n not in self._scalars}
        return shapes_of(kernel.traced, static, symbols, self.wishes.ignored)

    def _extents(self, named: Mapping[str, Any]) -> dict[str, int]:
        """Return the extents of a call that are known at launch."""
        return _symbols(self._default_kernel(named).traced, self._specs(named))

    def _default_kernel(self, named: Mapping[str, Any]) -> Kernel:
        return self._kernel({**named, **self._default(named).named})

    def _kernel(self, values: Mapping[str, Any]) -> Kernel:
        """Return the traced kernel of a call, extents that are known at launch left open."""
        if self.lazy:
            return self.untuned._factory((), dict(values))
        return self.untuned.compile(**values)

    # -- search

    def _search(self, named: Mapping[str, Any], where: str, machine: Machine) -> Outcome:
        listed = self.listed(named)
        subject = KernelSubject(
            self.untuned, named, lambda kernel: self._arguments(kernel, named, where), where,
            machine, listed, self.wishes.checks, self._extents(named),
        )  # fmt: skip
        with _scope(f"tune {self.__name__}"):
            found = tuned(subject, self.wishes.settings, around=lambda c: _scope(str(c)))
        self.outcomes.append(found)
        if found.timed:
            self._place(machine).write(Result.of(found, self._shapes(named)))
        return found

    def _arguments(self, kernel: Kernel, named: Mapping[str, Any], where: str) -> list[Any]:
        """Return the arguments for a kernel's calls: the caller's own, else those that the author
        supplies, else random ones."""
        given = _inputs.get()
        if given is None and self.wishes.supply is not None:
            params = {p.name: p for p in kernel.traced.params}
            given = tuple(self.wishes.supply([params[name].type for name in kernel.arguments]))
        if given is not None:
            return list(given)
        types = {p.name: p.type for p in kernel.traced.params}
        random = np.random.default_rng(SEED)
        made = []
        for name in kernel.arguments:
            if name in named:
                made.append(_moved(named[name], types[name], where))
                continue
            kind = types[name]
            if not isinstance(kind, ir.BufferType) or not all(
                isinstance(extent, int) for extent in kind.shape
            ):
                raise UsageError(
                    f"`{self.__name__}` cannot be tuned: nothing says what `{name}` is",
                    location=self.location,
                    hint="Give arguments: `supply_prog=` of `autotune`, or "
                    "`with tileprof.tuning.set_autotune_inputs(...)`.",
                )
            made.append(made_array(kind.static_shape, kind.dtype, where, random))
        return made


def _moved(value: Any, kind: Any, where: str) -> Any:
    """Return an argument where it is timed: host arrays that a GPU is to read are copied there,
    unless PyTorch is missing."""
    is_array = isinstance(value, np.ndarray) and isinstance(kind, ir.BufferType)
    if not where.startswith("cuda") or not is_array:
        return value
    try:
        return moved_array(value, where)
    except MissingDependencyError:
        return value


def _symbols(kernel: ir.Kernel, specs: Mapping[str, TensorSpec]) -> dict[str, int]:
    """Return the values of extents that are known at launch, from the arguments' shapes."""
    found: dict[str, int] = {}
    for param in kernel.params:
        spec = specs.get(param.name)
        if spec is not None and isinstance(param.type, ir.BufferType):
            pairs = zip(param.type.shape, spec.shape)
            found |= {d: n for d, n in pairs if isinstance(d, str)}
    return found


def _is_allowed() -> bool:
    """Return whether a search may happen now."""
    if os.environ.get(_SWITCH, "") == "0":
        return False
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return not torch.cuda.is_current_stream_capturing()
    return True


def _scope(name: str) -> Any:
    """Return the scope of a recording; nothing while none is made."""
    if hooks.listener is None:
        return nullcontext()
    from tileprof.profiler import scope

    return scope(name)


def _taken(function: Callable[..., Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a function takes of those that are given."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return dict(named)
    return {n: v for n, v in named.items() if n in parameters}


def listed_configurations(given: Any) -> tuple[Configuration, ...]:
    """Return an author's configurations: a list of dicts, or one dict of lists, all combinations of
    which count; UsageError for anything else."""
    if isinstance(given, Mapping):
        lists = [v if isinstance(v, list | tuple) else [v] for v in given.values()]
        given = [dict(zip(given, values)) for values in product(*lists)]
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise UsageError(
            f"configurations cannot be {given!r:.60}",
            hint='They are a list of dicts, as [{"block_M": 64}, {"block_M": 128}], a dict of '
            "lists, or a function that gives one.",
        )
    return tuple(
        each if isinstance(each, Configuration) else Configuration.from_json(each) for each in given
    )


@contextmanager
def set_autotune_inputs(*arguments: Any) -> Iterator[None]:
    """Time kernels that are tuned inside with these arguments, in the order of their calls."""
    held = (
        arguments[0]
        if len(arguments) == 1 and isinstance(arguments[0], list | tuple)
        else arguments
    )
    token = _inputs.set(tuple(held))
    try:
        yield
    finally:
        _inputs.reset(token)


def autotune(
    function: Any = None,
    *,
    configs: Any = None,
    timed: int | None = None,
    seconds: float | None = None,
    table: str | Path | None = None,
    near: float = NEAR,
    warmup: int | None = None,
    rep: int | None = None,
    timeout: float | None = None,
    supply_type: Any = None,
    ref_prog: Callable[..., Any] | None = None,
    supply_prog: Callable[..., Any] | None = None,
    rtol: float = 1e-2,
    atol: float = 1e-2,
    max_mismatched_ratio: float = 0.01,
    skip_check: bool = False,
    manual_check_prog: Callable[..., Any] | None = None,
    cache_input_tensors: bool = True,
    do_not_specialize: Sequence[str] | None = None,
) -> Any:
    """Choose the tunable arguments of a `@tileprof.jit` function for the shapes of each call.

    The decorator stands above `@tileprof.jit`. The first call for new shapes searches; later calls
    with the same or similar shapes use the result.

    - `configs`: the candidates: a list of dicts of arguments (with lowering controls under
      `controls`), a dict of lists, or a function of the call's arguments that returns either. None
      (default): the tuner proposes candidates.
    - `timed`, `seconds`: limits of the search: number of timed configurations, and time in s.
    - `table`: file of results that `tileprof tune --table` wrote.
    - `near`: factor by which extents known at launch may differ from those of a stored result.

    TileLang's keywords have TileLang's meaning. `ref_prog`, `rtol`, `atol`, `max_mismatched_ratio`,
    `skip_check` and `manual_check_prog` set how results are checked; without a reference, they are
    compared with those of the default configuration. `supply_prog` creates the arguments of a
    factory's kernel, `do_not_specialize` names arguments that make no difference, and `timeout` is
    a limit in s. `warmup` and `rep` are accepted and ignored, because the number of runs follows
    from the certainty of the result.
    """
    del warmup, rep, supply_type, cache_input_tensors
    limit = seconds if seconds is not None else timeout
    settings = Settings(
        timed=MOST_TIMED if timed is None else timed,
        seconds=math.inf if limit is None else limit,
    )
    own: Any = manual_check_prog
    checks = Checks(Tolerances(rtol, atol, max_mismatched_ratio), ref_prog, own, skip_check)
    given = configs if configs is None or callable(configs) else listed_configurations(configs)
    wishes = Wishes(
        given, settings, checks, supply_prog, frozenset(do_not_specialize or ()), near,
        None if table is None else Path(table),
    )  # fmt: skip

    def wrap(held: Any) -> AutotunedFunction:
        if not isinstance(held, JitFunction) or isinstance(held, AutotunedFunction):
            raise UsageError(
                f"`tileprof.autotune` of {held!r:.60}",
                hint="Put it above `@tileprof.jit`.",
            )
        return AutotunedFunction(held, wishes)

    return wrap if function is None else wrap(function)
