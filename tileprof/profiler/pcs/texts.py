"""Intermediate forms of Triton's sampled functions: TTGIR and PTX, kept as text.

In: samples, and who finds the texts of cubins.  Out: the same samples with the texts of the
functions that have the most of them, as far as there is room; what has none left says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from tileprof.profile import PcSamples, PcText

FORMS = ("ttgir", "ptx")
LARGEST_TEXT = 1 << 20
"""Bytes of one, before it is compressed."""
MOST_TEXT_BYTES = 32 << 20

Find: TypeAlias = Callable[[Collection[str], Sequence[str]], Mapping[str, Mapping[str, str]]]
"""Function from digests of cubins and wanted forms to texts, by digest and form."""


def with_texts(held: PcSamples, find: Find) -> PcSamples:
    """Return the samples with the texts that were found of their functions' cubins."""
    hottest = held.hottest
    modules = dict.fromkeys(held.functions[place].module for place in hottest)
    modules.pop("", None)
    if not modules:
        return held
    found = find(modules, FORMS)
    texts = {
        (module, form): found[module][form]
        for module in modules
        if module in found
        for form in FORMS
        if form in found[module]
    }
    return replace(held, texts=_kept(texts))


def _kept(texts: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], PcText]:
    """Return the texts that there is room for, the first ones first; for others, why they are
    missing."""
    kept = {}
    left = MOST_TEXT_BYTES
    for key, text in texts.items():
        size = len(text.encode("utf-8", "backslashreplace"))
        if size > LARGEST_TEXT:
            note = f"it has {size:,} bytes, and {LARGEST_TEXT:,} is the most that is kept of one"
        elif size > left:
            note = f"others with more samples fill the {MOST_TEXT_BYTES:,} bytes that are kept"
        else:
            kept[key] = PcText.of(text)
            left -= size
            continue
        kept[key] = PcText(note=note)
    return kept
