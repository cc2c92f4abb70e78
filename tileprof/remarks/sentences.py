"""Sentences of remarks back to the codes and facts that they were rendered from.

In: a sentence, and whether it is a decision, a candidate or a reason.  Out: the statement whose
text gives exactly this sentence, or None.  Files that are older than codes hold sentences alone.

A pattern follows from each code's text: numbers, words and nested statements in place of its
fields.  What a pattern finds counts only if the statement, rendered again, is the sentence, so a
code is never a guess.  A fact that the text does not show is 0, false or empty.  Sizes that were
rounded to a tenth of a KB come back as a size that is rounded to the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from .codes import CODES
from .copies import CachePolicy
from .launches import OtherLimit
from .layouts import OtherSharedLayout, SharedLayoutOf
from .products import GemmInstruction, Several
from .statement import (
    COUNTED,
    FIELD,
    JOINED,
    Reason,
    Statement,
    hints_of,
    parts_of,
)

LONGEST = 2_000
"""Characters of the longest sentence that is read.  The compiler's longest has some 500, and time
grows with the square of the length where several facts are texts."""

_MOST_MEMBERS = 12
"""Members of the longest list in a sentence that is read."""
_SHARED_LAYOUT = r"rows|pad=\d+|swizzle=\d+"
_WORDS: Mapping[tuple[type[Statement], str], str] = {
    (SharedLayoutOf, "layout"): _SHARED_LAYOUT,
    (OtherSharedLayout, "layout"): _SHARED_LAYOUT,
    (OtherLimit, "name"): r"threads|warps|blocks|[a-z]+ [a-z]+",
    (CachePolicy, "policy"): r"\w+",
    (GemmInstruction, "form"): r".+?",
}
"""Patterns of texts that stand alone in a sentence, and would be any sentence otherwise."""
_Kind = TypeVar("_Kind", bound=Statement)


@dataclass(frozen=True, eq=False)
class Wording:
    """One text of a code: today's, or an earlier one."""

    code: type[Statement]
    text: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Facts that this text implies and does not show."""

    @property
    def literal(self) -> str:
        """The longest part of the text that each of its sentences has."""
        always = (part.text for part in parts_of(self.text) if not part.asked)
        pieces = (piece for text in always for piece in self._pieces(text))
        return max(pieces, key=len, default="")

    @property
    def weight(self) -> int:
        """Characters that its longest sentences have beside facts; the most particular is tried
        first."""
        return sum(len(FIELD.sub("", part.text)) for part in parts_of(self.text))

    def _pieces(self, text: str) -> Iterator[str]:
        """Parts of a text between its facts."""
        hints, at, piece = hints_of(self.code), 0, ""
        for found in FIELD.finditer(text):
            piece += text[at : found.start()]
            at = found.end()
            if found[1] in hints:
                yield piece
                piece = ""
            else:
                piece += str(getattr(self.code, found[1]))
        yield piece + text[at:]

    def pattern(self) -> re.Pattern[str]:
        """Return what its sentences match, a group for each fact that is shown."""
        seen, pattern = set[str](), ""
        for part in parts_of(self.text):
            shown = self._part(part.text, seen)
            if not part.asked:
                pattern += shown
            elif (name := part.asked[0]) in seen:
                pattern += f"(?:{shown})?"
            else:
                seen.add(name)
                pattern += f"(?P<{name}>{shown})?"
        return re.compile(pattern, re.DOTALL)

    def _part(self, text: str, seen: set[str]) -> str:
        at, pattern = 0, ""
        for found in FIELD.finditer(text):
            pattern += re.escape(text[at : found.start()])
            pattern += self._field(found[1], found[2] or "", seen)
            at = found.end()
        return pattern + re.escape(text[at:])

    def _field(self, name: str, form: str, seen: set[str]) -> str:
        hints = hints_of(self.code)
        if name not in hints:
            return re.escape(str(getattr(self.code, name)))
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        words = _WORDS.get((self.code, name)) or _pattern(_bare(hints[name]), form)
        return f"(?P<{name}>{words})"

    def statement(self, sentence: str) -> Statement | None:
        """Return what the sentence states; None where this wording does not give it."""
        match = _compiled(self).fullmatch(sentence)
        if match is None:
            return None
        shown, facts = match.groupdict(), dict[str, Any]()
        forms = {name: form for name, form in FIELD.findall(self.text)}
        for name, hint in hints_of(self.code).items():
            if name in self.fixed:
                facts[name] = self.fixed[name]
            elif (text := shown.get(name)) is not None:
                fact = True if _bare(hint) is bool else _fact(_bare(hint), text, forms[name])
                if fact is None:
                    return None
                facts[name] = fact
            elif not hasattr(self.code, name):
                facts[name] = _empty(_bare(hint))
        try:
            made = self.code(**facts)
        except TypeError:
            return None
        return made if made.rendered(self.text) == sentence else None


_compiled = cache(Wording.pattern)


def statement_of(
    kind: type[_Kind], sentence: str, earlier: tuple[Wording, ...] = ()
) -> _Kind | None:
    """Return the statement of this kind whose sentence it is; `earlier` are wordings to try after
    today's.  None where no code has it."""
    if len(sentence) > LONGEST:
        return None
    wanted: Any = kind
    found: _Kind | None = _found(wanted, sentence, earlier)
    return found


