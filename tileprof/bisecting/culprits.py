"""Options and passes that bring a change: taken from the other side, or switched off.

In: the workers of both sides and a kernel that they compile differently.  Out: `Culprit`s, each
with what was tried to prove it. Nothing is timed here: what is compared is the code that comes out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .comparing import Difference, changed_options, compare, same_code
from .forms import Forms
from .normal_forms import PTX, normal
from .workers import Kernel, SideError, Worker

CulpritKind: TypeAlias = Literal["option", "pass", "switch", "commit"]

_MOST_PASSES = 12
"""Passes that are followed at most."""
_OTHER = "it makes another program of the same one"
_READ_BY: dict[str, tuple[str, ...]] = {
    "exponentials": ("fast_math",),
    "choose": ("tma", "wgmma", "tensor_cores", "tf32", "async_copy", "warp_specialization"),
    "overlap": ("overlap", "delayed_release"),
    "peel": ("peel",),
    "masks": ("peel",),
    "layouts": ("vectorize", "swizzle"),
    "late_sums": ("late_sums",),
    "multicast": ("cluster",),
    "persist": ("persistent", "rasterize"),
    "pipeline": ("warp_specialization", "async_copy", "delayed_release"),
    "waits": ("delayed_release", "overlap"),
    "turns": ("ping_pong", "hand_over"),
    "dependents": ("early_launch",),
}
"""Options that passes read: a way out of what a pass does is looked for among them. All options
are tried for a pass that is not named here."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """A cause of a change, or something that makes up for it."""

    kind: CulpritKind
    name: str
    """Name of the option or pass, or full name of the commit."""
    text: str
    """Description of the cause, and of what was tried."""
    restores: bool
    """Whether the old code comes back without it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A kernel on both sides."""

    old: Worker
    new: Worker
    kernels: tuple[Kernel, Kernel]
    forms: tuple[Forms, Forms]
    """With the programs between passes."""

    def again(self, controls: Mapping[str, Any]) -> Forms:
        """Return the forms that the new side makes under other options."""
        return self.new.forms(self.kernels[1], controls)


def options(pair: Pair) -> tuple[Culprit, ...]:
    """Return the options that bring a change, each tried by itself, and the fewest that do it
    together where none does it alone; nothing where options have no effect."""
    old, new = pair.forms
    changed = changed_options(old, new)
    if not changed:
        return ()
    values = {name: read_value(before) for name, (before, _) in changed.items()}
    alone = {n: _makes(pair, old, {n: v}) for n, v in values.items()}
    if any(alone.values()) or len(values) == 1:
        return tuple(
            _option(name, changed[name], alone[name])
            for name in values
            if alone[name] or len(values) == 1
        )
    if _makes(pair, old, values):
        needed = _fewest(pair, values)
        return tuple(_option(name, changed[name], True, tuple(needed)) for name in needed)
    acting = [name for name, value in values.items() if not _makes(pair, new, {name: value})]
    return tuple(_option(name, changed[name], False) for name in acting)


def passes(pair: Pair) -> tuple[Culprit, ...]:
    """Return the passes that do something else on the new side when both start from one program.

    The new side goes on from the old side's program behind the first pass that differs; where the
    code then still differs, the next such pass is looked for in what is left.
    """
    old, new = pair.forms
    steps = {step.name: step.text for step in old.ir}
    found: list[str] = []
    words: dict[str, str] = {}
    current = new
    while len(found) < _MOST_PASSES:
        difference = compare(
            _from_ir(old, current, bool(found)), _from_ir(current, old, bool(found))
        )
        at = _taken_up(difference.step, old, new)
        if difference.level != "ir" or difference.step in found or not at:
            break
        found.append(difference.step)
        words[difference.step] = difference.text.split(": ")[0] if ": " in difference.text else ""
        try:
            current = pair.new.resumed(pair.kernels[1], at, steps[at])
        except SideError:
            # Forms of the IR change too: a version need not take what another one wrote.
            words[found[-1]] = f"{words[found[-1]] or _OTHER}; the new side does not take it up"
            return tuple(_pass(each, words[each], False, found) for each in found)
    restored = bool(found) and _same_end(old, current)
    return tuple(_pass(each, words[each], restored, found) for each in found)


def _taken_up(step: str, old: Forms, new: Forms) -> str:
    """Return the step behind which the new side can go on: this one, or the next that it has."""
    names = [each.name for each in old.ir]
    known = [each.name for each in new.ir]
    at = names.index(step) if step in names else len(names)
    if step in known and step not in names:  # only the new side runs it
        at = next((names.index(n) for n in known[known.index(step) :] if n in names), at)
    return next((name for name in names[at:] if name in known), "")


def switches(pair: Pair, step: str) -> tuple[Culprit, ...]:
    """Return the options of the new side that, switched off, give the old side's code: each is a
    way out of what the step does."""
    old, new = pair.forms
    found = []
    for name in _READ_BY.get(step, tuple(new.options)):
        if new.options.get(name) not in ("True", "None"):
            continue
        try:
            made = pair.again({name: False})
        except SideError:
            continue
        # Machine code takes a while to be read, and hardly ever is the same where PTX is not.
        if normal(PTX, old.ptx) == normal(PTX, made.ptx) and same_code(old, made):
            words = f"with {name}=off the new side makes the old side's code"
            found.append(Culprit("switch", name, words, True))
    return tuple(found)


def read_value(text: str) -> Any:
    """Return the value of an option that a worker showed."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return list(value) if isinstance(value, tuple) else value


