"""Every mistake in a kernel gets a sentence, the line with a caret, and a way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lang.call_mistakes import CALL_MISTAKES
from tests.lang.mistakes import MISTAKES
from tileprof.errors import InternalError, TileprofError


def message(mistake: Callable[[], object]) -> str:
    """The class and the whole text of the error."""
    with pytest.raises(TileprofError) as caught:
        mistake()
    error = caught.value
    assert not isinstance(error, InternalError)
    assert error.hint, f"no way out: {error}"
    text = str(error).replace(str(Path(__file__).parent) + "/", "")
    return f"{type(error).__name__}: {re.sub(r'0x[0-9a-f]+', '0x…', text)}"


ALL = {**MISTAKES, "calls": CALL_MISTAKES}


@pytest.mark.parametrize("group", ALL)
def test_messages(group: str, golden: Callable[[str], None]) -> None:
    """The whole message of each mistake."""
    golden("\n\n".join(f"# {n}\n{message(m)}" for n, m in ALL[group].items()) + "\n")
