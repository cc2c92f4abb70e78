"""Text of what `tileprof bench` measured."""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.bench import Interval, Result
from tileprof.profile.units import format_value


def text_of(result: Result) -> str:
    """Return the times, the ratio, the circumstances, and a line for each doubt."""
    return "".join(f"{line}\n" for line in _lines(result))


def _lines(result: Result) -> Iterator[str]:
    sides = [result.timed] + ([result.baseline] if result.baseline else [])
    width = max(len(each.name) for each in sides)
    for each in sides:
        low, high = (format_value(ns, "ns") for ns in (each.time.low, each.time.high))
        yield (
            f"{each.name:<{width}}  {format_value(each.time.value, 'ns'):>8}  [{low} – {high}]  "
            f"{len(each.batches)} rounds × {each.calls:,} calls"
        )
    if (ratio := result.ratio) is not None:
        span = f"[{ratio.low:.4g} – {ratio.high:.4g}]"
        yield f"{'ratio':<{width}}  {ratio.value:>8.4g}  {span}  {_said(ratio)}"
    yield f"medians with 95 % bootstrap intervals; {_circumstances(result)}"
    for doubt in result.doubts:
        yield f"doubtful: {doubt}"


def _said(ratio: Interval) -> str:
    """Return what a ratio of times means in words."""
    if ratio.low <= 1 <= ratio.high:
        # An interval that holds 1 does not say which of the two is faster.
        return "no difference shown"
    if ratio.value >= 2:
        return f"{ratio.value:.3g} times the baseline's time"
    more = "less" if ratio.value < 1 else "more"
    return f"{100 * abs(ratio.value - 1):.1f} % {more} time than the baseline"


def _circumstances(result: Result) -> str:
    if result.clock == "host":
        return "clock: host"
    parts = ["clock: GPU events" + (" around graph replays" if result.plan.graph else "")]
    parts.append("L2 flushed before each call" if result.plan.flushed else "L2 warm")
    if not result.gpu:
        return ", ".join([*parts, "GPU clocks unknown (no NVML)"])
    first, sm = result.gpu[0], [each.sm_mhz for each in result.gpu if each.sm_mhz]
    parts.append(f"{first.name}, driver {first.driver}")
    if sm:
        span = f"{min(sm)}" if min(sm) == max(sm) else f"{min(sm)} to {max(sm)}"
        parts.append(f"SM at {span} of {first.most_sm_mhz} MHz")
    if warmth := [each.celsius for each in result.gpu if each.celsius]:
        parts.append(f"{max(warmth)} °C")
    return ", ".join(parts)
