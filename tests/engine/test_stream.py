"""Acknowledgement: only by coming back for the next batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from streams.engine import App, Batch, Refused
from streams.engine.batch import BatchState
from streams.engine.process import told
from streams.engine.stream import Stream
from streams.engine.table import current_batch

from .fakes import Owner, Rows, config, make_batch, record


class Channel:
    """What Faust puts between its conductor and a stream."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches

    async def get(self) -> Any:
        if not self.batches:
            raise StopAsyncIteration
        return type("Event", (), {"value": self.batches.pop(0)})


def heard(folder: Path, body: Callable[[Any], Awaitable[None]], batches: int = 2) -> list[str]:
    """Run an agent body over batches; return what their owner heard."""
    owner = Owner()
    settings = config(folder)

    async def main() -> None:
        app = App(settings)
        stream = Stream(Channel([make_batch(settings, [record(n)], owner=owner) for n in range(batches)]), app=app)
        await body(stream)

    asyncio.run(main())
    return owner.heard


def test_invariant_04_given_an_agent_that_comes_back_then_its_batch_is_acknowledged(tmp_path: Path) -> None:
    async def body(stream: Any) -> None:
        async for batch in stream:
            assert current_batch.get() is batch

    assert heard(tmp_path, body) == ["started", "finished"] * 2


def test_given_an_agent_that_raises_then_the_error_says_which_agent_and_which_record(tmp_path: Path) -> None:
    async def counting(stream: Any) -> None:
        async for batch in stream:
            for message in batch:
                if message.offset() == 1:
                    raise KeyError("total")

    async def body(stream: Any) -> None:
        with pytest.raises(KeyError) as caught:
            await stream.app._endless(counting)(stream)
        assert told(caught.value) == "KeyError: 'total'; agent counting at source[0]@1"

    assert heard(tmp_path, body) == ["started", "finished", "started"]


def test_invariant_04_given_raise_break_return_or_cancel_then_nothing_is_acknowledged(tmp_path: Path) -> None:
    async def raises(stream: Any) -> None:
        async def work() -> None:
            async for _ in stream:
                raise RuntimeError("bug")

        with pytest.raises(RuntimeError):
            await work()

    async def breaks(stream: Any) -> None:
        async for _ in stream:
            break

    async def returns(stream: Any) -> None:
        async for _ in stream:
            return

    async def cancelled(stream: Any) -> None:
        async def work() -> None:
            async for _ in stream:
                await asyncio.sleep(3600)

        task = asyncio.create_task(work())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for body in (raises, breaks, returns, cancelled):
        assert heard(tmp_path, body) == ["started"], body.__name__


def test_given_a_batch_taken_back_while_it_waited_then_it_is_skipped(tmp_path: Path) -> None:
    settings, owner = config(tmp_path), Owner()

    async def main() -> list[int]:
        app = App(settings)
        batches = [make_batch(settings, [record(n)], owner=owner) for n in range(2)]
        batches[0].state = BatchState.DROPPED
        return [batch.next_offset async for batch in Stream(Channel(batches), app=app)]

    assert asyncio.run(main()) == [2]


def test_given_a_batch_whose_unit_is_lost_when_the_agent_comes_then_it_is_skipped(tmp_path: Path) -> None:
    class Lost(Owner):
        def started(self, batch: Batch) -> bool:
            return False

    settings = config(tmp_path)

    async def main() -> list[int]:
        owners = [Lost(), Owner()]
        batches = [make_batch(settings, [record(n)], owner=owner) for n, owner in enumerate(owners)]
        return [batch.next_offset async for batch in Stream(Channel(batches), app=App(settings))]

    assert asyncio.run(main()) == [2]


def test_given_a_table_then_it_is_the_view_of_the_running_batch(tmp_path: Path) -> None:
    settings = config(tmp_path)
    rows = Rows({b"words\0a": b"1"})

    async def main() -> None:
        app = App(settings)
        words = app.Table("words")
        with pytest.raises(RuntimeError, match="outside"):
            words.get(b"a")
        batch = make_batch(settings, [record(0, b"a")], rows)
        async for _ in Stream(Channel([batch]), app=app):
            assert words[b"a"] == words.get(b"a") == b"1"
            assert b"a" in words
            words[b"b"] = b"2"
            assert list(words.scan()) == [(b"a", b"1"), (b"b", b"2")]
            del words[b"a"]
            assert b"a" not in words
            assert words.get(b"a", b"none") == b"none"
            with pytest.raises(KeyError):
                words[b"a"]
            with pytest.raises(NotImplementedError):
                words.keys()
            with pytest.raises(TypeError):
                words[b"c"] = None  # type: ignore[assignment]
        assert batch.overlays["words"].writes == {b"b": b"2", b"a": None}

    asyncio.run(main())


def test_given_anything_but_iteration_then_refused(tmp_path: Path) -> None:
    async def main() -> None:
        stream = Stream(Channel([]), app=App(config(tmp_path)))
        for name in ("events", "take", "group_by", "filter", "noack", "through"):
            with pytest.raises(NotImplementedError):
                getattr(stream, name)()
        stream.add_processor(str)
        with pytest.raises(Refused):
            aiter(stream)

    asyncio.run(main())
