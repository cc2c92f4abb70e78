"""Patterns of memory instructions: what is launched is what is meant, and a rule behind counters is
found again."""

from __future__ import annotations

import json
import struct
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.access_patterns import __main__ as main
from benchmarks.access_patterns import bodies, compiling, copy_models, fitting, launching, models
from benchmarks.access_patterns.catalogue import by_name, catalogue
from benchmarks.access_patterns.patterns import LANES, MEMORY, OFF, SHARED, Pattern
from tests.cuda.compiled_kernels import need_machine_code
from tests.cuda.fake_driver import FakeDriver
from tileprof.runtime.cuda.driver import DriverFailure

PATTERNS = catalogue()
EVERY = by_name(PATTERNS.values())
LOCAL_BYTES = 512


def test_patterns_have_names_of_their_own_and_stay_in_their_memory() -> None:
    """Each lane's address is a multiple of its width."""
    assert len(EVERY) == sum(map(len, PATTERNS.values()))
    reach = {"shared": SHARED, "matrices": SHARED, "shared atomics": SHARED, "local": LOCAL_BYTES}
    for each in EVERY.values():
        if each.box is not None:
            continue
        width = copy_models.width_of(each) if each.group == "copies" else models.width_of(each)
        for lanes, end in ((each.first, reach.get(each.group, MEMORY)), (each.second, MEMORY)):
            asked = [at for at in lanes if at != OFF]
            assert 0 <= min(asked) <= max(asked) <= end - width, each.name
            assert not any(at % width for at in asked), each.name
        if each.group == "copies":
            assert max(each.second) <= SHARED - width


def test_rows_of_boxes_begin_at_multiples_of_16_bytes() -> None:
    """The copy engine stops the context at others, and the rest of the group has no counters."""
    boxes = [each.box for each in PATTERNS["boxes"] if each.box is not None]
    assert not [each for each in boxes if each.start[0] * each.element % 16]
    assert any(each.start[0] + each.box[0] > each.shape[0] for each in boxes)


def test_a_pattern_that_breaks_its_process_is_left_out_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others of the group are counted; each recording has patterns from all over the group."""
    patterns, out = PATTERNS["boxes"][:130], tmp_path / "boxes.json"
    recordings: list[list[str]] = []

    def launch(pattern: Pattern) -> None:
        if pattern is patterns[4]:
            raise DriverFailure("cuStreamSynchronize", 715, "ILLEGAL_INSTRUCTION", "stopped")

    def of_scopes(profile: object, chosen: list[Pattern], metrics: object) -> dict[str, Any]:
        recordings.append([each.name for each in chosen])
        return {each.name: {"bytes read": 1.0} for each in chosen}

    recorder = SimpleNamespace(
        profile=lambda *_, **__: nullcontext(), scope=nullcontext, load=lambda path: path
    )
    monkeypatch.setattr(main, "tileprof", recorder)
    monkeypatch.setattr(main, "of_scopes", of_scopes)
    with pytest.raises(SystemExit, match="broke the context"):
        main.record_launches(patterns, {}, launch, out, 60.0)
    main.record_launches(patterns, {}, launch, out, 60.0)
    assert set(json.loads(out.read_text())) == {each.name for each in patterns} - {patterns[4].name}
    assert recordings[-3][:2] == [patterns[0].name, patterns[3].name]


def test_each_kernel_has_the_instruction_that_it_is_about() -> None:
    """And no other that accesses memory."""
    need_machine_code()
    assert not compiling.unexpected(compiling.compiled())


@pytest.mark.parametrize("group", PATTERNS)
def test_a_launch_has_the_addresses_of_its_pattern(group: str) -> None:
    """One warp; the lanes' numbers, or the tensor map and where the box begins."""
    gpu = FakeDriver()
    gpu.sizes = {bodies.kernel_of(name): bodies.PARAMETERS for name in bodies.BODIES}
    with gpu.device.current():
        launch = launching.Launches(gpu.device, b"", lambda size: 0x5000)
        patterns = [each for each in EVERY.values() if each.group == group]
        for each in patterns:
            launch(each)
    assert len(gpu.launches) == len(patterns) > 20
    maps = iter(gpu.encoded)
    for each, made in zip(patterns, gpu.launches):
        assert (made.function, made.grid, made.block) == (
            bodies.kernel_of(each.body), (1, 1, 1), (LANES, 1, 1),
        )  # fmt: skip
        assert (made.aligned[0], made.words()[2]) == (64, 0x5000)
        numbers = struct.unpack("96i", made.parameters[1])
        if each.box is None:
            assert numbers == (*each.first, *each.second, *each.count)
        else:
            rank, encoded = len(each.box.box), next(maps)
            assert numbers[LANES : LANES + rank] == each.box.start
            assert numbers[-1] == each.box.bytes
            assert encoded["shape"] == list(each.box.shape)
            assert encoded["box"] == list(each.box.box)


def played(rule: str, zeros: str) -> dict[str, dict[str, float]]:
    """Counters of copies of 8 bytes by a rule."""
    return {
        each.name: {"wavefronts": copy_models.copy_parts(each)[rule][0]
                    + copy_models.copy_zeros(each)[zeros]}
        for each in PATTERNS["copies"] if each.body == "ca8"
    }  # fmt: skip


@pytest.mark.spread("line + row-zeros by row")
@pytest.mark.parametrize(
    ("rule", "zeros"),
    [("line + row", "zeros by row"), ("sector + 8 lanes", "zeros are free")],
)
def test_the_rule_behind_counters_is_found_again(rule: str, zeros: str) -> None:
    """Few others agree with all patterns, and the page's rule does not."""
    counted = played(rule, zeros)
    title, *told = fitting.report({"copies": counted})
    values = {name: each["wavefronts"] for name, each in counted.items()}
    found = fitting.fits(*fitting.expected_copies([EVERY[name] for name in counted]), values)
    assert f"groups by {rule}; {zeros}" in found.agreeing
    assert "page" not in found.agreeing
    assert len(found.agreeing) < len(found.models) / 100
    assert f": {len(found.agreeing)} of {len(found.models)} models agree" in title
    assert told[0] == f"  holds: {found.agreeing[0]}"


def test_a_counter_that_no_rule_explains_has_its_nearest_ones() -> None:
    """With patterns that they miss."""
    pattern: Pattern = PATTERNS["boxes"][0]
    text = list(fitting.report({"boxes": {pattern.name: {"bytes read": 7.0}}}))
    assert text[0].endswith("0 of 4 models agree with 1 patterns")
    assert any(f"{pattern.name}: expects" in line and "counted 7" in line for line in text)


def test_some_copies_are_counted_by_instruction_too() -> None:
    """Each with a kernel of its own, which takes NVRTC 60 ms."""
    chosen = main.named(EVERY)
    assert 20 < len(chosen) == len({each.name for each in chosen.values()}) < 100
    assert {each.body for each in chosen.values()} == {"cg16"}
