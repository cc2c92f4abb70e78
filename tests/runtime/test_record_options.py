"""What of a launch is recorded: as a user says it, what is refused, which warps that are."""

from __future__ import annotations

from typing import Any

import pytest

from tileprof.errors import UsageError
from tileprof.runtime.record_options import RecordOptions, parse_record_options


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (None, RecordOptions()),
        ({}, RecordOptions()),
        ("blocks=all", RecordOptions(blocks="all")),
        ({"blocks": 4, "warps": [8, 0, 0]}, RecordOptions(4, (0, 8))),
        ({"warps": 3, "memory": 1 << 30}, RecordOptions(warps=(3,), memory=1 << 30)),
        ("warps=roles,keep=first", RecordOptions(warps="roles", keep="first")),
        ("records=5000, memory=64 MB", RecordOptions(records=8192, memory=64 << 20)),
        ("records=1", RecordOptions(records=64)),
        (
            "blocks=16,warps=0-3+8,records=8192,keep=last,memory=256MB",
            RecordOptions(16, (0, 1, 2, 3, 8), 8192, "last", 256 << 20),
        ),
    ],
)
def test_options(given: Any, made: RecordOptions) -> None:
    """In code and on the command line."""
    assert parse_record_options(given) == made
    assert parse_record_options(made) is made
    assert parse_record_options(str(made) or None) == made


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (7, "inside is 7"),
        ("", "inside: '' is not of the form NAME=VALUE"),
        ("blocks", "inside: 'blocks' is not of the form NAME=VALUE"),
        ("block=4", "inside has no option 'block'"),
        ({"blocks": 0}, "inside: blocks is 0"),
        ({"blocks": True}, "inside: blocks is True"),
        ({"blocks": 1.5}, "inside: blocks is 1.5"),
        ("warps=", "inside: warps is ''"),
        ("warps=3-1", "inside: warps is \\[\\]"),
        ("warps=32", "inside: warps is 32"),
        ("warps=0-x", "inside: warps is '0-x'"),
        ({"warps": []}, "inside: warps is \\[\\]"),
        ({"warps": [-1]}, "inside: warps is -1"),
        ("records=0", "inside: records is '0'"),
        ("records=2000000", "inside: records is '2000000'"),
        ("keep=newest", "inside: keep is 'newest'"),
        ("memory=4GB", "inside: memory is '4GB'"),
        ("memory=1.5GB", "inside: memory is '1.5GB'"),
        ({"memory": True}, "inside: memory is True"),
        ("memory=1MB", "memory of 1,048,576 bytes is too little for 32,768 records of 64 warps"),
    ],
)
def test_refused(given: Any, message: str) -> None:
    """With a way out."""
    with pytest.raises(UsageError, match=message) as raised:
        parse_record_options(given)
    assert raised.value.hint


def test_which_warps() -> None:
    """Of two warp groups and a producer group, and of a kernel without one."""

    def of(warps: Any, consumers: int = 8, whole: int = 12) -> tuple[int, ...]:
        return RecordOptions(warps=warps).warps_of(consumers, whole)

    assert of("all") == tuple(range(9))
    assert of("all", 8, 8) == tuple(range(8))
    assert of("roles") == (0, 4, 8)
    assert of("roles", 2, 6) == (0, 2)
    assert of("cta") == (0, 8)
    assert of("cta", 4, 4) == (0,)
    assert of((0, 3, 8, 9)) == (0, 3, 8)
    assert of((9,)) == ()
