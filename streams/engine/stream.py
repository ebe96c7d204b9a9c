"""The stream an agent iterates: one batch per step, acknowledged by asking for the next.

Stock Faust acknowledges in a ``finally``, so an exception, ``break`` or ``return`` in the agent
acknowledges the record that caused it. Here nothing but coming back does: every other way out leaves
this generator suspended at its ``yield``, and what is behind it never runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NoReturn

from faust.streams import Stream as FaustStream

from .batch import Batch, BatchState
from .errors import Refused
from .table import current_batch

#: Faust adds this one to every agent's stream; it only unwraps RPC requests.
_FAUST_OWN = "_maybe_unwrap_reply_request"


class Stream(FaustStream):  # type: ignore[misc]
    """Supports ``async for batch in stream`` and nothing else."""

    def __aiter__(self) -> AsyncIterator[Batch]:
        if any(getattr(processor, "__name__", "") != _FAUST_OWN for processor in self._processors):
            raise Refused("stream processors are not supported: a step of this stream is a batch")
        return self._batches()

    async def _batches(self) -> AsyncIterator[Batch]:
        self._finalized = True
        started = await self.maybe_start()
        try:
            while not self.should_stop:
                try:
                    event = await self.channel.get()
                except StopAsyncIteration:
                    return
                batch: Batch = event.value
                if batch.state is not BatchState.QUEUED or not batch.owner.started(batch):
                    continue  # taken back, or its unit lost, while it waited in the queue
                self.current_event = event
                token = current_batch.set(batch)
                yield batch
                current_batch.reset(token)
                self.current_event = None
                self.events_total += 1
                batch.owner.finished(batch)
        finally:
            if started:
                await self.stop()

    def _unsupported(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("batch streams support `async for batch in stream` only")

    events = items = take = take_events = take_with_timestamp = noack_take = enumerate = _unsupported
    group_by = through = echo = filter = join = left_join = inner_join = outer_join = _unsupported
    combine = noack = _unsupported
