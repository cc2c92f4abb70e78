"""A view as data: JSON and CSV."""

from __future__ import annotations

import csv
import io
import json

from hypothesis import given

from tests.strategies_profile import profiles
from tests.viewer.samples import matmul, node, profile_of, with_children
from tileprof.profile import Profile, diff, diff_to_json, to_json
from tileprof.viewer import ViewOptions, diff_json, render_view, view_csv, view_json

SMALL = with_children(
    node("frame", "main", "/w/a.py:7"),
    node("kernel", 'k, "fast"', time=900, count=2, flops=1800, time_max=500),
)


def test_csv_holds_one_row_a_node() -> None:
    """Place first, then own and total of every metric; what does not exist is empty."""
    assert view_csv(profile_of(SMALL), ViewOptions()) == (
        "id,parent,depth,kind,name,file,line,function,phase,time_own,time_total,"
        "count_own,count_total,time_max_own,time_max_total,flops_own,flops_total\n"
        "0,,0,frame,main,/w/a.py,7,main,,0,900,0,2,,500,0,1800\n"
        '1,0,1,kernel,"k, ""fast""",,,,,900,900,2,2,500,500,1800,1800\n'
    )


def test_csv_takes_the_metrics_asked_for() -> None:
    """Rates are columns too, without an own part."""
    text = view_csv(profile_of(SMALL), ViewOptions(metrics=("gflop/s", "time"), depth=1))
    assert text == (
        "id,parent,depth,kind,name,file,line,function,phase,"
        "gflop/s_own,gflop/s_total,time_own,time_total\n"
        "0,,0,frame,main,/w/a.py,7,main,,,2,0,900\n"
    )


def test_json_is_the_documented_shape() -> None:
    """Without options it is the profile's own JSON, nothing folded, whatever is small."""
    text = render_view(matmul(), ViewOptions(), "json")
    assert json.loads(text) == to_json(matmul())
    assert text.endswith("}\n")
    assert text.count("\n") == 1


def test_json_takes_the_metrics_asked_for() -> None:
    """Other metrics go; a rate stands beside what the profile measured."""
    document = json.loads(
        view_json(profile_of(SMALL), ViewOptions(metrics=("time", "gflop/s", "avg_time")))
    )
    assert document["metrics"] == {
        "time": {"unit": "ns", "adds": "sum"},
        "gflop/s": {"unit": "gflop/s", "adds": "rate"},
        "avg_time": {"unit": "ns", "adds": "rate"},
    }
    assert [n["metrics"] for n in document["nodes"]] == [
        {"time": {"own": 0, "total": 900}, "gflop/s": {"own": None, "total": 2.0}},
        {
            "time": {"own": 900, "total": 900},
            "gflop/s": {"own": None, "total": 2.0},
            "avg_time": {"own": None, "total": 450.0},
        },
    ]


def test_a_diff_is_data_too() -> None:
    """The JSON of a diff is the profile package's document, with kernels that changed."""
    changes = diff(matmul(), profile_of(SMALL))
    assert json.loads(diff_json(changes)) == diff_to_json(changes) | {"kernels": []}


def test_names_that_are_no_text_can_be_written() -> None:
    """Bytes of a file name that are no UTF-8 come out escaped, so that any stream takes them."""
    profile = profile_of(node("frame", "\udcff", "/w/\udcfe.py:1", time=1))
    assert r"\udcff" in view_csv(profile, ViewOptions()).encode().decode()
    assert r"\udcfe" in view_json(profile, ViewOptions()).encode().decode()


@given(profiles())
def test_both_hold_every_node(profile: Profile) -> None:
    """Whatever a profile holds, data views are valid and list all nodes in order."""
    nodes = json.loads(view_json(profile, ViewOptions()))["nodes"]
    rows = list(csv.DictReader(io.StringIO(view_csv(profile, ViewOptions()))))
    assert [int(row["id"]) for row in rows] == [n["id"] for n in nodes] == [*range(len(profile))]
    assert [row["name"] for row in rows] == [n["name"] for n in nodes] == profile.names
