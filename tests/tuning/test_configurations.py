"""Configurations as text and JSON, and what failed ones rule out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprof.errors import UsageError
from tileprof.lang import GemmWarpPolicy
from tileprof.tuning.autotuned import listed_configurations
from tileprof.tuning.configurations import Configuration
from tileprof.tuning.ruled_out import RuledOut
from tileprof.tuning.space import Space, Tunable

NAMES = st.sampled_from(["block_M", "block_N", "stages", "threads"])
VALUES = st.one_of(
    st.integers(-5, 2048), st.booleans(), st.text(max_size=4), st.none(),
    st.sampled_from(GemmWarpPolicy),
)  # fmt: skip
CONFIGURATIONS = st.builds(
    Configuration.of,
    st.dictionaries(NAMES, VALUES),
    st.fixed_dictionaries({}, optional={"cluster": st.integers(2, 8), "overlap": st.booleans()}),
)


@given(CONFIGURATIONS)
def test_configurations_survive_json(held: Configuration) -> None:
    """A configuration is the same after a way through JSON text."""
    assert Configuration.from_json(json.loads(json.dumps(held.as_json()))) == held


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ([1], "cannot be"),
        ({"block": [1, 2]}, "cannot set `block`"),
        ({"controls": {"clusters": 2}}, "no control `clusters`"),
        ({"controls": {"cluster": 99}}, "cannot be 99"),
    ],
)
def test_what_is_no_configuration_is_refused(held: object, said: str) -> None:
    """A list, a value that is no number, a control that does not exist, or has no such value."""
    with pytest.raises(UsageError, match=said):
        Configuration.from_json(held)


def test_a_dict_of_lists_stands_for_all_combinations() -> None:
    """Lists of configurations may be written as one dict."""
    made = listed_configurations({"block": [32, 64], "stages": (2, 3), "threads": 128})
    assert [str(each) for each in made] == [
        "block=32 stages=2 threads=128", "block=32 stages=3 threads=128",
        "block=64 stages=2 threads=128", "block=64 stages=3 threads=128",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="configurations cannot be"):
        listed_configurations("block=32")


SPACE = Space(
    (
        Tunable("block", "tile", 64, (32, 64, 128)),
        Tunable("stages", "stages", 2, (1, 2, 3, 4)),
        Tunable("threads", "threads", 128, (128, 256, 384)),
        Tunable("rows", "raster", 8, (1, 8)),
    )
)


def _of(block: int, stages: int, threads: int, rows: int = 8, **controls: object) -> Configuration:
    values = {"block": block, "stages": stages, "threads": threads, "rows": rows}
    return Configuration.of(values, controls)


@pytest.mark.parametrize(
    ("resource", "other", "out"),
    [
        ("shared memory", _of(64, 3, 128), True),
        ("shared memory", _of(128, 4, 128, rows=1), True),
        ("shared memory", _of(32, 4, 128), False),
        ("shared memory", _of(64, 2, 128), False),
        ("shared memory", _of(64, 3, 256), False),
        ("shared memory", _of(64, 3, 128, cluster=2), False),
        ("registers", _of(128, 1, 128), True),
        ("registers", _of(64, 1, 128, cluster=2), True),
        ("registers", _of(64, 3, 128, overlap=True), False),
        ("registers", _of(64, 3, 256), False),
        ("registers", _of(32, 3, 128), False),
        ("threads", _of(32, 1, 384), True),
        ("threads", _of(128, 4, 128), True),
    ],
)
def test_a_failure_rules_out_what_is_larger(resource: str, other: Configuration, out: bool) -> None:
    """Shared memory grows with tiles and stages, registers with tiles for fewer threads."""
    ruled = RuledOut(SPACE)
    ruled.learn(_of(64, 3, 128), resource)  # type: ignore[arg-type]
    assert (ruled.by(other) is not None) == out


def test_a_part_of_the_threads_lacks_registers_too() -> None:
    """What fails with 384 threads fails with 128; 256 may divide the tile better."""
    ruled = RuledOut(SPACE)
    ruled.learn(_of(64, 2, 384), "registers")
    assert ruled.by(_of(64, 2, 128)) is not None
    assert ruled.by(_of(64, 2, 256)) is None


def test_a_failure_without_a_resource_rules_out_nothing() -> None:
    """A mistake of one configuration says nothing about others."""
    ruled = RuledOut(SPACE)
    ruled.learn(_of(32, 1, 128), None)
    assert ruled.by(_of(128, 4, 128)) is None