def _makes(pair: Pair, wanted: Forms, values: Mapping[str, Any]) -> bool:
    """Return whether the new side makes this code under these values of options."""
    try:
        return same_code(wanted, pair.again(values))
    except SideError:
        return False


def _fewest(pair: Pair, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of which none can be left out."""
    needed = dict(values)
    for name in values:
        fewer = {n: v for n, v in needed.items() if n != name}
        if _makes(pair, pair.forms[0], fewer):
            needed = fewer
    return needed


def _option(
    name: str, change: tuple[str, str], restores: bool, together: Sequence[str] = ()
) -> Culprit:
    others = [each for each in together if each != name]
    words = f"{name} {change[0]} → {change[1]}"
    if restores:
        words += "; with the old value the new side makes the old side's code"
        words += f", together with {', '.join(others)}" if others else ""
    else:
        words += "; the code differs with the old value too"
    return Culprit("option", name, words, restores)


def _pass(name: str, how: str, restored: bool, found: Sequence[str]) -> Culprit:
    others = [each for each in found if each != name]
    words = f"pass {name}: {how or _OTHER}"
    if name == "frontend":
        words = "the lowering from Python, which makes another program of the same source"
    if restored:
        words += "; with its result of the old side, the new side makes the old side's code"
        words += f", together with {', '.join(others)}" if others else ""
    return Culprit("pass", name, words, restored)


def _from_ir(forms: Forms, other: Forms, common: bool = True) -> Forms:
    """Return forms without source and settings; `common`: only programs behind passes of both."""
    names = {step.name for step in other.ir}
    return Forms(
        forms.kernel, forms.engine, "", {}, {},
        tuple(s for s in forms.ir if s.name in names or not common),
        forms.code, forms.flags, forms.ptx, forms.cubin, {}, {},
    )  # fmt: skip


def _same_end(old: Forms, new: Forms) -> bool:
    """Return whether the code that comes out is the same; a launch is part of it."""
    return same_code(_from_ir(old, new), _from_ir(new, old)) and old.launch == new.launch


def all_of(pair: Pair, difference: Difference) -> Iterator[Culprit]:
    """Yield what brings a change whose first level is known."""
    found = options(pair)
    yield from found
    if difference.level not in ("ir", "code") or pair.kernels[0].engine != "tileprof":
        return
    yield from passes(pair)
    if not found:
        yield from switches(pair, difference.step)
