"""Whether the results of two processes of a program are the same, within stated tolerances.

In: two `Run`s.  Out: a `Comparison`: for each kind of result how many were compared, how far they
are apart, and how far they may be.

Values, losses and what a function returned, are apart by the larger of two shares: the length of
the difference by that of the original, and a tenth of the largest single difference by the
original's size there (or its root mean square, where it is larger). Gradients of the first step and
updates of parameters are compared by length: all of them as one vector, and a tenth of the share of
the parameter that differs most. Elements whose gradient is smaller than gradients may differ have
no sign that can be trusted, and optimizers such as Adam make whole steps of it; so their updates
are left out unless the gradient is zero in both.

After the first step differences grow, in some programs fast. So the original is run once more with
gradients that random numbers of the size of rounding are added to: later losses, and updates of all
compared steps, may be a few times as far apart as that takes them, up to a limit.

Printed numbers may also differ in their last digit; numbers that two processes of the original do
not agree on, such as times, are no results.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from tileprof.analyzer.fixes import Accuracy, Fix

from .orders import LOW_PRECISION
from .processes import Run

Kind: TypeAlias = Literal[
    "loss", "returned", "number", "gradient", "first_update", "update", "printed"
]
Arrays: TypeAlias = Mapping[str, np.ndarray]

TOLERANCES: dict[Accuracy, float] = {"exact": 1e-6, "rounding": 2e-5, "precision": 1e-2}
"""Largest relative difference of values, by how a change may move results. 32-bit floats have a
resolution of 6e-8, TF32 of 5e-4 and bfloat16 of 4e-3; a program adds many of them up. Where the
original itself computes with fewer bits than 32, another order of its operations moves results as
far as another precision does."""
_OF_STEPS = 10.0
"""Gradients and updates may differ by so many times as much as losses: these are means over many
of them, so single differences are smaller in them."""
_ROUNDED = 1e-5
"""Root mean square of a parameter's gradient, as a share of that of all, below which it is a sum
that would be zero but for rounding: a bias before a normalisation, or that of attention's keys."""
DISTURBED: dict[Accuracy, float] = {"exact": 0.0, "rounding": 1e-6, "precision": 3e-3}
"""Size of the random numbers that stand for rounding, as a share of each parameter's gradient:
some units of 32-bit floats, and one of bfloat16."""
_TIMES_NOISE = 5.0
"""Largest difference that is allowed, as a multiple of that by these random numbers: theirs is one
chance."""
_MOST_ALLOWED = {"value/": 0.01, "update/": 0.1}
"""Largest differences that are allowed for noise."""
_SAME = 1e-6
"""Relative difference up to which processes of the original agree on a number."""
_OF_ONE = 0.1
"""Weight of the largest single difference, of one value or one parameter, beside the whole."""
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]*\w)"
    r"(?!\s*(?:ns|us|µs|ms|s|sec|seconds?|min|minutes?|h|it/s|[\w ]+/s)\b)"
)
"""A printed number that no unit of time or of a rate follows."""


@dataclass(frozen=True, slots=True)
class Check:
    """One kind of result."""

    kind: Kind
    count: int
    """Values that were compared."""
    difference: float
    """Distance between them, as a share; infinite where a value is missing or not finite."""
    allowed: float

    @property
    def equal(self) -> bool:
        """Whether they are the same within the tolerance."""
        return self.difference <= self.allowed

    def __str__(self) -> str:
        told = {"loss": "losses", "returned": "returned values", "number": "numbers",
                "gradient": "gradients",
                "first_update": "first updates of parameters",
                "update": "later updates", "printed": "printed numbers"}  # fmt: skip
        apart = f"{self.difference:.1e} apart" if self.difference else "equal"
        if math.isinf(self.difference):
            apart = "not comparable"
        return f"{self.count:,} {told[self.kind]} {apart} ({self.allowed:.0e} allowed)"


@dataclass(frozen=True, slots=True)
class Comparison:
    """All kinds of results that there were."""

    checks: tuple[Check, ...]

    @property
    def compared(self) -> bool:
        """Whether there was anything to compare."""
        return bool(self.checks)

    @property
    def equal(self) -> bool:
        """Whether there was, and all of it is the same."""
        return self.compared and all(each.equal for each in self.checks)

    def __str__(self) -> str:
        return "; ".join(map(str, self.checks)) or "results not compared"


def tolerance_of(accuracy: Accuracy, given: float | None = None) -> float:
    """Return the largest relative difference of values; `given`: what the user asks for."""
    return TOLERANCES[accuracy] if given is None else given


