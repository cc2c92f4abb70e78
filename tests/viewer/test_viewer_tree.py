"""The tree in a terminal: whole views of small profiles, and laws for all of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies_profile import profiles
from tests.viewer.samples import matmul, node, profile_of, with_children
from tileprof.errors import Location, UsageError
from tileprof.profile import STANDARD, Metric, Profile, Symbol, Tables, TreeBuilder, build
from tileprof.profile.thread_times import PROCESSOR_WAIT
from tileprof.profile.units import format_value
from tileprof.profiler.tree.metrics import BLOCK_TIME, MARK_TIME, MARKS
from tileprof.viewer import ViewOptions, export, render, render_view
from tileprof.viewer.selection import select
from tileprof.viewer.text import width_of

Golden = Callable[..., None]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(ViewOptions(), id="default"),
        pytest.param(ViewOptions(mode="bottom-up"), id="bottom-up"),
        pytest.param(ViewOptions(mode="flat"), id="flat"),
        pytest.param(ViewOptions(include="soft", threshold=0), id="include"),
        pytest.param(ViewOptions(exclude="load|host", depth=4), id="exclude-and-depth"),
        pytest.param(ViewOptions(metrics=("cpu_time",)), id="cpu-time"),
    ],
)
def test_a_view_in_80_columns(options: ViewOptions, golden: Golden) -> None:
    """Each option does to the tree what its help says, and the lines below account for the rest."""
    golden(render_view(matmul(), options))


def test_more_metrics_stand_beside_the_first(golden: Golden) -> None:
    """Every name of `-m` is a column, rates included; the first one ranks and is shown in full."""
    metrics = ("time", "gflop/s", "gbyte/s", "bytes", "avg_time", "time_max")
    golden(render_view(matmul(), ViewOptions(metrics=metrics, threshold=0), width=130))


def test_a_narrow_terminal_loses_columns_not_their_alignment(golden: Golden) -> None:
    """Whole columns go, a line says which, and names are cut in their middle."""
    options = ViewOptions(metrics=("time", "gflop/s", "bytes"), threshold=0)
    golden(render_view(matmul(), options, width=44))


def test_plain_terminals_get_ascii(golden: Golden) -> None:
    """Without Unicode every character is ASCII."""
    text = render_view(matmul(), ViewOptions(), unicode=False)
    assert text.isascii()
    golden(text)


def test_a_tree_begins_with_what_the_program_did() -> None:
    """How long it ran, what devices did meanwhile, and what they waited for."""
    profile = profile_of(
        with_children(
            node("scope", "main", cpu_time=3e9),
            node("kernel", "k", time=400e6, count=2000),
            node("memcpy", "HtoD", time=100e6, count=1),
            node("idle", "waiting for its launch", idle_time=30e6, count=9),
            node("idle", "waiting for the host", idle_time=10e6, count=1),
            node("idle", "only copies", idle_time=90e6, count=1),
        ),
        tables=Tables(provenance={"duration": "4.000 s"}),
        metrics={"idle_time": Metric("idle_time", "ns")},
    )
    said = (
        "The program ran for 4.00 s. Devices were busy for 500 ms (92.6 %) with 2,001 kernels and"
        " copies, and idle for 40.0 ms in between (waiting for its launch 75.0 %, waiting for the"
        " host 25.0 %). The host's cpu_time is 3.00 s."
    )
    assert said in " ".join(render_view(profile, ViewOptions(), width=100).split())
    for parts in (ViewOptions(include="k"), ViewOptions(mode="flat"), ViewOptions(("time",))):
        assert "The program ran" not in render_view(profile, parts, width=100)


def test_set_up_is_no_part_of_what_devices_did() -> None:
    """Compilation and first calls leave devices idle that the steps keep busy."""
    builder = TreeBuilder()
    builder.declare(Metric("idle_time", "ns"))
    for phase, busy, count, reason, idle in (
        ("set-up", 100e6, 5, "waiting for the host", 900e6),
        ("", 300e6, 20, "waiting for its launch", 100e6),
    ):
        main = builder.child(-1, "scope", "main", None, phase)
        kernel = builder.child(main, "kernel", "k", None, phase)
        builder.add(kernel, "time", busy)
        builder.add(kernel, "count", count)
        builder.add(builder.child(main, "idle", reason, None, phase), "idle_time", idle)
    profile = builder.snapshot(Tables(provenance={"duration": "6.000 s"}))
    said = (
        "The program ran for 6.00 s. After set-up, devices were busy for 300 ms (75.0 %) with 20"
        " kernels and copies, and idle for 100 ms in between (waiting for its launch 100.0 %)."
    )
    assert said in " ".join(render_view(profile, ViewOptions(), width=100).split())


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("cpu_time", "ran for 6.00 s; cpu_time after set-up (wall time of its threads, waiting "
         "included) is 2.00 s."),
        ("time", "ran for 6.00 s. After set-up, devices were busy for 2.00 s (33.3 %)."),
    ],
)  # fmt: skip
def test_steps_alone_are_said_to_be_after_set_up(metric: str, said: str) -> None:
    """The wall time is that of the whole program, so the host has no share of it."""
    provenance = {"duration": "6.000 s", "set-up": "2 steps of optimizers, and what was before"}
    profile = profile_of(
        node("scope", "main", **{metric: 2e9}), tables=Tables(provenance=provenance)
    )
    assert said in " ".join(render_view(profile, ViewOptions(), width=100).split())


def test_colours_follow_the_share() -> None:
    """Hot is red; notes and tree lines are dim; without colour the text is the same."""
    profile = profile_of(
        with_children(node("scope", "main"), node("kernel", "k", time=900)),
        node("kernel", "rest", time=100),
    )
    text = render(profile, ViewOptions(), 60, color=True, unicode=True)
    assert "\x1b[1;31m 900 ns\x1b[0m  \x1b[1;31m 90.0\x1b[0m" in text
    assert "\x1b[33m 100 ns\x1b[0m  \x1b[33m 10.0\x1b[0m" in text
    assert "\x1b[2m└─ \x1b[0mk  \x1b[2mkernel\x1b[0m" in text
    assert _plain(text) == render(profile, ViewOptions(), 60, color=False, unicode=True)


def test_siblings_come_by_cost_and_equals_as_first_seen() -> None:
    """The first metric ranks siblings; a tie keeps the order of the program."""
    profile = profile_of(*(node("scope", name, time=t) for name, t in zip("abcd", (5, 9, 5, 9))))
    assert _names(render_view(profile, ViewOptions())) == ["total", "b", "d", "a", "c"]


def test_scopes_in_kernels_show_single_visits() -> None:
    """A scope within a kernel tells its average visit and, where measured, the extremes."""
    site = node("site", "load", time=900, count=3, time_min=100, time_max=500)
    profile = profile_of(with_children(node("kernel", "k", count=1, time=0), site))
    assert "load  avg 300 ns (100 ns – 500 ns)" in render_view(profile, ViewOptions(), width=100)


@pytest.mark.parametrize(
    ("mark_time", "note"), [(8, ""), (10, "±1.0% by 8 marks a visit"), (300, "±30% by 8 marks")]
)
def test_by_how_much_measuring_changed_a_site(mark_time: int, note: str) -> None:
    """From a percent on beside its visits; always a column that can be asked for."""
    of_site = {"block_time": 1000, "mark_time": mark_time, "marks": 24}
    site = node("site", "load", time=900, count=3, **of_site)
    metrics = {metric.name: metric for metric in (BLOCK_TIME, MARK_TIME, MARKS)}
    kernel = with_children(node("kernel", "k", count=1, time=0), site)
    profile = profile_of(kernel, metrics=metrics)
    shown = render_view(profile, ViewOptions(), width=100)
    assert (note in shown) if note else ("±" not in shown)
    table = render_view(profile, ViewOptions(metrics=("time", "perturbation")), width=100)
    assert f" {format_value(mark_time / 1000, 'share')} " in table


def test_the_default_metric_is_host_time_where_no_device_worked() -> None:
    """A profile with no kernel is ranked by `cpu_time`."""
    profile = profile_of(node("scope", "read", cpu_time=2_000, time=0))
    assert render_view(profile, ViewOptions()).startswith("cpu_time ")


def test_a_metric_of_the_users_own_is_a_column() -> None:
    """Unknown units are kept, with a multiple before them; extremes have no share."""
    metrics = {"heat": Metric("heat", "J", "max")}
    profile = profile_of(node("scope", "oven", time=1, heat=4_500), metrics=metrics)
    text = render_view(profile, ViewOptions(metrics=("heat",)))
    assert "4.50 kJ" in text
    assert "%" not in text.splitlines()[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ViewOptions(metrics=("tiem",)),
            "the profile has no metric `tiem`\nDid you mean `time`? It has: time, cpu_time, count, "
            "time_min, time_max, flops, bytes, gflop/s, tflop/s, gbyte/s, tbyte/s, avg_time, "
            "avg_cpu_time.",
        ),
        (ViewOptions(threshold=101), "the threshold 101 is not a percentage"),
        (ViewOptions(threshold=float("nan")), "the threshold nan is not a percentage"),
        (ViewOptions(include="("), "is not a regular expression"),
        (ViewOptions(depth=0), "depth"),
    ],
)
def test_a_wrong_option_says_what_would_be_right(options: ViewOptions, message: str) -> None:
    """Mistakes in options are usage errors with a sentence and a way out."""
    with pytest.raises(UsageError, match=re.escape(message)):
        render_view(matmul(), options)


def test_an_unknown_view_names_those_there_are() -> None:
    """The registry answers for what it lacks."""
    with pytest.raises(UsageError, match=r"no view `pie`\nThe views are: tree, lines, sass,"):
        render_view(matmul(), ViewOptions(), "pie")


def test_an_empty_profile_says_so() -> None:
    """Nothing recorded is a sentence, not an error and not an empty screen."""
    said = render_view(profile_of(), ViewOptions())
    assert said == "The profile is empty: nothing was recorded.\n"
    said = render_view(profile_of(node("frame", "main")), ViewOptions())
    assert said.startswith("The profile holds a tree, but no metric that adds up")


def test_a_stack_1500_deep_is_drawn() -> None:
    """Depth costs no recursion: the last levels are drawn after a count of those above."""
    tree = node("kernel", "bottom", time=7)
    for level in reversed(range(1_500)):
        tree = with_children(node("frame", f"f{level}", f"deep.py:{level + 1}"), tree)
    lines = render_view(profile_of(tree), ViewOptions(frames="all")).splitlines()
    assert len(lines) == 1 + 1 + 1_501 + 1
    assert re.search(r"…1\d\d\d +└─ bottom  kernel$", lines[-2])


def test_a_large_tree_is_pruned_before_it_is_drawn(
    calls: Callable[[Callable[[], object]], int],
) -> None:
    """The whole default view of 100,000 nodes calls at most four functions for each."""
    profile = _large(100_000)
    assert calls(lambda: render_view(profile, ViewOptions(), width=120)) < 400_000
    assert "Folded: " in render_view(profile, ViewOptions(), width=120)


@given(
    profiles(),
    st.integers(40, 120),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["top-down", "bottom-up", "flat"]),
    st.sampled_from([(), ("wall", "energy"), ("time_min", "clock", "time")]),
)
def test_no_line_is_wider_than_asked(
    profile: Profile, width: int, color: bool, unicode: bool, mode: Any, metrics: tuple[str, ...]
) -> None:
    """Whatever is shown, in either character set, with or without colour: lines fit."""
    options = ViewOptions(tuple(m for m in metrics if m in profile.metrics), mode=mode)
    text = render(profile, options, width, color, unicode)
    assert text.endswith("\n")
    assert max(width_of(_plain(line)) for line in text.splitlines()) <= width


@given(
    profiles(max_nodes=20),
    st.sampled_from([0, 1, 10, 60]),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, "a", "b|c"]),
    st.sampled_from([None, "c"]),
    st.sampled_from(["top-down", "bottom-up", "flat"]),
)
def test_what_is_shown_and_what_is_folded_is_the_whole(
    profile: Profile,
    threshold: float,
    depth: int | None,
    include: str | None,
    exclude: str | None,
    mode: Any,
) -> None:
    """Own values of the nodes in the view and the amounts of the fold lines add up to the total."""
    metrics = ("energy",) if "energy" in profile.metrics else ()
    options = ViewOptions(metrics, include, exclude, threshold, depth, mode)
    selection = select(profile, options, 0.5)
    selection.profile.check()
    if metric := selection.metric:
        shown = selection.profile.own[metric].sum()
        folded = sum(fold.amount for fold in selection.folds)
        scale = float(np.abs(profile.own[metric]).sum()) + 1
        assert shown + folded == pytest.approx(profile.whole[metric], abs=1e-9 * scale)


@settings(max_examples=30)
@given(profiles())
def test_columns_line_up(profile: Profile) -> None:
    """In every row the text of a numeric column ends in the same place as its title."""
    lines = render(profile, ViewOptions(threshold=0), 100, False, True).splitlines()
    if "%" in lines[0]:
        end = lines[0].index("%") + 1
        rows = [line for line in lines[2:] if re.match(r" *-?[\d.]", line)]
        assert all(re.fullmatch(r"[\d ]?", line[end - 1 : end]) for line in rows)
        assert all(line[end : end + 2] in ("  ", "") for line in rows)


def _plain(text: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", text)


def _names(text: str) -> list[str]:
    """The names of the rows, of a view without nesting and notes other than the kind."""
    rows = [line for line in text.splitlines() if re.match(r" *\d", line)]
    return [row.removesuffix("  scope").split()[-1] for row in rows]


def _large(count: int) -> Profile:
    """A tree of `count` nodes, some twenty deep, whose costs have a long tail."""
    random = np.random.default_rng(1)
    symbols = [
        Symbol("frame", f"function_{i}", Location(f"module_{i % 50}.py", i + 1))
        for i in range(2_000)
    ]
    parents = np.arange(count) - 1 - random.integers(0, np.minimum(np.arange(count), 3_000) + 1)
    names = ("time", "cpu_time", "count")
    own = {name: (random.pareto(1.2, count) * 1_000).astype(np.int64) for name in names}
    return build(
        symbols,
        random.integers(0, len(symbols), count),
        np.maximum(parents, -1),
        {name: STANDARD[name] for name in names},
        own,
    )


@pytest.mark.parametrize(
    ("cpu_time", "said"),
    [(5.4e9, "is 5.40 s, 90.0 % of that."), (48e9, "is 48.0 s: 8.0 threads at a time on average.")],
)
def test_threads_at_a_time_are_said_rather_than_a_percentage_above_all(
    cpu_time: float, said: str
) -> None:
    """800 % of the wall time is nothing that a reader has a use for."""
    tables = Tables(provenance={"duration": "6.000 s"})
    profile = profile_of(node("frame", "main", "m.py:1", cpu_time=cpu_time), tables=tables)
    assert said in " ".join(render_view(profile, ViewOptions(), width=100).split())


@pytest.mark.parametrize(("waited", "said"), [("5.000 s", True), ("0.500 s", False), ("", False)])
def test_a_long_wait_for_processors_is_said(waited: str, said: bool) -> None:
    """All times are longer then, whatever the program does."""
    facts = {"duration": "6.000 s", PROCESSOR_WAIT: waited}
    profile = profile_of(
        node("frame", "f", "m.py:1", cpu_time=6e9), tables=Tables(provenance=facts)
    )
    shown = render_view(profile, ViewOptions(), width=100)
    assert ("the main thread waited 5.00 s of 6.00 s for one" in shown) == said


def test_a_filter_that_leaves_nothing_is_said() -> None:
    """An empty tree would look like a program that did nothing; folds name the filters given."""
    assert "Nothing is left by -i 'nosuch'. It" in render_view(
        matmul(), ViewOptions(include="nosuch"), width=100
    )
    assert "left out by -e," in render_view(matmul(), ViewOptions(exclude="forward"), width=100)


@pytest.mark.parametrize("name", ["__init__.py", "__main__.py"])
def test_files_that_every_package_has_are_named_with_their_folder(name: str) -> None:
    """`__main__.py:9` says nothing; `pytest/__main__.py:9` does."""
    profile = profile_of(node("frame", "<module>", f"/x/pytest/{name}:9", cpu_time=5))
    assert f"pytest/{name}:9" in render_view(profile, ViewOptions(), width=100)


def recursive(names: list[str]) -> Profile:
    """Functions that call each other in turn, the last of which works."""
    builder, at = TreeBuilder(), -1
    for name in names:
        place = Location("/w/a.py", 3 + len(name), function=name)
        at = builder.child(at, "frame", name, place)
    builder.add(at, "cpu_time", 1e9)
    return builder.snapshot()


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["main", *["f"] * 1000, "end"], "main a.py:7 → f a.py:4 ×1,000 → end"),
        (["main", *["f", "gg"] * 50, "end"], "main a.py:7 → (f a.py:4 → gg a.py:5) ×50 → end"),
        (["main", "f", "f", "end"], "main a.py:7 → f a.py:4 → f a.py:4 → end"),
    ],
)
def test_a_recursion_says_how_deep_it_is(names: list[str], told: str) -> None:
    """One name with its turns, not hundreds that are left out of a line."""
    assert told in render_view(recursive(names), ViewOptions(), width=120)
    plain = render_view(recursive(names), ViewOptions(), width=120, unicode=False)
    assert told.replace("→", ">").replace("×", "x") in plain


ESTIMATES = ("table_bytes", "row_bytes", "shared_table_bytes", "slots", "padding", "op_bytes")


@pytest.mark.parametrize("view", ["tree", "json", "csv"])
def test_estimates_of_rules_are_no_metrics_of_views(view: str) -> None:
    """They are known from a sample of visits, and mean nothing without the rule that reads them."""
    builder = TreeBuilder()
    at = builder.child(-1, "op", "aten::embedding")
    builder.add(at, "cpu_time", 1e9)
    for name in ESTIMATES:
        builder.declare(Metric(name, "1"))
        builder.add(at, name, 5)
    profile = builder.snapshot()
    text = render_view(profile, ViewOptions(), view)
    assert not [name for name in ESTIMATES if name in text]
    with pytest.raises(UsageError) as raised:
        render_view(profile, ViewOptions(metrics=("nosuch",)))
    assert raised.value.hint == "It has: cpu_time."
    for name in ("speedscope", "hatchet", "chrome"):
        exported = export(profile, name)
        assert isinstance(exported, str)
        assert "cpu_time" in exported or name == "chrome"
        assert not [each for each in ESTIMATES if each in exported]


def test_a_group_is_marked_as_what_it_is() -> None:
    """No row of a group is a scope of the program."""
    text = render_view(matmul(), ViewOptions(group="kernel"), width=100)
    assert re.search(r" matmul +kernel$", text, re.MULTILINE)
    assert not re.search(r" (matmul|\(no kernel\)) +scope", text)
