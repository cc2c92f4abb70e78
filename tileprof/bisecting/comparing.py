"""The first level at which two compilations of a kernel differ, and what brought it.

In: the forms of both sides.  Out: a `Difference`.

A kernel's forms are a chain: each is made of the one before and of settings. The last form that
both sides have in common says that everything before it had no effect; what follows is made by the
step behind it. That step is a pass where the programs between passes are known. Where options
differ they are named first, since they act in every step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from .costs import changed_resources
from .forms import Forms
from .normal_forms import (
    MLIR,
    PTX,
    PYTHON,
    SASS,
    TILES,
    Kind,
    cleaned,
    normal,
    sass,
    stage_kind,
)

Level: TypeAlias = Literal[
    "python", "specialisation", "options", "ir", "code", "flags", "ptx", "sass", "resources",
    "launch", "clocks", "nothing",
]  # fmt: skip
LEVELS: dict[Level, str] = {
    "python": "Python source",
    "specialisation": "types and constants of arguments",
    "options": "options of the compilation",
    "ir": "IR",
    "code": "code made of the IR",
    "flags": "flags of the code's compiler",
    "ptx": "PTX",
    "sass": "SASS",
    "resources": "resources",
    "launch": "launch configuration",
    "clocks": "clocks",
    "nothing": "nothing",
}
"""Levels in the order in which one follows from the other, as reports name them."""
_TO_GPU = "ConvertTritonToTritonGPU"
_OPTIONS_OF_PASS = re.compile(r"\s*\{.*$", re.S)
_WIDEST = 200
"""Characters of a line that is shown."""


@dataclass(frozen=True, slots=True)
class State:
    """One form in the chain."""

    level: Level
    name: str
    """Name of the form: that of the stage, or of the pass that made it."""
    kind: Kind
    text: str
    next: str
    """Name of the step that makes the next form of it."""

    @property
    def normal(self) -> str:
        """The text without what has no effect."""
        return normal(self.kind, self.text)


@dataclass(frozen=True, slots=True)
class Difference:
    """The first level that differs."""

    level: Level
    step: str
    """Pass, stage or setting that brought it; empty where the level says it all."""
    text: str
    """Description of what differs there."""
    old: str = ""
    """First line that differs, of the old side; empty where lines say nothing."""
    new: str = ""
    without_effect: tuple[Level, ...] = ()
    """Levels that differ too and whose difference is gone in a later form."""
    acts: str = ""
    """Step after which programs differ first, where options differ."""


def chain(forms: Forms) -> list[State]:
    """Return the known forms of a kernel, from its source to its machine code."""
    states = [State("python", "source", PYTHON, forms.source, "frontend")]
    if forms.engine == "triton":
        states += _triton(forms)
    else:
        names = [step.name for step in forms.ir]
        states += [
            State("ir", step.name, TILES, step.text, following)
            for step, following in zip(forms.ir, [*names[1:], "emission"])
        ]
        code = "\n".join(f"// {step.name}\n{step.text}" for step in forms.code)
        name = forms.code[0].name if forms.code else ""
        states.append(State("code", name, stage_kind(name), code, "the code's compiler"))
    states.append(State("ptx", "PTX", PTX, forms.ptx, "ptxas"))
    states.append(State("sass", "SASS", SASS, sass(forms.cubin), ""))
    return [state for state in states if state.text.strip()]


def _triton(forms: Forms) -> Iterator[State]:
    """Yield the stages; with the programs between passes where they were asked for."""
    stages = {step.name: step for step in (*forms.ir, *forms.code)}
    passes = list(forms.passes)
    lowered = next((i for i, step in enumerate(passes) if step.name.startswith(_TO_GPU)), 0)
    for at, step in enumerate(passes):
        level: Level = "ir" if at <= lowered else "code"
        before = passes[at - 1].name if at else "frontend"
        # What the last pass makes is translated to LLVM IR and optimised before it is seen again.
        following = step.name if at + 1 < len(passes) else "LLVM IR"
        yield State(level, before, MLIR, step.text, following)
    known = bool(passes)
    behind = {"TTIR": "TTGIR", "TTGIR": "LLVM IR", "LLVM IR": "LLVM"}
    for name, step in stages.items():
        if not known or name == "LLVM IR":
            level = "ir" if name == "TTIR" else "code"
            yield State(level, name, stage_kind(name), step.text, behind.get(name, name))


def compare(old: Forms, new: Forms) -> Difference:
    """Return the first level that differs; `nothing` where all forms are the same."""
    chains = _both(chain(old), chain(new))
    common = _last_common(*chains)
    ends = [len(each) - 1 for each in chains]
    if common == tuple(ends) or not all(chains):
        return _beside(old, new, _earlier(chains, common))
    found = _made_by(chains, common)
    changed = _changed(old.options, new.options)
    if changed:
        text = changes_text(changed)
        return Difference(
            "options", ", ".join(changed), text, without_effect=found.without_effect,
            acts=found.step or LEVELS[found.level],
        )  # fmt: skip
    kinds = _changed(old.specialisation, new.specialisation)
    if kinds and found.level in ("ir", "code") and common[0] <= 0 and found.step == "frontend":
        return Difference("specialisation", ", ".join(kinds), changes_text(kinds))
    flags = _changed_flags(old.flags, new.flags)
    # Some of the flags are for the assembler.
    if flags and chains[0][common[0]].level in ("code", "ptx"):
        return Difference("flags", "", flags, without_effect=found.without_effect)
    return found


def same_code(old: Forms, new: Forms) -> bool:
    """Return whether a GPU would run the same: machine code, resources and launch; where a side
    has no machine code, whether the last form that both know is the same."""
    if not (old.cubin and old.cubin == new.cubin):
        chains = _both(chain(old), chain(new))
        if not all(chains) or chains[0][-1].normal != chains[1][-1].normal:
            return False
    return not changed_resources(old, new) and not _changed(old.launch, new.launch)


def changed_launch(old: Forms, new: Forms) -> dict[str, tuple[str, str]]:
    """Return what differs in the launch, by name."""
    return _changed(old.launch, new.launch)


def changed_options(old: Forms, new: Forms) -> dict[str, tuple[str, str]]:
    """Return the options of both sides that differ, by name."""
    return _changed(old.options, new.options)


def changed_tools(old: Forms, new: Forms) -> dict[str, tuple[str, str]]:
    """Return versions that differ, by name."""
    return _changed(old.tools, new.tools)


def last_level(old: Forms, new: Forms) -> Level:
    """Return the last level that both sides have a form of."""
    chains = _both(chain(old), chain(new))
    return chains[0][-1].level if chains[0] else "nothing"


# -- the chain


def _both(old: list[State], new: list[State]) -> tuple[list[State], list[State]]:
    """Return the states of levels that both sides know."""
    levels = {each.level for each in old} & {each.level for each in new}
    stages = {each.name for each in old} & {each.name for each in new}

    def known(each: State) -> bool:
        # Without programs between passes a stage that only one side has cannot be compared.
        single = each.name in ("TTIR", "TTGIR", "LLVM IR")
        return each.level in levels and (not single or each.name in stages)

    return [each for each in old if known(each)], [each for each in new if known(each)]


def _last_common(old: Sequence[State], new: Sequence[State]) -> tuple[int, int]:
    """Return the places of the last form that both sides have, -1 for none."""
    places = {(state.kind, state.normal): at for at, state in enumerate(new)}
    for at in reversed(range(len(old))):
        found = places.get((old[at].kind, old[at].normal))
        if found is not None:
            return at, found
    return -1, -1


def _earlier(chains: tuple[list[State], list[State]], common: tuple[int, int]) -> tuple[Level, ...]:
    """Return the levels before a common form at which the sides differ."""
    texts = [
        {(each.level, each.normal) for each in states[: at + 1]}
        for states, at in zip(chains, common)
    ]
    apart = {level for level, _ in texts[0] ^ texts[1]}
    return tuple(level for level in LEVELS if level in apart)


def _made_by(chains: tuple[list[State], list[State]], common: tuple[int, int]) -> Difference:
    """Return the difference that the step behind the last common form brings."""
    old, new = chains
    behind = [states[at + 1].level for states, at in zip(chains, common) if at + 1 < len(states)]
    # A side without the last passes goes on with its code, where the other still has its IR.
    level = min(behind, key=[*LEVELS].index)
    if common[0] < 0:
        pair = (old[0], new[0])
        return Difference(level, _step_name(pair[0]), *_lines(*pair))
    ignored = _earlier(chains, common)
    if level not in ("ir", "code"):
        pair = (_first(old, level), _first(new, level))
        return Difference(level, "", *_lines(*pair), without_effect=ignored)
    step, text = _blamed(old, new, common)
    after = _after(old, new, common)
    told = _lines(*after)
    words = f"{text}: {told[0]}" if text else told[0]
    return Difference(level, step, words, told[1], told[2], ignored)


def _step_name(state: State) -> str:
    return state.name if state.level in ("ir", "code") else ""


def _first(states: Sequence[State], level: Level) -> State:
    return next(each for each in states if each.level == level)


def _after(
    old: Sequence[State], new: Sequence[State], common: tuple[int, int]
) -> tuple[State, State]:
    """Return the forms to be shown: those behind the last common one."""
    pair = [
        states[at + 1] if at + 1 < len(states) else states[at]
        for states, at in zip((old, new), common)
    ]
    return pair[0], pair[1]


def _blamed(old: Sequence[State], new: Sequence[State], common: tuple[int, int]) -> tuple[str, str]:
    """Return the step that made programs differ, and words for one that only one side has.

    Passes without effect leave the common program as it is; the one that changes it need not have
    the same name on both sides.
    """
    before, after = old[common[0]], new[common[1]]
    theirs, ours = before.next, after.next
    if _plain(theirs) == _plain(ours):
        same = theirs == ours
        return _plain(ours), "" if same else f"its options {_given(theirs)} → {_given(ours)}"
    tried = [
        {_plain(each.next) for each in states if each.normal == before.normal}
        for states in (old, new)
    ]
    everywhere = [{_plain(each.next) for each in states} for states in (old, new)]
    if _plain(theirs) in tried[1]:
        return _plain(theirs), "it changes nothing any more"
    if _plain(ours) in tried[0]:
        return _plain(ours), "it changed nothing before"
    gone, come = _plain(theirs) not in everywhere[1], _plain(ours) not in everywhere[0]
    if gone and come:
        words = f"only the new side runs it, and only the old side {_plain(theirs)}"
        return _plain(ours), words
    if gone:
        return _plain(theirs), "only the old side runs it"
    if come:
        return _plain(ours), "only the new side runs it"
    return _plain(ours), f"it runs where the old side runs {_plain(theirs)}"


def _plain(name: str) -> str:
    """Return the name of a pass without its options."""
    return _OPTIONS_OF_PASS.sub("", name)


def _given(name: str) -> str:
    held = _OPTIONS_OF_PASS.search(name)
    return held[0].strip() if held else "none"


def _lines(old: State, new: State) -> tuple[str, str, str]:
    """Return words for the first lines that differ, and these lines."""
    before, after = (normal(each.kind, each.text).splitlines() for each in (old, new))
    shown = [cleaned(each.kind, each.text).splitlines() for each in (old, new)]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if len(before) * len(after) > 4_000_000:
        at = next((i for i, (a, b) in enumerate(zip(before, after)) if a != b), None)
        places = (at, at) if at is not None else (len(before) - 1, len(after) - 1)
        count = sum(a != b for a, b in zip(before, after)) + abs(len(before) - len(after))
    else:
        codes = [each for each in matcher.get_opcodes() if each[0] != "equal"]
        if not codes:
            return "the same", "", ""
        _, i1, i2, j1, j2 = codes[0]
        places = (i1 if i2 > i1 else None, j1 if j2 > j1 else None)  # type: ignore[assignment]
        count = sum(max(each[2] - each[1], each[4] - each[3]) for each in codes)
    lines = [
        "" if at is None else shown[side][at].strip()[:_WIDEST] for side, at in enumerate(places)
    ]
    return f"{count} lines differ" if count != 1 else "1 line differs", lines[0], lines[1]


# -- beside the chain


def _beside(old: Forms, new: Forms, ignored: tuple[Level, ...]) -> Difference:
    """Return what differs where the code is the same."""
    facts = changed_resources(old, new)
    launch = _changed(old.launch, new.launch)
    own = [each for each in facts if each.name != "blocks per SM"]
    if own:
        return Difference("resources", "", ", ".join(map(str, facts)), without_effect=ignored)
    if launch:
        return Difference("launch", "", changes_text(launch), without_effect=ignored)
    return Difference("nothing", "", "what a GPU runs is the same", without_effect=ignored)


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the values of names of both sides that are not the same."""
    return {n: (old[n], new[n]) for n in old if n in new and old[n] != new[n]}


def changes_text(changed: Mapping[str, tuple[str, str]]) -> str:
    """Return names with their values on both sides, in a line."""
    return ", ".join(f"{name} {old} → {new}" for name, (old, new) in changed.items())


def _changed_flags(old: Sequence[str], new: Sequence[str]) -> str:
    gone = [each for each in old if each not in new]
    come = [each for each in new if each not in old]
    parts = [f"without {' '.join(gone)}"] * bool(gone) + [f"with {' '.join(come)}"] * bool(come)
    return ", ".join(parts)
