"""Where work of GPUs was launched: calls, kernels, late records, graphs."""

from __future__ import annotations

import ctypes
import threading
from types import CodeType

from tests.native.cupti_programs import (
    ADD_NODE,
    ALLOC,
    BEGIN_CAPTURE,
    COOPERATIVE,
    CTX_SYNC,
    DEVICE,
    DTOH_ASYNC,
    END_CAPTURE,
    EVENT_QUERY,
    GRAPH_LAUNCH,
    HOST_FUNC,
    HTOD_ASYNC,
    LAUNCH,
    LAUNCH_EX,
    LAUNCH_PTSZ,
    NODE_CLONED,
    NODE_CREATED,
    PINNED,
    Fake,
)

NO_CAPTURE, SPOILED, WRONG_THREAD = 401, 901, 908
"""Results of the driver's calls that begin and end captures."""


def test_launches_are_told_by_the_drivers_call(fake: Fake) -> None:
    """Without what tells its versions apart."""
    for number in (LAUNCH, LAUNCH_PTSZ, LAUNCH_EX, COOPERATIVE):
        with fake.range("train"):
            fake.kernel(number=number)
    assert [(r.path, r.count) for r in fake.rows("kernel")] == [
        ("train cuLaunchCooperativeKernel", 1),
        ("train cuLaunchKernel", 2),
        ("train cuLaunchKernelEx", 1),
    ]


def test_calls_that_leave_no_records_are_not_listened_to(fake: Fake) -> None:
    """Host functions, and questions whether an event has come."""
    listened = fake.c.fake_listened
    assert [listened(1, n) for n in (LAUNCH, ALLOC, HOST_FUNC, EVENT_QUERY, 1)] == [1, 1, 0, 0, 0]


def test_what_costs_too_much_is_never_asked_for(fake: Fake) -> None:
    """Profiled modules and serialized kernels keep samples of program counters away; records of
    waits take 3 µs of every launch."""
    assert [fake.c.fake_listened(3, n) for n in (8, NODE_CREATED, NODE_CLONED)] == [0, 1, 1]
    assert fake.c.fake_kinds() == sum(1 << k for k in (10, 1, 2, 22, 17, 49))


def test_our_own_kernels_are_told_by_their_node(fake: Fake) -> None:
    """While the thread is launching one; copies and other threads stay the driver's."""
    entered = fake.recorder.enter_kernel(42)
    fake.kernel()
    fake.copy(HTOD_ASYNC, PINNED, DEVICE, 8, 2000, 2100)
    thread = threading.Thread(target=fake.kernel)
    thread.start()
    thread.join()
    fake.recorder.leave(entered)
    fake.kernel()
    assert [(r.what, r.path, r.count) for r in fake.rows() if r.what != "idle"] == [
        ("kernel", "#42", 1),
        ("memcpy", "#42 cuMemcpyHtoDAsync", 1),
        ("kernel", "cuLaunchKernel", 2),
    ]


def test_variants_differ_in_all_that_decides_occupancy(fake: Fake) -> None:
    """And in device and name; the grid is not part of them."""
    shapes: list[dict[str, object]] = [
        {},
        {"grid": (9, 1, 1)},
        {"block": (64, 2, 1)},
        {"cluster": (2, 1, 4)},
        {"registers": 255},
        {"static_shared": 1024},
        {"dynamic_shared": 232_448},
        {"local": 16},
        {"device": 1},
    ]
    for shape in shapes * 2:
        fake.kernel("_Z3addPf", **shape)  # type: ignore[arg-type]
    fake.kernel("mul")
    fake.kernel(None)
    rows = fake.rows("kernel")
    variants = fake.recorder.gpu_variants()
    assert sorted(r.count for r in rows) == [1, 1, 2, 2, 2, 2, 2, 2, 2, 4]
    assert [r.detail for r in rows] == list(range(10))
    assert variants == [
        ("_Z3addPf", 0, 0, (1, 1, 1), (0, 0, 0), 0, 0, 0),
        ("_Z3addPf", 0, 0, (64, 2, 1), (0, 0, 0), 0, 0, 0),
        ("_Z3addPf", 0, 0, (1, 1, 1), (2, 1, 4), 0, 0, 0),
        ("_Z3addPf", 0, 255, (1, 1, 1), (0, 0, 0), 0, 0, 0),
        ("_Z3addPf", 0, 0, (1, 1, 1), (0, 0, 0), 1024, 0, 0),
        ("_Z3addPf", 0, 0, (1, 1, 1), (0, 0, 0), 0, 232_448, 0),
        ("_Z3addPf", 0, 0, (1, 1, 1), (0, 0, 0), 0, 0, 16),
        ("_Z3addPf", 1, 0, (1, 1, 1), (0, 0, 0), 0, 0, 0),
        ("mul", 0, 0, (1, 1, 1), (0, 0, 0), 0, 0, 0),
        ("", 0, 0, (1, 1, 1), (0, 0, 0), 0, 0, 0),
    ]
    assert fake.recorder.gpu_variants(8) == variants[8:]
    assert fake.recorder.demangled("_Z3addPf") == "add(float*)"
    assert fake.recorder.demangled("plain") == "plain"


