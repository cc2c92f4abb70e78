"""Frames of libraries that only pass a call on, left out of a tree so that it soon reaches kernels.

In: a profile, and which frames are wanted.  Out: the profile without the others, whose values are
at the nodes above them, so that all totals stay.

Of installed files the forward passes of modules remain: they are what a model is made of. All their
lines are one node, named after the class. Before that stands the name by which the module around
calls it, `mlp: GPT2MLP`, where a recording has it (`profiler/tree/module_names.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from tileprof.errors import Location, UsageError
from tileprof.profile.installed import is_installed
from tileprof.profile.node_names import CALL_SUFFIX, LAYER_SUFFIX, MODULE_CALLER, MODULE_FILE
from tileprof.profile.transform.operations import leave_out, regular, with_values
from tileprof.profile.transform.xla import is_pass, ways_into_graphs, with_trials_apart
from tileprof.profile.tree.forest import Nodes
from tileprof.profile.tree.model import Profile
from tileprof.profile.tree.symbol import Symbol

Frames = Literal["user", "library", "all"]
"""Those of the user's files and modules of libraries; those that do some work; all."""

_FORWARD = re.compile(r"(?:.*[.>])?([^.<>]+)\.forward(?: ×\d+)?$")
_XLA = re.compile(r"(\w+):#(.*)#")
"""Name of a range of XLA with its attributes, as of JAX 0.8 and before, 2026-11."""
_ATTRIBUTE = re.compile(r"(?:^|,)(\w+)=(.*?)(?=,\w+=|$)")
_CONTAINER = re.compile(r"torch[/\\]nn[/\\]modules[/\\]container\.py$")
"""Modules that only call those in them."""
_PACKAGE = re.compile(r".*[/\\](?:site|dist)-packages[/\\][^/\\]+[/\\]")
_LAUNCH = re.compile(r"cu(da)?Launch")
"""Calls of the driver that stand between an operation and its kernels."""
_PASSED_ON: tuple[tuple[str, str], ...] = (
    (r"torch/nn/modules/module\.py", r"_wrapped_call_impl|_call_impl|inner|__call__|__layer__"),
    (r"torch/nn/modules/container\.py", r"forward"),
    (r"torch/(_tensor|autograd/(__init__|graph|function))\.py", r".*"),
    (r"torch/(overrides|_ops|_jit_internal|_compile)\.py", r".*"),
    (r"torch/utils/(_contextlib|_device|hooks)\.py", r".*"),
    (r"torch/optim/optimizer\.py", r"profile_hook_step|wrapper|_use_grad"),
    (r"torch/(_dynamo/(eval_frame|external_utils)|_inductor/(output_code|utils))\.py", r".*"),
    (r"torch/_functorch/(_aot_autograd/.*|aot_autograd)\.py", r".*"),
    (r"torch/utils/data/dataloader\.py", r"__iter__|__next__|_get_iterator"),
    (r"transformers/(utils/.*|modeling_layers|modeling_utils)\.py", r".*"),
    (r"jax/.*(api|pjit|profiler|tree_util|core|dispatch|compiler|traceback_util)\.py", r".*"),
    (r"triton/runtime/(jit|autotuner|driver)\.py", r".*"),
    (r"(contextlib|functools|threading|runpy|asyncio/.*|concurrent/futures/.*)\.py", r".*"),
    (r".*\.so[.\d]*", r"(c10::(Dispatcher|impl|KernelFunction|BoxedKernel)|at::_ops|std|ffi)\b.*"),
    (r".*\.so[.\d]*", r"ffi_call.*|_call_function_pointer|_Py.*|Py.*|.*\+0x[0-9a-f]+|_ZN.*"),
    (r".*", r"wrapper|wrapped|wrapped_func|inner|decorate_\w+|decorator|_fn|<lambda>"),
)
"""Files and functions of libraries, as regular expressions, that pass calls on: hooks, decorators,
context managers, and launchers."""
PASSED_ON = "TILEPROF_PASSED_ON"
"""Environment variable with the path of a file with more of them, a file and a function a line; a
`#` begins a comment. Those count for the user's own files too."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A profile to show, and how many of its frames that leaves out."""

    profile: Profile
    left_out: int
    moved: Nodes
    """Place here of each node of the profile before, or that of a node above."""


