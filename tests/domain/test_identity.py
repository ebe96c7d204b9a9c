"""Ids that are computed: stable values, for others rebuild from them."""

from __future__ import annotations

from streams.domain.identity import derived_event_id, event_id_hash, media_id, session_key


def test_ids_are_pinned() -> None:
    assert media_id("home", "m-81") == "5cf47aae543cdc77f05ae3e849a1693c"
    assert event_id_hash("home", "tv-17:s3:42") == -1411754329387615184
    assert session_key("home", "s3", "tv-17") == 2881459865284511067
    assert (
        derived_event_id(
            source="home",
            user="ana",
            media="m-81",
            session_id="s3",
            device_id="tv-17",
            sequence=42,
            kind="progress",
            position_ms=1_830_000,
            occurred_at=1_795_983_300_000,
        )
        == "586a1ace924c678bed25a7b32964f31e"
    )


def test_parts_never_run_into_each_other() -> None:
    assert media_id("a", "bc") != media_id("ab", "c")
    assert event_id_hash("a", "bc") != event_id_hash("ab", "c")


def test_hashes_fit_a_signed_64_bit_number() -> None:
    hashes = [event_id_hash("home", str(i)) for i in range(1000)]
    assert len(set(hashes)) == 1000
    assert min(hashes) < 0 < max(hashes)
    assert all(-(2**63) <= one < 2**63 for one in hashes)


def test_absent_is_not_empty() -> None:
    facts = {"source": "s", "user": "u", "media": "m", "device_id": None, "sequence": None, "kind": "stop"}
    one = derived_event_id(**facts, session_id=None, position_ms=None, occurred_at=1)  # type: ignore[arg-type]
    other = derived_event_id(**facts, session_id="", position_ms=None, occurred_at=1)  # type: ignore[arg-type]
    assert one != other
