"""What can go wrong with a media server. ``cause`` is a word, one for each class, for health rows and metrics.

No message quotes what the server sent, nor an address with parameters: both may hold secrets.
"""

from __future__ import annotations

from streams.runtime.errors import PlayheadError, Transient


class UpstreamError(PlayheadError):
    """Asking again at once will not help; the next poll asks again."""

    cause = "failed"


class UpstreamAway(UpstreamError, Transient):
    """No answer, a late one, 5xx or 429. ``retry_after_s``: what the server asked for, bounded; None: it did not."""

    cause = "away"

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Resting(UpstreamAway):
    """It was away a moment ago, so it was not asked."""


class ServerFailed(UpstreamAway):
    """It answers 500: it may be in trouble, or it is what it was asked that it can't do."""


class CredentialsRefused(UpstreamError):
    """The account, password, token or key is wrong, or may not see this."""

    cause = "credentials"


class NotOffered(UpstreamError):
    """This server has no such method or thing; others of its kind have."""

    cause = "not_offered"


class BadAnswer(UpstreamError):
    """An answer that is no JSON of the expected form."""

    cause = "bad_answer"


class TooLarge(UpstreamError):
    """An answer over the size limit; the rest of it was not read."""

    cause = "too_large"


class NotAllowed(UpstreamError):
    """An address outside the configured origin, or one nothing may ever be asked of."""

    cause = "not_allowed"
