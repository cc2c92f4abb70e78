"""Everything that tileprof does with a profile file, as one list of calls.

In: the path of a file that may be damaged.  Out: the first call that neither gave a result nor
refused with a sentence.  Campaigns over damaged files share it.
"""

from __future__ import annotations

import functools
import json
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tileprof.analyzer import analyze
from tileprof.analyzer.changes import explain
from tileprof.analyzer.json_form import to_json as report_json
from tileprof.errors import InternalError, TileprofError
from tileprof.profile import Profile, bottom_up, diff, from_literal, load, merge, save
from tileprof.viewer import (
    EXPORTS,
    FOLDER_EXPORTS,
    VIEWS,
    DiffOptions,
    Mode,
    ViewOptions,
    diff_json,
    export,
    export_folder,
    render_changes,
    render_cta,
    render_diff,
    render_texts,
    render_view,
)
from tileprof.viewer.findings import ReportOptions, Voice, render_reports
from tileprof.viewer.html import report_page

__all__ = ["failure", "steps"]

_WIDTH = 100
_FORBIDDEN = set(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066])) - set("\n\t")
"""Characters that no view may hand to a terminal where colours are off."""


def failure(path: str, other: Profile, asked: Callable[[str], bool] = lambda _: True) -> str | None:
    """Return how the first step failed that raised anything but a sentence.

    None where none did, and an empty text where the file was refused.
    `other` is a sound profile, against which the file is compared.  `asked` chooses among the
    names of `steps`.
    """
    try:
        profile = load(path)
    except InternalError:
        return f"load: {traceback.format_exc()}"
    except TileprofError as error:
        return "" if str(error) else "load: an empty sentence"
    except Exception:
        return f"load: {traceback.format_exc()}"
    for name, step in steps(profile, other, path):
        if not asked(name):
            continue
        try:
            step()
        except InternalError:
            return f"{name}: {traceback.format_exc()}"
        except TileprofError:
            continue
        except Exception:
            return f"{name}: {traceback.format_exc()}"
    return None


def steps(profile: Profile, other: Profile, path: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Return the calls, each with a name."""
    call = functools.partial
    yield "str", call(_described, profile)
    for view in VIEWS:
        yield f"view {view}", call(_shown, profile, ViewOptions(), view)
    modes: tuple[Mode, ...] = ("bottom-up", "flat")
    for mode in modes:
        yield f"view {mode}", call(_shown, profile, ViewOptions(mode=mode, threshold=0.0), "tree")
    for kernel in profile.tables.kernels[:3]:
        yield "view cta", call(_cta, profile, kernel.name)
    for form in ("ttgir", "ptx"):
        yield f"texts {form}", call(render_texts, profile, form, None, True)
    yield "report", call(_report, profile, path)
    yield "page", call(_page, profile)
    for first, second in ((profile, other), (other, profile), (profile, profile)):
        yield "diff", call(_diff, first, second)
    for name in EXPORTS:
        yield f"export {name}", call(export, profile, name)
    for name in FOLDER_EXPORTS:
        yield f"export {name}", call(export_folder, {"p": profile}, name)
    yield "frame", profile.frame
    yield "literal", call(_literal, profile)
    yield "merge", call(merge, [profile, other])
    for metric in list(profile.metrics)[:2]:
        yield "bottom up", call(bottom_up, profile, metric)
        yield "quantiles", call(_quantiles, profile, metric)
    yield "again", call(_saved_again, profile, path)


def _described(profile: Profile) -> tuple[object, ...]:
    return repr(profile)[:1000], str(profile.tables.timeline), profile.notes()


def _shown(profile: Profile, options: ViewOptions, view: str) -> None:
    _plain(render_view(profile, options, view, width=_WIDTH))


def _cta(profile: Profile, kernel: str) -> None:
    _plain(render_cta(profile, kernel, None, None, width=_WIDTH, color=False, unicode=True))


def _page(profile: Profile) -> str:
    return report_page(analyze(profile))


def _literal(profile: Profile) -> Profile:
    return from_literal(json.loads(export(profile, "hatchet")))


def _quantiles(profile: Profile, metric: str) -> list[float]:
    return [each.quantile(0.5) for each in profile.sketches(metric, True).values()]


def _plain(text: str) -> None:
    """Raise where a view has characters that a terminal obeys."""
    if found := _FORBIDDEN.intersection(text):
        raise AssertionError(f"a view holds {sorted(found)!r}")


def _report(profile: Profile, path: str) -> None:
    report = analyze(profile)
    json.dumps(report_json(report))
    voices: tuple[Voice, ...] = ("author", "compiler")
    for voice in voices:
        options = ReportOptions(voice, None, 50)
        text = render_reports({path: report}, options, width=_WIDTH, color=False, unicode=True)
        _plain(text)


def _diff(old: Profile, new: Profile) -> None:
    found, changes = diff(old, new), explain(old, new)
    diff_json(found, changes)
    _plain(render_diff(found, DiffOptions(), _WIDTH, False, True))
    _plain(render_changes(changes, _WIDTH, False, True))


def _saved_again(profile: Profile, path: str) -> None:
    """A profile that was read can be written, and read again."""
    again = f"{path}.again"
    try:
        save(profile, again)
        load(again)
    finally:
        Path(again).unlink(missing_ok=True)