def with_frames(
    profile: Profile, frames: Frames, include: str | None = None, layers: str | None = None
) -> Shown:
    """Return a profile with those frames alone, and those whose names match `include`.

    Layers that a loop goes through are one, but those whose names in the model match `layers`.
    """
    if frames == "all":
        return Shown(profile, 0, np.arange(len(profile)))
    profile, placed = with_trials_apart(profile)
    wanted, own = re.compile(include) if include else None, _own_patterns()
    packages = _of_program(profile)
    profile = with_module_names(profile, layers)
    symbols, outside = list(profile.symbols), np.zeros(len(profile.symbols), bool)
    for number, symbol in enumerate(profile.symbols):
        shown = users(symbol, packages) if frames == "user" else symbol
        passed_on = _passes_on(symbol, own, installed=frames == "library")
        passed_on |= frames == "user" and symbol.kind == "scope" and is_pass(symbol.name)
        asked_for = wanted is not None and bool(wanted.search(symbol.name))
        outside[number] = (shown is None or passed_on) and not asked_for
        symbols[number] = labelled(shown or symbol)
    nodes: npt.NDArray[np.bool_] = outside[profile.symbol] | ways_into_graphs(profile)
    if not nodes.any() and symbols == list(profile.symbols):
        return Shown(profile, 0, placed)
    frames_out = nodes & (np.array(profile.kinds) == "frame")
    made, moved = leave_out(replace(profile, symbols=tuple(symbols)), nodes)
    return Shown(made, int(frames_out.sum()), moved[placed])


def of_libraries(profile: Profile, program: Profile) -> npt.NDArray[np.bool_]:
    """Return the frames of libraries but those of their modules' forward passes, per node.

    `program` is the profile from its begin, which tells what is no library: `profile` may have been
    turned over.
    """
    packages = _of_program(program)
    found = [each.kind == "frame" and users(each, packages) is None for each in profile.symbols]
    return np.array(found, bool)[profile.symbol]


def without_native_libraries(profile: Profile) -> Profile:
    """Return the profile without the functions of native libraries, which advice is not about."""
    if not profile.tables.native_modules:
        return profile
    of_library = np.array([_is_native_library(symbol) for symbol in profile.symbols], bool)
    return leave_out(profile, of_library[profile.symbol])[0]


def _is_native_library(symbol: Symbol) -> bool:
    place = symbol.location
    if symbol.kind != "frame" or place is None or place.file.startswith("<"):
        return False
    return is_installed(place.file) and not place.file.endswith((".py", ".pyx"))


def with_module_names(profile: Profile, layers: str | None = None) -> Profile:
    """Return the profile in which the forward passes of modules have the modules' names, as the
    fields `module` and `called` of their symbols.

    Layers that were recorded one by one are `h.*` together, and `h.3` where that name in the model
    matches `layers`, a regular expression; `UsageError` where it is none.
    """
    calls = [_called(symbol) for symbol in profile.symbols]
    if not any(calls):
        return profile
    modules = [is_module(symbol) for symbol in profile.symbols]
    wanted = None if layers is None else regular(layers)
    symbols, numbers = list(profile.symbols), profile.symbol.copy()
    places: dict[tuple[int, str], int] = {}
    folded: dict[int, set[str]] = {}
    # By node: the name of the module around, what was called since, and the layer that it is.
    around = list[tuple[str, str | None, str]]()
    for node, (above, number) in enumerate(
        zip(profile.parents.tolist(), profile.symbol.tolist(), strict=True)
    ):
        module, called, layer = around[above] if above >= 0 else ("", "", "")
        if (key := _layer(profile.symbols[number])) is not None:
            if called is not None and called.endswith("*"):
                name = f"{called[:-1]}{key}"
                opened = wanted is not None and wanted.search(f"{module}.{name}".strip("."))
                called, layer = (name, "") if opened else (called, key)
        elif (call := calls[number]) is not None:
            called = f"{called}.{call}".strip(".") if called is not None and call else None
        elif modules[number]:
            symbol = profile.symbols[number]
            class_name = symbol.name.removesuffix(".forward").rpartition(".")[2]
            module = f"{module}.{class_name if called is None else called}".strip(".")
            if called:
                place = places.setdefault((number, module), len(symbols))
                if place == len(symbols):
                    symbols.append(replace(symbol, module=module, called=called))
                numbers[node] = place
                if layer:
                    folded.setdefault(place, set()).add(layer)
            called, layer = "", ""
        around.append((module, called, layer))
    for place, keys in folded.items():
        symbols[place] = replace(symbols[place], layers=len(keys))
    return replace(profile, symbols=tuple(symbols), symbol=numbers)


def _layer(symbol: Symbol) -> str | None:
    """Return the key in its container of the layer that a frame of PyTorch's calls; else None."""
    place = symbol.location
    if symbol.kind != "frame" or place is None or not symbol.name.endswith(LAYER_SUFFIX):
        return None
    of_torch = place.file.replace("\\", "/").endswith(MODULE_FILE)
    return symbol.name.removesuffix(LAYER_SUFFIX) if of_torch else None


