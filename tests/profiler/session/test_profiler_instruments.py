"""What `instrument` may say."""

from __future__ import annotations

import pytest

from tileprof.errors import UsageError
from tileprof.profiler.session.instruments import MODES, Inside, parse_instrument


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("sample", 0),
        ("sample=4", 4_000),
        ("sample=2.5", 2_500),
        ("sample=4us", 4_000),
        ("sample=4 µs", 4_000),
        ("sample=500ns", 500),
        ("sample=0.1ms", 100_000),
        ("sample=100ms", 100_000_000),
    ],
)
def test_periods(text: str, period: int) -> None:
    """Microseconds, unless it says another unit."""
    assert parse_instrument(text) == Inside("sample", period)


def test_modes() -> None:
    """All but samples have no period."""
    assert [parse_instrument(mode) for mode in MODES] == [Inside(mode) for mode in MODES]


@pytest.mark.parametrize("text", ["", "all", "stages=4", "off=", "sample 4", "Sample", None, 4, {}])
def test_no_mode(text: object) -> None:
    """What there is is listed."""
    with pytest.raises(UsageError, match="is unknown") as raised:
        parse_instrument(text)
    assert raised.value.hint == "Use one of off, scopes, stages, ops, sample, sample=PERIOD."


@pytest.mark.parametrize(
    "text", ["", "0", "-4", "99ns", "101ms", "4 s", "fast", "1e3", "nan", "4,5"]
)
def test_no_period(text: str) -> None:
    """The way out says what one looks like."""
    with pytest.raises(UsageError, match=f"'sample={text}' has no such period") as raised:
        parse_instrument(f"sample={text}")
    assert raised.value.hint is not None
    assert "sample=500ns" in raised.value.hint
