"""Which media are one, and how a person's state follows: rule 9 as the playback agent carries it out.

    media.merged ─► keep ─► table "aliases": media → its survivor, survivor → those that ended in it
    a report     ─► touch ─► the survivor, its state with all that ended media left for this person joined in

Nothing happens to a person's rows when a merge is told: there may be millions, and nobody asked. They are joined
when one of the keys is touched. All of a person's keys lie in one partition, so that is one transaction's work; what
was taken in leaves ``merged_into`` behind and is never taken twice. Every partition has every merge, in the order of
its source, so all partitions agree.

A report under an ended key that comes before its merge is decided under that key, and joined later: where both media
were played on, joining decisions is not always deciding jointly (a play counted under each is two).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from schemas.limits import JOINED_MAX
from schemas.placement import playback_key
from streams.agents import aliases as rows
from streams.agents import state as states
from streams.agents.aliases import MediaAlias
from streams.domain.join import join, moved_into
from streams.domain.state import State


class Rows(Protocol):
    """As much of a table as is used here."""

    def get(self, key: bytes, /) -> bytes | None: ...

    def __setitem__(self, key: bytes, value: bytes, /) -> None: ...

    def __delitem__(self, key: bytes, /) -> None: ...


def keep(aliases: Rows, media: str, survivor: str) -> None:
    """From now on ``media``, and what ended in it before, leads to where ``survivor`` leads.

    The last word about ``media`` counts: what it led to before is another media and stays one. A merge that would
    close a circle changes nothing, for the media it ends is the one that already stays. Repeating changes nothing.
    """
    last = _alias(aliases, survivor).survivor or survivor
    before = _alias(aliases, media)
    if media in (survivor, last) or before.survivor == last:
        return
    if before.survivor is not None:
        _set_merged(aliases, before.survivor, set(_alias(aliases, before.survivor).merged) - {media})
    ended = {media, *before.merged}
    for one in ended:
        aliases[one.encode()] = rows.encode(MediaAlias(survivor=last))
    _set_merged(aliases, last, ended.union(_alias(aliases, last).merged))


@dataclass(frozen=True, slots=True)
class Touched:
    """What a report is about: the media that stays, the person's row of it, and that with all that was taken in."""

    media: str
    kept: State | None
    state: State | None


def touch(aliases: Rows, progress: Rows, user: str, media: str) -> Touched:
    """What a report under ``media`` is about. The rows of what is taken in say afterwards where they went; the row of
    the media itself is the caller's to write, when ``state`` or what becomes of it differs from ``kept``.

    A state takes in JOINED_MAX media. One more keeps its row, which is joined when it is read, for ever.
    This is asked for every report, and a media that was never merged costs one look.
    """
    row = aliases.get(media.encode())
    if row is None:
        kept = _state(progress, user, media)
        return Touched(media, kept, kept)
    alias = rows.decode(row)
    if alias.survivor is not None:
        media, alias = alias.survivor, _alias(aliases, alias.survivor)
    state = kept = _state(progress, user, media)
    for ended in alias.merged:
        theirs = _state(progress, user, ended)
        if theirs is None or theirs.merged_into is not None:
            continue
        joined = join(State(user=user, media=media) if state is None else state, theirs, survivor=media)
        if len(joined.merged_from) > JOINED_MAX:
            continue
        state = joined
        progress[playback_key(user, ended)] = states.encode(moved_into(theirs, media))
    return Touched(media, kept, state)


def _set_merged(aliases: Rows, media: str, merged: Collection[str]) -> None:
    if merged:
        aliases[media.encode()] = rows.encode(MediaAlias(merged=tuple(sorted(merged))))
    else:
        del aliases[media.encode()]


def _alias(aliases: Rows, media: str) -> MediaAlias:
    row = aliases.get(media.encode())
    return MediaAlias() if row is None else rows.decode(row)


def _state(progress: Rows, user: str, media: str) -> State | None:
    row = progress.get(playback_key(user, media))
    return None if row is None else states.decode(row)