class Reference:
    """Results of the original, by several processes of it."""

    def __init__(self, run: Run) -> None:
        self._arrays = _read(run)
        self._outputs = [run.output]
        self._numbers = [_numbers(self._arrays)]
        self._noises: dict[Accuracy, Arrays] = {}

    @property
    def trains(self) -> bool:
        """Whether the original has steps of optimizers."""
        return any(name.startswith("update/") for name in self._arrays)

    def knows_noise(self, accuracy: Accuracy) -> bool:
        """Whether a process with disturbed gradients was taken in."""
        return accuracy in self._noises

    def disturbed(self, run: Run, accuracy: Accuracy) -> None:
        """Take in a process of the original with disturbed gradients."""
        self._noises[accuracy] = _read(run)

    @property
    def low_precision(self) -> bool:
        """Whether the original computes with fewer bits than 32."""
        return LOW_PRECISION in self._arrays

    def add(self, run: Run) -> Comparison:
        """Take another process of the original in, and return how it compares to the first."""
        self._outputs.append(run.output)
        accuracy: Accuracy = "precision" if self.low_precision else "rounding"
        arrays = _read(run)
        self._numbers.append(_numbers(arrays))
        return self._compared(arrays, None, TOLERANCES[accuracy], accuracy)

    def compared(self, run: Run, tolerance: float, accuracy: Accuracy = "exact") -> Comparison:
        """Compare a process of the changed program with the original."""
        return self._compared(_read(run), run.output, tolerance, accuracy)

    def _compared(
        self, arrays: Arrays, output: str | None, tolerance: float, accuracy: Accuracy
    ) -> Comparison:
        noise = self._noises.get(accuracy, self._arrays)
        checks = list(_of_arrays(self._arrays, arrays, tolerance, noise))
        if output is not None and len(self._outputs) > 1:
            checks += _of_numbers(self._numbers, _numbers(arrays), tolerance)
            checks += _of_printed(self._outputs, output, tolerance)
        return Comparison(tuple(checks))


def _numbers(arrays: Arrays) -> Arrays:
    return {name: each for name, each in arrays.items() if name.startswith("number/")}


def _of_numbers(originals: Sequence[Arrays], new: Arrays, tolerance: float) -> Iterator[Check]:
    """Compare the numbers that all processes of the original agree on: the others may be times."""
    count, apart, fractions = 0, 0.0, False
    for name, first in originals[0].items():
        others = [each.get(name, first[:0]) for each in originals]
        if any(each.shape != first.shape for each in others):
            continue
        near = [np.isclose(each, first, _SAME, 0.0, equal_nan=True) for each in others]
        stable = np.all(near, axis=0)
        found = new.get(name, first[:0])
        same_shape = found.shape == first.shape
        apart = max(apart, _apart(first[stable], found[stable]) if same_shape else math.inf)
        count += int(stable.sum())
        fractions |= bool(np.any(first[stable] % 1))
    # Whole numbers alone, such as that of the step, are equal whatever was computed.
    if count and (fractions or apart > tolerance):
        yield Check("number", count, apart, tolerance)


def _read(run: Run) -> Arrays:
    with np.load(run.results) as held:
        return {name: held[name] for name in held.files}


def accuracy_of(fixes: Sequence[Fix], low_precision: bool = False) -> Accuracy:
    """Return how far changes may move results: the farthest of them."""
    found = max((each.accuracy for each in fixes), key=lambda each: TOLERANCES[each])
    return "precision" if low_precision and found != "exact" else found


def _of_arrays(old: Arrays, new: Arrays, tolerance: float, noise: Arrays) -> Iterator[Check]:
    kinds: tuple[tuple[str, Kind], ...] = (("value/", "loss"), ("returned/", "returned"))
    for prefix, kind in kinds:
        names = [name for name in {**old, **new} if name.startswith(prefix)]
        if names:
            count = sum(old[name].size for name in names if name in old)
            # The one that is nearest to what it may be, or farthest beyond.
            apart, may = max(
                (
                    (
                        _apart(old.get(name), new.get(name)),
                        _allowed(_apart(old.get(name), noise.get(name)), tolerance, prefix),
                    )
                    for name in names
                ),
                key=lambda each: each[0] / each[1],
            )
            yield Check(kind, count, apart, may)
    allowed = _OF_STEPS * tolerance
    trusted = _trusted(old, new, allowed)
    parts: tuple[tuple[Kind, dict[str, np.ndarray]], ...] = (
        ("gradient", _whole(trusted)), ("first_update", trusted), ("update", trusted),
    )  # fmt: skip
    for kind, masks in parts:
        names = sorted(n for n in {**old, **new} if n.startswith(f"{kind}/"))
        if not names:
            continue
        held, moved = (
            [(old.get(n), each.get(n), masks.get(_number(n))) for n in names]
            for each in (new, noise)
        )
        of_noise = _of_parameters(kind, moved, allowed).difference if kind == "update" else 0.0
        yield _of_parameters(kind, held, _allowed(of_noise, allowed, f"{kind}/"))


def _allowed(of_noise: float, tolerance: float, prefix: str) -> float:
    """Return how far results may be apart that disturbed gradients take so far apart."""
    wide = min(_TIMES_NOISE * of_noise, _MOST_ALLOWED.get(prefix, 0.0))
    # A tolerance of 0 is one that the user asks for: equal bits.
    return max(tolerance, wide if tolerance else 0.0) or 1e-300


def _number(name: str) -> str:
    """Return the number of a parameter in the name of an array."""
    return name.partition("/")[2]