def test_more_kernels_than_are_remembered_at_once(fake: Fake) -> None:
    """Each keeps its number."""
    for _ in range(2):
        for i in range(6000):
            fake.kernel(f"kernel {i}", start=1000 + i, end=1001 + i)
    rows = fake.rows("kernel")
    assert len(rows) == len(fake.recorder.gpu_variants()) == 6000
    assert {r.count for r in rows} == {2}


def test_records_belong_to_those_who_recorded_at_the_launch(fake: Fake) -> None:
    """However late they come; what was launched while nobody recorded is in no total."""
    first = fake.call()
    fake.recorder.set_epoch(2)
    second = fake.call()
    fake.recorder.set_epoch(0)
    third = fake.call()
    fake.recorder.set_epoch(3)
    for correlation in (third, second, first):
        fake.kernel(correlation=correlation)
    assert sorted((r.epoch, r.count) for r in fake.rows("kernel")) == [(1, 1), (2, 1)]
    assert fake.counts()["outside"] == 1


def test_records_of_unknown_launches_are_under_the_root(fake: Fake) -> None:
    """They are part of what the device did."""
    fake.kernel(correlation=4_000_000_000)
    fake.kernel(correlation=0)
    assert [(r.path, r.epoch, r.count) for r in fake.rows("kernel")] == [("", 1, 2)]
    assert fake.counts()["unattributed"] == 2


def test_a_late_record_finds_its_launch(fake: Fake) -> None:
    """After more launches than there are slots for, in the slot's turn or long after."""
    with fake.range("early"):
        early = [fake.call() for _ in range(20)]
    fake.many(300_000, batch=10_000)
    fake.deliver()
    for correlation in early:
        fake.kernel("late", correlation=correlation)
    rows = fake.rows("kernel")
    assert [(r.path, r.count) for r in rows] == [
        ("cuLaunchKernel", 300_000),
        ("early cuLaunchKernel", 20),
    ]
    assert "evicted" not in fake.counts()


def test_late_record_of_an_own_copy_is_recognised(fake: Fake) -> None:
    """A thread of the measurement copies seldom, so its buffer comes after many launches."""
    fake.recorder.set_unrecorded(True)
    copied = fake.call(DTOH_ASYNC)
    fake.recorder.set_unrecorded(False)
    fake.many(400_000, batch=20_000)  # more than are remembered at once
    fake.copy(DTOH_ASYNC, DEVICE, PINNED, 8, 2000, 2100, correlation=copied)
    assert fake.rows("memcpy") == []
    assert "unattributed" not in fake.counts()
    assert "late" not in fake.counts()  # its time is none of the program's
    assert fake.counts()["outside"] == 1


def test_launches_that_are_given_up_are_counted(fake: Fake) -> None:
    """Where records of very many launches never come, the oldest are forgotten."""
    early = fake.call()
    fake.time_calls(600_000)
    fake.kernel("late", correlation=early)
    assert fake.counts()["evicted"] > 100_000
    assert [(r.path, r.count) for r in fake.rows("kernel")] == [("", 1)]


def test_calls_without_records_do_not_crowd_out_launches(fake: Fake) -> None:
    """Allocations that a version of CUPTI does not record are no loss, however many."""
    early = fake.call()
    fake.time_calls(600_000, ALLOC)
    assert "evicted" not in fake.counts()
    fake.kernel("late", correlation=early)
    assert [(r.path, r.count) for r in fake.rows("kernel")] == [("cuLaunchKernel", 1)]


