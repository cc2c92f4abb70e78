"""The texts that a profile keeps of sampled functions: TTGIR and PTX of Triton's kernels.

In: a profile, a form and a pattern for names.  Out: the text as the compiler wrote it, below a
header in comments of its own language, so that tools can read it; or JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tileprof.errors import UsageError
from tileprof.profile import PcText, Profile
from tileprof.viewer.code.pc_functions import SeenFunction, seen_functions, share_text
from tileprof.viewer.text import ASCII, UNICODE, Glyphs, clean, encodable

_SCHEMA = 1
_COMMENT = "// "
"""Begins a comment in both forms."""


@dataclass(frozen=True, slots=True)
class _Module:
    """A text, and the functions that it has."""

    held: PcText
    functions: list[SeenFunction]


def render_texts(profile: Profile, form: str, include: str | None, unicode: bool) -> str:
    """Return the texts of functions that `include` matches; for None, of the hottest one.

    Raises UsageError where the profile has none of them.
    """
    glyphs = UNICODE if unicode else ASCII
    modules = _modules(profile, form, include)
    shown = modules if include is not None else modules[:1]
    whole = int(profile.tables.pc.counted.sum())
    lines = [line for each in shown for line in _lines(each, form, whole, glyphs)]
    if len(shown) < len(modules):
        names = ", ".join(each.functions[0].function.name for each in modules[1:4])
        count = len(modules) - 1
        others = f"{count} other{'s' if count > 1 else ''} with fewer samples: {names}"
        lines.append(_COMMENT + clean(f"{others}{', …' if count > 3 else ''}; see -i RE", glyphs))
    return "\n".join(lines) + "\n"


def texts_json(profile: Profile, form: str, include: str | None) -> str:
    """Return the same of all functions that match, those with the most samples first, as JSON."""
    found = [
        _function(seen, each.held)
        for each in _modules(profile, form, include)
        for seen in each.functions
    ]
    return json.dumps({"schema": _SCHEMA, "form": form, "functions": found}) + "\n"


def _modules(profile: Profile, form: str, include: str | None) -> list[_Module]:
    """Return modules in order of the samples of their hottest function."""
    texts = profile.tables.pc.texts
    seen = seen_functions(profile, include)
    found: dict[str, _Module] = {}
    for each in seen:
        held = texts.get((each.function.module, form))
        if held is not None:
            found.setdefault(each.function.module, _Module(held, [])).functions.append(each)
    if not found:
        of = f" of `{seen[0].function.title}`" if include is not None else ""
        raise UsageError(
            f"the profile keeps no {form}{of}",
            hint="It has that of Triton's kernels; `tileprof compile` shows the stages of ours.",
        )
    return list(found.values())


def _lines(module: _Module, form: str, whole: int, glyphs: Glyphs) -> Iterator[str]:
    for each in module.functions:
        said = f"{each.function.title}: {share_text(each.samples, whole)}"
        yield _COMMENT + clean(said, glyphs)
    text = module.held.text
    if text is None:
        yield _COMMENT + clean(f"its {form} is not kept: {module.held.note}", glyphs)
        return
    for line in text.removesuffix("\n").split("\n"):
        yield "\t".join(clean(part, glyphs) for part in line.split("\t"))


def _function(seen: SeenFunction, held: PcText) -> dict[str, Any]:
    function = seen.function
    text = held.text
    return {
        "name": encodable(function.name),
        "title": encodable(function.title),
        "module": function.module,
        "samples": seen.samples,
        "text": text if text is None else encodable(text),
        "note": encodable(held.note),
    }
