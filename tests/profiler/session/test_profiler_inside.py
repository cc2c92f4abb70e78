"""How much of launches on GPUs is recorded: from what sessions ask for to what launches see."""

from __future__ import annotations

from typing import Any

import pytest

import tileprof.profiler as profiler
from tileprof.errors import UsageError
from tileprof.profiler.options import parse_options
from tileprof.profiler.session.children import _attended
from tileprof.runtime import hooks
from tileprof.runtime.record_options import RecordOptions


def test_sessions_decide() -> None:
    """The newest that asks for something; afterwards the default is back."""
    assert hooks.record_options == RecordOptions()
    outer = profiler.start(context="scopes", inside={"blocks": 4})
    assert hooks.record_options == RecordOptions(blocks=4)
    with profiler.profile(context="scopes"):
        assert hooks.record_options == RecordOptions(blocks=4)
        with profiler.profile(context="scopes", inside="keep=last"):
            assert hooks.record_options == RecordOptions(keep="last")
        assert hooks.record_options == RecordOptions(blocks=4)
    outer.finalize()
    assert hooks.record_options == RecordOptions()


@pytest.mark.parametrize("inside", [7, {"block": 4}, "records=many"])
def test_wrong_ones_are_refused_at_once(inside: Any) -> None:
    """Before anything is recorded."""
    with pytest.raises(UsageError, match="inside"):
        profiler.profile(inside=inside)


def test_children_are_asked_for_the_same(tmp_path: Any) -> None:
    """A spawned process is told on its command line."""
    session = profiler.start(context="scopes", inside={"warps": [0, 4], "memory": "64MB"})
    text = _attended(session, tmp_path)
    session.finalize()
    told = eval(text[text.index("attend(") + len("attend") :].strip())[1]
    assert parse_options(**told).inside == session.options.inside