def _called(symbol: Symbol) -> str | None:
    """Return the module's name of PyTorch's frame around its call, "" for an unknown one; None for
    other nodes."""
    place = symbol.location
    if symbol.kind != "frame" or place is None:
        return None
    if not place.file.replace("\\", "/").endswith(MODULE_FILE):
        return None
    if symbol.name.endswith(CALL_SUFFIX):
        return symbol.name.removesuffix(CALL_SUFFIX) or None
    return "" if symbol.name.endswith(MODULE_CALLER) else None


def labelled(symbol: Symbol) -> Symbol:
    """Return a module's symbol with the name of its call before that of its class, and behind it
    how many layers it stands for."""
    if not symbol.called:
        return symbol
    several = f" ×{symbol.layers}" if symbol.layers > 1 else ""
    return replace(symbol, name=f"{symbol.called}: {symbol.name}{several}")


def is_module(symbol: Symbol) -> bool:
    """Return whether a node is the forward pass of a module, also as `with_frames` shows it."""
    place = symbol.location
    if symbol.kind != "frame" or place is None or _CONTAINER.search(place.file):
        return False
    shown = not place.line and place.function.endswith(".forward")
    return shown or bool(_FORWARD.match(symbol.name))


def users(symbol: Symbol, packages: tuple[str, ...] = ()) -> Symbol | None:
    """Return how a node is shown among the user's frames and modules; None where it is not.

    Files whose paths begin with one of `packages` are the user's too.
    """
    if symbol.kind == "api":
        return None if _LAUNCH.match(symbol.name) else symbol
    if symbol.kind == "scope" and (found := _XLA.fullmatch(symbol.name)):
        return replace(symbol, name=_of_xla(found[1], found[2]))
    place = symbol.location
    if symbol.kind != "frame" or place is None or not is_installed(place.file):
        return symbol
    if place.file.startswith(packages):
        return symbol
    found = _FORWARD.match(symbol.name)
    if found is None or _CONTAINER.search(place.file):
        return None
    return replace(symbol, name=found[1], location=Location(place.file, 0, function=place.function))


def _of_program(profile: Profile) -> tuple[str, ...]:
    """Return where an installed program lies: the package of the files that the tree begins in.

    Where all nodes at the top are scopes without values, they name groups: the tree begins below.
    """
    found = set[str]()
    tops, holds = profile.roots(), with_values(profile)
    if all(profile.kinds[top] == "scope" and not holds[top] for top in tops):
        tops = [child for top in tops for child in profile.children(top)]
    for top in tops:
        place = profile.locations[top]
        if profile.kinds[top] == "frame" and place is not None:
            held = _PACKAGE.match(place.file)
            found |= {held[0]} if held else set()
    return tuple(found)


def _of_xla(range_name: str, text: str) -> str:
    """Return the name of JAX's function or operation; for XLA's own work what is done to which."""
    attributes: dict[str, str] = dict(_ATTRIBUTE.findall(text))
    if range_name == "XlaModule" and (module := attributes.get("hlo_module")):
        return module
    if range_name == "Thunk" and (name := attributes.get("name") or attributes.get("hlo_op")):
        return name
    values = [each for key, each in attributes.items() if each and not key.endswith("_id")]
    return " ".join([range_name, *values])


def _own_patterns() -> tuple[tuple[str, str], ...]:
    """Return what the user's own file says; UsageError, with the line, where it cannot be read."""
    path = os.environ.get(PASSED_ON, "")
    if not path:
        return ()
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {path}: {error}", hint=f"Correct or unset {PASSED_ON}."
        ) from error
    found = list[tuple[str, str]]()
    for number, line in enumerate(lines, 1):
        parts = line.partition("#")[0].split()
        if parts and len(parts) != 2:
            raise UsageError(
                f"{path}, line {number}: `{line}` is not a file and function",
                hint="Write two regular expressions, as `my/wrappers\\.py  call_.*`.",
            )
        for part in parts:
            regular(part)
        found += [(parts[0], parts[1])] if parts else []
    return tuple(found)


def _passes_on(symbol: Symbol, own: Sequence[tuple[str, str]], installed: bool) -> bool:
    """Whether a frame passes calls on: by `own` patterns, or, with `installed`, as a library's."""
    place = symbol.location
    if symbol.kind != "frame" or place is None:
        return False
    path = place.file.replace("\\", "/")
    function = symbol.name if place.line == 0 else symbol.name.rpartition(".")[2]
    known = (*own, *_PASSED_ON) if installed and is_installed(place.file) else own
    return any(
        re.search(rf"(^|/)(?:{files})$", path) and re.fullmatch(functions, function)
        for files, functions in known
    )
