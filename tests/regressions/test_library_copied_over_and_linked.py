"""A file copied over another and linked once more was taken for new, though it was one that had moved: what was played
of the file that is gone was joined with what was played of the copy."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.domain.library.simple import File, Library, tree_of

COPY = File(9, "moved", mtime=9)
NAMES = (b"a", b"m", b"z")


@pytest.mark.parametrize("turn", list(permutations(NAMES)))
@pytest.mark.parametrize("backward", [False, True])
def test_what_moved_by_copying_to_two_known_names_is_joined_with_neither(
    turn: tuple[bytes, ...], backward: bool
) -> None:
    was, over, linked = turn
    library = Library()
    library.scan(tree_of(5) | {was: File(1, "moved"), over: File(2, "over"), linked: File(3, "linked")})
    media, others = library.at(was), {library.at(over), library.at(linked)}
    tree = tree_of(5) | {over: COPY, linked: COPY}
    assert library.scan(tree, order=sorted(tree, reverse=backward)).status == "finalized"
    assert library.paths(media) == {over, linked}
    assert {library.status(one) for one in others} == {"missing"}
    assert library.merged == {}