@lru_cache(maxsize=4096)
def _found(kind: Any, sentence: str, earlier: tuple[Wording, ...]) -> Any:
    for each in (*_wordings(kind), *(e for e in earlier if issubclass(e.code, kind))):
        if _literal(each) in sentence and (found := each.statement(sentence)) is not None:
            return found
    if issubclass(Several, kind) and (reasons := _members(Reason, sentence.split("; "), "; ")):
        return Several(reasons) if len(reasons) > 1 else None
    return None


@cache
def _wordings(kind: Any) -> tuple[Wording, ...]:
    """Texts of today's codes of a kind, the most particular first."""
    texts = (Wording(code, code.text) for code in CODES.values() if issubclass(code, kind))
    named = [each for each in texts if _is_told_apart(each)]
    return tuple(sorted(named, key=lambda each: -each.weight))


_literal = cache(lambda wording: wording.literal)


def _is_told_apart(wording: Wording) -> bool:
    """Whether a text is more than words that may be anything."""
    hints = hints_of(wording.code)
    always = "".join(part.text for part in parts_of(wording.text) if not part.asked)
    fields = [name for name, _ in FIELD.findall(always) if name in hints]
    open_ = [n for n in fields if _is_open(hints[n]) and (wording.code, n) not in _WORDS]
    return not open_ or bool(_literal(wording).strip())


def _is_open(hint: Any) -> bool:
    bare = _bare(hint)
    return bare is str or get_origin(bare) is tuple or _is_statement(bare)


# -- facts


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _is_statement(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Statement)


def _pattern(hint: Any, form: str) -> str:
    """A pattern of what a fact of this type looks like."""
    if get_origin(hint) is Literal:
        return "|".join(re.escape(each) for each in sorted(get_args(hint), key=len, reverse=True))
    if hint is int:
        if form in ("KB", "kB"):
            return r"\d+(?:\.\d)? KB|\d+ bytes"
        counted = rf" {re.escape(form)}s?" if COUNTED.fullmatch(form) else ""
        return rf"-?\d[\d,]*{counted}"
    if hint is float:
        return r"-?\d[\d.,e+-]*%?"
    return r"[^;]+?" if hint is str else r".+?"  # several reasons have `; ` between them


def _fact(hint: Any, text: str, form: str) -> Any:
    """The fact that was shown so; None where it is none of this type."""
    if get_origin(hint) is tuple:
        return _listed(_bare(get_args(hint)[0]), text, form)
    if _is_statement(hint):
        return statement_of(hint, text)
    if hint is int and form in ("KB", "kB"):
        return _bytes(text, rounded_up=form == "kB")
    if hint is int:
        number = re.match(r"-?[\d,]+", text)
        return None if number is None else int(number[0].replace(",", ""))
    if hint is float:
        return _number(text)
    return text


def _number(text: str) -> float | None:
    try:
        number = float(text.rstrip("%").replace(",", ""))
    except ValueError:
        return None
    # Through text, so that 12.3 % is 0.123 and not 0.12300000000000001.
    return float(f"{number / 100:.12g}") if text.endswith("%") else number


def _bytes(text: str, *, rounded_up: bool) -> int:
    """A size that is rounded to this many KB: the smallest that is rounded down, the largest that
    is rounded up."""
    number, unit = text.split(" ")
    if unit == "bytes":
        return int(number)
    tenths = round(float(number) * 10)
    return tenths * 1024 // 10 if rounded_up else -(-tenths * 1024 // 10)


def _listed(member: Any, text: str, form: str) -> tuple[Any, ...] | None:
    """Members of a tuple that was joined: `lines 3, 4 and 5`."""
    match = JOINED.fullmatch(form)
    assert match is not None, form
    noun, sign = match.groups()
    if noun:
        text = re.sub(rf"^{re.escape(noun.rstrip())}s? ", "", text)
    if sign in "&|":
        word = " and " if sign == "&" else " or "
        most, _, last = text.rpartition(word)
        pieces = [*most.split(", "), last] if most else [last]
    else:
        pieces = text.split(" + " if sign == "+" else f"{sign} ")
    if _is_statement(member):
        return _members(member, pieces, ", " if sign in "&|" else f"{sign} ")
    facts = tuple(_fact(member, piece, "") for piece in pieces)
    return None if None in facts else facts


def _members(kind: type[Statement], pieces: list[str], between: str) -> tuple[Any, ...] | None:
    """The statements that pieces of a sentence make, where one may hold what stands between them;
    None where some pieces make none."""
    if len(pieces) > _MOST_MEMBERS:
        return None
    found: dict[int, tuple[Any, ...]] = {len(pieces): ()}
    for start in reversed(range(len(pieces))):
        for end in range(start + 1, len(pieces) + 1):
            first = _single(kind, between.join(pieces[start:end])) if end in found else None
            if first is not None:
                found[start] = (first, *found[end])
                break
    return found.get(0)


def _single(kind: Any, sentence: str) -> Statement | None:
    """The statement of a sentence, if it is one; not several of them."""
    alike = (each for each in _wordings(kind) if _literal(each) in sentence)
    found = (each.statement(sentence) for each in alike if each.code is not Several)
    return next((each for each in found if each is not None), None)


def _empty(hint: Any) -> Any:
    if get_origin(hint) is tuple:
        return ()
    return {int: 0, float: 0.0, str: "", bool: False}.get(hint)
