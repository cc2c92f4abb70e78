"""The texts of sampled functions: which are kept, and what is said of the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pytest

from tileprof.profile import PcFunction, PcRecording, PcRows, PcSamples
from tileprof.profiler.pcs import texts as pc_texts
from tileprof.profiler.pcs.texts import with_texts

COLD, HOT, WARM = ("0" * 64, "1" * 64, "2" * 64)


def samples() -> PcSamples:
    """Functions with 10, 900, 50 and 2,000 samples; the last one's cubin is not known."""
    modules = (COLD, HOT, WARM, "")
    return PcSamples(
        tuple(PcFunction(f"f{i}", f"f{i}", module) for i, module in enumerate(modules)),
        ("wait",),
        PcRows.typed(range(4), [0] * 4, [0] * 4, [-1] * 4, [10, 900, 50, 2000]),
        (PcRecording(4096, "continuous", 2960),),
    )


def texts_of(texts: Mapping[str, Mapping[str, str]]) -> dict[tuple[str, str], tuple[object, str]]:
    """Text and note of what is kept where these are found."""

    def find(digests: Collection[str], forms: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        assert list(digests) == [HOT, WARM, COLD]
        assert tuple(forms) == ("ttgir", "ptx")
        return texts

    held = with_texts(samples(), find)
    return {key: (each.text, each.note) for key, each in held.texts.items()}


def test_texts_of_all_functions_that_have_some() -> None:
    """By cubin and form."""
    assert texts_of({COLD: {"ptx": "c"}, HOT: {"ttgir": "h", "ptx": ""}}) == {
        (HOT, "ttgir"): ("h", ""),
        (HOT, "ptx"): ("", ""),
        (COLD, "ptx"): ("c", ""),
    }
    assert texts_of({}) == {}


def test_one_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left out alone, and its bytes are told; bytes count, not characters."""
    monkeypatch.setattr(pc_texts, "LARGEST_TEXT", 1024)
    found = texts_of({HOT: {"ttgir": "µ" * 512, "ptx": "µ" * 512 + "x"}})
    assert found == {
        (HOT, "ttgir"): ("µ" * 512, ""),
        (HOT, "ptx"): (None, "it has 1,025 bytes, and 1,024 is the most that is kept of one"),
    }


def test_room_is_for_the_hottest(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit beside those with more samples is left out; what is smaller may fit."""
    monkeypatch.setattr(pc_texts, "MOST_TEXT_BYTES", 10)
    full = (None, "others with more samples fill the 10 bytes that are kept")
    found = texts_of({
        COLD: {"ttgir": "1", "ptx": "22"}, WARM: {"ttgir": "333"}, HOT: {"ptx": "4" * 8},
    })  # fmt: skip
    assert found == {
        (HOT, "ptx"): ("4" * 8, ""),
        (WARM, "ttgir"): full,
        (COLD, "ttgir"): ("1", ""),
        (COLD, "ptx"): full,
    }


def test_nobody_looks_where_no_cubin_is_known() -> None:
    """Looking for texts goes through all objects of the program."""
    held = PcSamples((PcFunction("f", "f"),), ("wait",), PcRows.typed([0], [0], [0], [-1], [1]))

    def find(digests: Collection[str], forms: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        raise AssertionError(digests)

    assert with_texts(held, find) is held
    assert with_texts(PcSamples(), find) == PcSamples()
