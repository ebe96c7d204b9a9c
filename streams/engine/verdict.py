"""What a hanging part of a transaction is to become, by what is decided elsewhere.

A transaction of a unit writes outputs, changelogs and the group's offset together, each of which says how far its
source partition is processed by it. All of it was committed or none: so one part that is decided and reaches as far
as the hanging one proves that it was committed. Two exceptions keep a commit from doing harm:

- What the hanging part's own partition shows lies before it, so there it is a repetition and is aborted.
- Where nothing decided reaches as far, nothing of the transaction was visible to anybody: it is aborted, and its
  records are read again. A transaction that was aborted leaves exactly this behind.

Pure: :mod:`.evidence` reads, :mod:`.repair` acts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never


@dataclass(frozen=True, slots=True)
class Shown:
    """Decided records ``where`` say that the source partition is processed up to the offset ``reached`` (excluded).

    ``ends``: transactions of the unit end there (the group's offset, a changelog), so no committed one begins before;
    an output only says that its own record is processed.
    """

    where: str
    reached: int
    ends: bool

    def __str__(self) -> str:
        return f"{self.where} reaches source offset {self.reached}"


@dataclass(frozen=True, slots=True)
class Commit:
    """The rest of its transaction was committed."""

    because: str


@dataclass(frozen=True, slots=True)
class Abort:
    """Nothing is lost by it."""

    because: str


@dataclass(frozen=True, slots=True)
class Leave:
    """There is no evidence, or not yet: not to be decided here."""

    because: str


Verdict = Commit | Abort | Leave


def judge(reached: int, own: Shown | None, others: Iterable[Shown]) -> Verdict:
    """Decide about a part that belongs to the source offset before ``reached``.

    ``own`` is what its partition shows before it, ``others`` what other partitions show that hold nothing undecided
    of the transaction. A fact may be an old one, never one ahead; but the newest of those that end transactions is not
    old when outputs are among ``others``.
    """
    others = list(others)
    if own is not None and own.reached >= reached:
        return Abort(f"it is a repetition: {own} before it")
    for shown in others:
        if shown.reached >= reached:
            return Commit(f"{shown}, it ends at {reached}" if shown.ends else f"{shown}, it belongs to {reached}")
    begin = max((shown.reached for shown in (own, *others) if shown is not None and shown.ends), default=0)
    for shown in others:
        # An output of the very transaction: beyond the end of all that are decided as a whole.
        if not shown.ends and shown.reached > begin:
            return Commit(f"{shown}, which is beyond {begin}, where the last one before ended")
    said = "; ".join(str(shown) for shown in (own, *others) if shown is not None) or "nothing is decided yet"
    return Abort(f"nothing decided shows it, so its records are read again ({said})")


def verb(verdict: Verdict, *, done: bool = False) -> str:
    """Return what is to become of it, or became of it when ``done``, in a word."""
    match verdict:
        case Commit():
            return "committed" if done else "commit"
        case Abort():
            return "aborted" if done else "abort"
        case Leave():
            return "left" if done else "leave"
        case _:
            assert_never(verdict)