def _of_parameters(
    kind: Kind,
    tensors: Sequence[tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]],
    allowed: float,
) -> Check:
    """Compare arrays of parameters, of the elements that a mask names; of all without a mask."""
    count, worst = 0, 0.0
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    for old, new, mask in tensors:
        if old is None or new is None or old.shape != new.shape:
            return Check(kind, count, math.inf, allowed)
        before, after = old.ravel().astype(np.float64), new.ravel().astype(np.float64)
        if mask is not None and mask.shape == before.shape:
            before, after = before[mask], after[mask]
        count += before.size
        pairs.append((before, after))
        worst = max(worst, _length_apart(before, after))
    whole = _length_apart(*(np.concatenate(each) for each in zip(*pairs)))
    return Check(kind, count, max(whole, _OF_ONE * worst), allowed)


def _trusted(old: Arrays, new: Arrays, allowed: float) -> dict[str, np.ndarray]:
    """Return by parameter which elements have a gradient that is no matter of rounding."""
    gradients = {_number(n): each.ravel() for n, each in old.items() if n.startswith("gradient/")}
    squares = sum(float(np.sum(each.astype(np.float64) ** 2)) for each in gradients.values())
    elements = sum(each.size for each in gradients.values())
    least = _ROUNDED * math.sqrt(squares / elements) if elements else 0.0
    masks = {}
    for number, before in gradients.items():
        after = new.get(f"gradient/{number}", before).ravel()
        of_tensor = math.sqrt(float(np.mean(before.astype(np.float64) ** 2))) if before.size else 0
        large = (np.abs(before) >= allowed * of_tensor) & (of_tensor >= least)
        zero = (before == 0) & (after == 0) if before.shape == after.shape else ~large
        # Where rounding alone makes a parameter's gradient, its zeros are chance too.
        is_rounding = 0 < of_tensor < least
        masks[number] = large if is_rounding else large | zero
    return masks


def _whole(trusted: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return masks that leave out parameters of which no element is trusted, and keep all else."""
    return {number: np.full_like(mask, mask.any()) for number, mask in trusted.items()}


def _apart(old: np.ndarray | None, new: np.ndarray | None) -> float:
    """Return how far two arrays of values are apart, as a share of the first."""
    if old is None or new is None or old.shape != new.shape:
        return math.inf
    if old.dtype.kind in "bui":
        return float(np.mean(old != new)) if old.size else 0.0
    wide = np.complex128 if old.dtype.kind == "c" else np.float64
    old, new = old.ravel().astype(wide), new.ravel().astype(wide)
    finite = np.isfinite(old)
    same = np.array_equal(old[~finite], new[~finite], equal_nan=True)
    if not same or not np.isfinite(new[finite]).all():
        return math.inf
    old, new = old[finite], new[finite]
    whole = _length_apart(old, new)
    if not whole:
        return 0.0
    size = np.maximum(np.abs(old), math.sqrt(float(np.mean(np.abs(old) ** 2))))
    single = float(np.max(np.abs(new - old) / np.where(size > 0, size, 1.0)))
    return max(whole, _OF_ONE * single)


def _length_apart(old: np.ndarray, new: np.ndarray) -> float:
    """Return the length of the difference as a share of that of the original."""
    if old.shape != new.shape or not np.isfinite(new).all():
        return math.inf
    apart = float(np.linalg.norm(new - old))
    whole = float(np.linalg.norm(old))
    return apart / whole if whole else math.inf if apart else 0.0


# -- what it printed


def _of_printed(originals: Sequence[str], new: str, tolerance: float) -> Iterator[Check]:
    """Compare the numbers that all processes of the original agree on, in their order."""
    held = [_NUMBER.findall(each) for each in originals]
    found = _NUMBER.findall(new)
    lengths = {len(each) for each in held}
    if len(lengths) > 1:
        return  # How much is printed depends on time, or on chance.
    stable = [at for at, each in enumerate(zip(*held)) if len(set(each)) == 1]
    if not stable:
        return
    apart = (
        max(_digits_apart(held[0][at], found[at], tolerance) for at in stable)
        if len(found) == len(held[0])
        else math.inf
    )
    fractions = any(_unit(held[0][at]) for at in stable)
    # Whole numbers alone, such as that of the step, are equal whatever was computed.
    if fractions or apart > tolerance:
        yield Check("printed", len(stable), apart, tolerance)


def _digits_apart(old: str, new: str, tolerance: float) -> float:
    """Return how far two printed numbers are apart, as a share; 0 for one unit of the last digit
    that both have."""
    if old == new:
        return 0.0
    first, second = float(old), float(new)
    unit = max(_unit(old), _unit(new))
    # Half of a unit is rounding; so much of a difference can be two numbers on both sides of it.
    apart = abs(first - second) - (unit if unit > tolerance * abs(first) else 0.0)
    whole = abs(first)
    return max(0.0, apart / whole if whole else math.inf if apart > 1e-12 else 0.0)


def _unit(number: str) -> float:
    """Return what one unit of the last digit of a printed number is worth; 0 for whole numbers."""
    digits, _, exponent = number.lower().partition("e")
    decimals = len(digits.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals) if "." in digits or exponent else 0.0
