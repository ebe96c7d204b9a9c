"""GET /v1/changes over a real log: who hears of what, and that nothing is missed."""

from __future__ import annotations

import pytest

from projections.api import change_hub
from schemas.events import WHOLE_MODEL
from tests.integration.caches.kitchen import Kitchen
from tests.integration.caches.serving import ANA, BO, CYD, Ear, Served, serving
from tests.integration.projections.world import eventually

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("caches"), pytest.mark.long]
FILM, SONG = "f" * 32, "5" * 32


def test_another_device_hears_of_progress_and_reads_it(kitchen: Kitchen) -> None:
    kitchen.decide(ANA, FILM, 1_000)
    with kitchen.keeping(), kitchen.relaying(), serving(kitchen) as served:
        path = f"/v1/users/{ANA}/progress/{FILM}"
        assert served.get("ana", path).json()["position_ms"] == 1_000
        ear = served.listen("ana")
        for position in range(2_000, 12_000, 1_000):
            _hears(ear, kitchen.decide(ANA, FILM, position))
            # Told before anybody hears: whoever asks now is not shown what was before.
            assert served.get("ana", path).json()["position_ms"] == position


def test_a_person_hears_of_that_person_only_a_source_of_its_people(kitchen: Kitchen) -> None:
    with kitchen.relaying(), serving(kitchen) as served:
        ana, bo, home, everybody = (served.listen(who) for who in ("ana", "bo", "home", "operator"))
        chosen = served.listen("home", query="?user=bo")
        for person in (ANA, BO, CYD, ANA):
            kitchen.decide(person, FILM, 1_000)
        last = kitchen.decide(CYD, SONG, 1_000)
        heard: list[str] = []
        while not any(one == f"{CYD} {last}" for one in heard):
            event = everybody.next()
            assert event is not None
            heard.append(f"{event.data['user']} {event.data['version']['offset']}")
        kitchen.decide(ANA, SONG, 1_000)
        kitchen.decide(BO, SONG, 1_000)

        seen = {name: set[str]() for name in ("ana", "bo", "home", "chosen")}

        def complete() -> bool:
            for name, ear in (("ana", ana), ("bo", bo), ("home", home), ("chosen", chosen)):
                seen[name] |= {f"{e.data['user']} {e.data.get('media')}" for e in ear.heard()}
            return all(f"{person} {SONG}" in seen[name] for name, person in (("ana", ANA), ("bo", BO), ("home", ANA)))

        eventually(complete, "everybody heard")
        assert {one.split()[0] for one in seen["ana"]} == {ANA}
        assert {one.split()[0] for one in seen["bo"]} == {BO}
        assert {one.split()[0] for one in seen["home"]} == {ANA, BO}
        assert {one.split()[0] for one in seen["chosen"]} <= {BO}


def test_who_connects_again_hears_what_was_missed(kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch) -> None:
    with kitchen.relaying(), serving(kitchen) as served:
        first = _hears_one_and_leaves(kitchen, served)
        missed = {kitchen.decide(ANA, FILM, position) for position in (2_000, 3_000)}
        eventually(lambda: kitchen.outbox_rows() == 0, "all is published")
        newest = max(missed)
        again = served.listen("ana", first)
        _hears(again, newest)
    # Another process, which has not heard of it and keeps nothing back: it reads the log itself.
    monkeypatch.setattr(change_hub, "BACK", 0)
    with serving(kitchen) as served:
        _hears(served.listen("ana", first), newest)


def test_who_connects_again_after_another_model_went_live_begins_anew(
    kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kitchen.relaying(), serving(kitchen) as served:
        first = _hears_one_and_leaves(kitchen, served)
        kitchen.invalidate(WHOLE_MODEL, 2)
        kitchen.decide(ANA, FILM, 2_000)
        eventually(lambda: kitchen.outbox_rows() == 0, "all is published")
        _begins_anew(served.listen("ana", first))
    # Another process, which keeps nothing back: it reads the log itself.
    monkeypatch.setattr(change_hub, "BACK", 0)
    with serving(kitchen) as served:
        _begins_anew(served.listen("ana", first))


def test_who_was_away_too_long_or_elsewhere_begins_anew(kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_hub, "BACK", 0)
    monkeypatch.setattr(change_hub, "HISTORY_MAX", 1)
    with kitchen.relaying(), serving(kitchen) as served:
        ear = served.listen("ana")
        place = ear.last_id
        assert place is not None
    for position in range(1_000, 4_000, 1_000):
        kitchen.decide(ANA, FILM, position)
        kitchen.relay_all()
    with kitchen.relaying(), serving(kitchen) as served:
        for said in (place, "x:1,2", f"other:{place.partition(':')[2]}"):
            event = served.listen("ana", said).next()
            assert event is not None
            assert event.kind == "reset"
            # It goes on from where the reset was.
            after = served.listen("ana", event.id)
            version = kitchen.decide(ANA, FILM, 9_000)
            _hears(after, version)


def test_who_does_not_keep_up_is_told_and_let_go(kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_hub, "QUEUE_MAX", 0)
    with kitchen.relaying(), serving(kitchen) as served:
        ear = served.listen("ana")
        kitchen.decide(ANA, FILM, 1_000)
        event = ear.next()
        assert event is not None
        assert (event.kind, event.data) == ("reset", {"reason": "too slow"})
        assert ear.next() is None
        eventually(lambda: served.hub.listening == 0, "its place is free")


def test_tokens_that_may_not_read_and_too_many_listeners_are_refused(
    kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("projections.api.changes.LISTENERS_PER_TOKEN_MAX", 2)
    monkeypatch.setattr("projections.api.changes.LISTENERS_MAX", 3)
    with serving(kitchen) as served:
        assert served.listen("reporter").status == 403
        ears = [served.listen("ana") for _ in range(3)]
        assert [ear.status for ear in ears] == [200, 200, 429]
        assert [served.listen(who).status for who in ("bo", "home")] == [200, 503]
        ears[0].leave()
        eventually(lambda: served.hub.listening == 2, "its place is free")
        assert served.listen("ana").status == 200
        assert served.listen("bo", query=f"?user={ANA}").status == 404


def _begins_anew(ear: Ear) -> None:
    event = ear.next()
    assert event is not None
    assert (event.kind, event.data) == ("reset", {"reason": "another model is live"})


def _hears_one_and_leaves(kitchen: Kitchen, served: Served) -> str:
    """Ana, who hears of one decision; the id she is to come again with."""
    ear = served.listen("ana")
    kitchen.decide(ANA, FILM, 1_000)
    first = ear.next()
    assert first is not None
    ear.leave()
    return first.id


def _hears(ear: Ear, version: int) -> None:
    while True:
        event = ear.next()
        assert event is not None
        assert event.kind == "change"
        if event.data["kind"] == "progress" and event.data["version"]["offset"] == version:
            return