def test_failed_launches_are_not_waited_for(fake: Fake) -> None:
    """They leave no record, and are not taken for lost."""
    for _ in range(600_000 // 100):
        correlation = fake.c.fake_enter(LAUNCH)
        fake.c.fake_exit(LAUNCH, correlation, 700)
    fake.c.fake_time_calls(ctypes.c_uint64(300_000), EVENT_QUERY)  # numbers without callbacks
    fake.many(300_000, batch=10_000)
    assert "evicted" not in fake.counts()


def test_calls_within_calls_are_left_in_order(fake: Fake) -> None:
    """And callbacks whose counterpart is missing harm nothing."""
    fake.c.fake_exit(LAUNCH, 12345, 0)
    outer = fake.c.fake_enter(ALLOC)
    inner = fake.c.fake_enter(LAUNCH)
    fake.c.fake_exit(LAUNCH, inner, 0)
    fake.c.fake_exit(ALLOC, outer, 0)
    lost = fake.c.fake_enter(LAUNCH)
    outer = fake.c.fake_enter(ALLOC)
    fake.c.fake_exit(LAUNCH, lost, 0)
    for correlation in (inner, lost, fake.call()):
        fake.kernel(correlation=correlation)
    assert [(r.path, r.count) for r in fake.rows("kernel")] == [
        ("cuLaunchKernel", 2),
        ("cuMemAlloc cuLaunchKernel", 1),
    ]


# -- graphs


def test_replayed_kernels_have_the_paths_of_their_capture(fake: Fake) -> None:
    """Under that of the launch, each time; a copy of a node is the node."""
    for node, name in ((100, "forward"), (101, "backward")):
        with fake.range(name):
            captured = fake.c.fake_enter(LAUNCH)
            fake.node(NODE_CREATED, node)
            fake.c.fake_exit(LAUNCH, captured, 0)
    fake.node(NODE_CLONED, 200, 100)
    fake.node(NODE_CLONED, 201, 101)
    for step in range(3):
        with fake.range(f"replay{step % 2}"):
            launched = fake.call(GRAPH_LAUNCH)
        for node in (200, 201, 201):
            fake.kernel(f"k{node}", correlation=launched, node=node)
        fake.copy(HTOD_ASYNC, PINNED, DEVICE, 8, 2000, 2100, correlation=launched, node=201)
    rows = [r for r in fake.rows() if r.what != "idle"]
    forward, backward = "[forward cuLaunchKernel]", "[backward cuLaunchKernel]"
    assert sorted((r.path, r.what, r.count) for r in rows) == [
        (f"replay0 cuGraphLaunch {backward}", "kernel", 4),
        (f"replay0 cuGraphLaunch {backward}", "memcpy", 2),
        (f"replay0 cuGraphLaunch {forward}", "kernel", 2),
        (f"replay1 cuGraphLaunch {backward}", "kernel", 2),
        (f"replay1 cuGraphLaunch {backward}", "memcpy", 1),
        (f"replay1 cuGraphLaunch {forward}", "kernel", 1),
    ]
    assert set(fake.counts()) == {"records", "kernels", "launches"}


def test_graphs_captured_before_the_start_are_under_their_launch(fake: Fake) -> None:
    """Which kernels these are is told."""
    with fake.range("replay"):
        launched = fake.call(GRAPH_LAUNCH)
    fake.node(NODE_CLONED, 301, 300)
    for node in (300, 301):
        fake.kernel(correlation=launched, node=node)
    assert [(r.path, r.count) for r in fake.rows("kernel")] == [("replay cuGraphLaunch", 2)]
    assert fake.counts()["uncaptured"] == 2


def test_captures_during_an_interruption_are_known_after_it(fake: Fake) -> None:
    """Graphs are often captured once and replayed for hours."""
    fake.recorder.gpu_pause()
    with fake.range("capture"):
        fake.node(NODE_CREATED, 400)
    fake.recorder.gpu_resume()
    fake.kernel(correlation=fake.call(GRAPH_LAUNCH), node=400)
    assert [r.path for r in fake.rows("kernel")] == ["cuGraphLaunch [capture]"]


def test_captures_of_a_pause_have_their_paths(fake: Fake) -> None:
    """Of captured calls and of nodes that are added by hand, from the first replay on."""
    fake.pause()
    with fake.range("unseen"):  # ranges of a pause are not recorded
        entered = fake.recorder.enter_kernel(42)
        assert entered == 0
        fake.call(BEGIN_CAPTURE)
        fake.capture(600)
        fake.capture(601, HTOD_ASYNC)
        fake.call(END_CAPTURE)
        fake.capture(602, ADD_NODE)
    fake.node(NODE_CLONED, 700, 600)
    fake.resume()
    launched = fake.call(GRAPH_LAUNCH)
    for node in (700, 700, 602):
        fake.kernel(correlation=launched, node=node)
    fake.copy(HTOD_ASYNC, PINNED, DEVICE, 8, 2000, 2100, correlation=launched, node=601)
    assert [(r.path, r.what, r.count) for r in fake.rows() if r.what != "idle"] == [
        ("cuGraphLaunch [cuGraphAddKernelNode]", "kernel", 1),
        ("cuGraphLaunch [cuLaunchKernel]", "kernel", 2),
        ("cuGraphLaunch [cuMemcpyHtoDAsync]", "memcpy", 1),
    ]
    assert "uncaptured" not in fake.counts()


def test_captured_frames_of_a_pause(fake: Fake) -> None:
    """Among them are some that the recorder has not seen before."""
    fake.recorder.set_frames(True)
    fake.pause()

    def forward() -> None:
        fake.call(BEGIN_CAPTURE)
        fake.capture(800)
        fake.call(END_CAPTURE)

    forward()
    fake.resume()
    fake.kernel(correlation=fake.call(GRAPH_LAUNCH), node=800)
    assert fake.recorder.gpu_flush() == (0, "")
    (replayed,) = (int(c) for c in fake.recorder.gpu_drain()["context"] if c)
    _, _, captured, _ = fake.recorder.contexts(replayed, 1)[0]
    frames = []
    while captured:
        captured, _, code, _ = fake.recorder.contexts(captured, 1)[0]
        if isinstance(code, CodeType):
            frames.append(code.co_name)
    assert frames[:3] == ["capture", "forward", "test_captured_frames_of_a_pause"]


def test_a_pause_listens_to_launches_only_while_a_graph_is_captured(fake: Fake) -> None:
    """On any stream, until the last capture has ended, however it did; and records nothing."""
    listened = fake.c.fake_listened

    def launches() -> list[int]:
        return [listened(1, n) for n in (LAUNCH, HTOD_ASYNC, GRAPH_LAUNCH, CTX_SYNC, ALLOC)]

    def end(returned: int) -> None:
        fake.c.fake_exit(END_CAPTURE, fake.c.fake_enter(END_CAPTURE), returned)

    fake.call(BEGIN_CAPTURE)  # goes on when the pause begins
    fake.pause()
    assert launches() == [1, 1, 1, 0, 0]
    fake.call(BEGIN_CAPTURE)
    end(0)
    assert launches() == [1, 1, 1, 0, 0]
    end(WRONG_THREAD)
    end(NO_CAPTURE)
    fake.kernel(correlation=fake.call())
    assert launches() == [1, 1, 1, 0, 0]
    end(SPOILED)
    assert launches() == [0, 0, 0, 0, 0]
    end(0)
    fake.c.fake_exit(BEGIN_CAPTURE, fake.c.fake_enter(BEGIN_CAPTURE), NO_CAPTURE)
    assert launches() == [0, 0, 0, 0, 0]
    fake.resume()
    assert launches() == [1, 1, 1, 1, 1]
    assert fake.rows("kernel") == []


def test_a_call_that_is_open_when_a_pause_begins_ends_there(fake: Fake) -> None:
    """Its end is not seen: neither the pause nor what is captured in it is the call's."""

    def waits() -> tuple[int, int]:
        """Return how often and how long the program has waited until now."""
        for context, count, own_ns, *_ in fake.recorder.host_times():
            if fake.path_of(context) == "cuCtxSynchronize":
                return count, own_ns
        return 0, 0

    count, own_ns = waits()
    fake.recorder.set_time(1000)
    fake.c.fake_enter(CTX_SYNC)
    fake.recorder.set_time(1500)
    fake.pause()
    fake.recorder.set_time(9000)
    fake.call(BEGIN_CAPTURE)
    fake.capture(900)
    fake.call(END_CAPTURE)
    fake.recorder.set_time(90_000)
    fake.resume()
    launched = fake.call(GRAPH_LAUNCH)
    fake.recorder.set_time(0)
    fake.kernel(correlation=launched, node=900)
    assert [r.path for r in fake.rows("kernel")] == ["cuGraphLaunch [cuLaunchKernel]"]
    assert waits() == (count + 1, own_ns + 500)


def test_a_long_replay_keeps_its_launch(fake: Fake) -> None:
    """Records of one launch may come in many parts, with many launches between."""
    with fake.range("replay"):
        launched = fake.call(GRAPH_LAUNCH)
    with fake.range("capture"):
        fake.node(NODE_CREATED, 500)
    for _ in range(3):
        fake.kernel("node", correlation=launched, node=500)
        fake.many(200_000, batch=10_000)
    rows = [r for r in fake.rows("kernel") if "Graph" in r.path]
    assert [(r.path, r.count) for r in rows] == [("replay cuGraphLaunch [capture]", 3)]


def test_a_late_record_of_what_nobody_recorded_is_not_the_programs(fake: Fake) -> None:
    """A record of a copy between sessions is recognised after more launches than slots."""
    fake.recorder.set_epoch(0)
    early = [fake.call() for _ in range(20)]
    fake.recorder.set_epoch(1)
    fake.many(300_000, batch=10_000)
    fake.deliver()
    for correlation in early:
        fake.kernel("late", correlation=correlation)
    assert sum(row.count for row in fake.rows("kernel")) == 300_000
    assert (fake.counts()["outside"], fake.counts().get("unattributed", 0)) == (20, 0)
