"""The demo's third act: two media servers and one person; an update that gets lost, and a row that somebody edits.

Everything goes the way of every other server: ``playhead source connect --forward``, ``playhead user link``,
``playhead scan``, webhooks, the log, the worker, ``playhead reconcile``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from streams.cli.demo_jellyfins import MINUTE, TICKS, Film, Server
from streams.cli.demo_waiting import clock, until
from streams.cli.scanning import Desk
from streams.domain.identity import media_id

TITLE: Final = "The Paper Lantern"
WATCHED: Final = 42 * MINUTE
WENT_ON: Final = 61 * MINUTE
_IMDB: Final = "tt0900001"
_LENGTH: Final = 110 * MINUTE
_EVERY_S: Final = 3_600
"""Polled so seldom that what gets lost stays lost until somebody looks."""
_SLACK_MS: Final = 1_500
_EDITED: Final = ("home", "ben", "long-tide", "The Long Tide")
_WRONG_MS: Final = 5 * MINUTE


@dataclass(frozen=True, slots=True)
class Homes:
    """The two servers: Dora has another id on each, and so has the film."""

    den: Server = field(
        default_factory=lambda: Server(
            "den",
            "d0a1b2c3d4e5f60718293a4b5c6d7e01",
            (
                Film("a11ce000000000000000000000000001", TITLE, _IMDB, _LENGTH),
                Film("a11ce000000000000000000000000002", "Salt Roads", "tt0900002", 95 * MINUTE),
            ),
        )
    )
    attic: Server = field(
        default_factory=lambda: Server(
            "attic",
            "0fedcba9876543210fedcba987654302",
            (
                Film("b0b00000000000000000000000000007", "Winter Ferry", "tt0900003", 88 * MINUTE),
                Film("b0b00000000000000000000000000008", TITLE, _IMDB, _LENGTH),
            ),
        )
    )

    @property
    def both(self) -> tuple[Server, Server]:
        return self.den, self.attic

    def connect(self, settings: Any) -> None:
        """As ``playhead source connect NAME --forward`` does. Before the roles start: a poll role that runs already
        looks for new servers every half minute."""
        from streams.cli.admin import door_connection
        from streams.runtime.tokens import create_source
        from streams.runtime.upstreams import Account, connect_upstream, set_forwarding

        with door_connection(settings) as connection:
            for server in self.both:
                create_source(connection, server.name, "jellyfin", f"Jellyfin in the {server.name}")
                account = Account("", "api_key", server.key)
                connect_upstream(connection, server.name, server.url, account, interval_s=_EVERY_S, verify_tls=True)
                set_forwarding(connection, server.name, True)

    def place(self, server: Server) -> int:
        """Where Dora is with the film, ms, as the server itself says when it is asked."""
        answer = httpx.get(
            f"{server.url}/UserItems/{server.film(_IMDB).guid}/UserData",
            params={"userId": server.user},
            headers={"Authorization": f'MediaBrowser Token="{server.key}"'},
            timeout=10,
        )
        answer.raise_for_status()
        return int(answer.json()["PlaybackPositionTicks"]) // TICKS


def play(homes: Homes, url: str, settings: Any, console: Any) -> None:
    """Run it. Raises RuntimeError when something does not become what it must."""
    console.print("\nNow two Jellyfin servers, each with a key that Playhead was given when it started.\n")
    console.print(
        f"[bold]playhead source connect den --url {homes.den.url} --forward[/bold]  · the same of attic ·  "
        "[bold]playhead user link[/bold]  ·  [bold]playhead scan[/bold]"
    )
    _plug_in(homes, url, settings)
    _link(homes, settings)
    _list(homes, settings)
    _share(homes, console)
    _lose_and_find(homes, settings, console)


def _plug_in(homes: Homes, url: str, settings: Any) -> None:
    """Paste the door's address into both servers' webhook pages."""
    from streams.cli.admin import door_connection
    from streams.runtime.tokens import create_token

    with door_connection(settings) as connection:
        for server in homes.both:
            token = create_token(connection, server.name, ["report"], None, "demo")
            server.hook = f"{url}/hooks/jellyfin/{token}"


def _link(homes: Homes, settings: Any) -> None:
    """As ``playhead user link attic ACCOUNT den/ACCOUNT`` does, of accounts that nobody has used yet."""
    from streams.cli.admin import identified_connection
    from streams.runtime.people import find_account, link_account, make_account

    with identified_connection(settings) as (connection, publish):
        person = make_account(connection, homes.den.name, homes.den.user)
        publish(homes.den.name, homes.den.user, person)
        make_account(connection, homes.attic.name, homes.attic.user)
        its = find_account(connection, homes.attic.name, homes.attic.user)
        if its.user_ref != person:
            link_account(connection, its, person)
        publish(homes.attic.name, homes.attic.user, person)


def _list(homes: Homes, settings: Any) -> None:
    """Both libraries are listed, beside each other, and both servers were polled."""
    from streams.cli.admin import door_connection
    from streams.runtime.polls import list_health

    with Desk(settings, homes.den.name) as den, Desk(settings, homes.attic.name) as attic:
        for desk, asked in [(desk, desk.request(full=False)) for desk in (den, attic)]:
            found = desk.follow(asked, quiet=True)
            if found.status != "finalized" or found.counts["seen"] != 2:
                raise RuntimeError(f"scan {found.scan} ended {found.status}, not with two films: {found}")

    def polled() -> bool:
        with door_connection(settings) as connection:
            well = {one.source_id for one in list_health(connection) if one.succeeded_at is not None}
        return well >= {server.name for server in homes.both}

    until("both servers are polled", polled)


def _share(homes: Homes, console: Any) -> None:
    """What is watched on one server goes on on the other."""
    now = int(time.time() * 1000)
    homes.den.watch(homes.den.film(_IMDB), now, 0, WATCHED)
    since = time.monotonic()
    until("the attic has the position of the den", lambda: _is_at(homes, homes.attic, WATCHED))
    took = time.monotonic() - since
    console.print(
        f"Dora watches on the den's server, whose webhooks tell of it. The attic's server has it {took:.1f} s later:"
    )
    console.print(_places(homes))


def _lose_and_find(homes: Homes, settings: Any, console: Any) -> None:
    """She goes on in the attic, whose webhooks get lost; and somebody edits a row. Both are found, mended, told."""
    # What a webhook says counts as of when it arrived: a server's time of what is newer is later than that.
    now = int(time.time() * 1000)
    homes.attic.watch(homes.attic.film(_IMDB), now, WATCHED, WENT_ON, hooks_are_lost=True)
    row = _Row.of(settings)
    before = row.position_ms()
    row.edit(_WRONG_MS)
    console.print(
        f"\nShe goes on in the attic, but the webhooks of it get lost. And somebody edits a row of the read model: "
        f"Ben is at {clock(_WRONG_MS)} of {_EDITED[3]} there, not at {clock(before)}. "
        "[bold]playhead reconcile --only progress,rows --repair[/bold]"
    )
    found = _reconcile(settings, repair=True)
    drift = {cause.value: one for cause, one in found.findings.causes()}
    if {name: one.count for name, one in drift.items()} != {"upstream_changed": 1, "row_edited": 1}:
        raise RuntimeError(f"reconcile found something else than what was lost and edited: {found.as_json()}")
    console.print(_drift(found))
    until("the den has what got lost in the attic", lambda: _is_at(homes, homes.den, WENT_ON))
    if row.position_ms() != before:
        raise RuntimeError(f"the row is not what the log makes of it: {row.position_ms()} ms, not {before}")
    console.print(
        f"Repaired through the log: the row says {clock(before)} again, and what got lost has come to the den, too:"
    )
    console.print(_places(homes))
    again = _reconcile(settings, repair=False)
    if again.findings.count:
        raise RuntimeError(f"a second look found something: {again.as_json()}")
    looked = sum(again.findings.looked_at.values())
    console.print(f"[bold]playhead reconcile[/bold] once more: {looked} things looked at, all of it agrees.")


def _reconcile(settings: Any, *, repair: bool) -> Any:
    """As ``playhead reconcile --only progress,rows`` does."""
    from projections.entry import PROJECTIONS
    from projections.reconcile.findings import Scope
    from projections.reconcile.running import Chosen, reconcile
    from streams.runtime import logs
    from streams.runtime.contract import Contract

    logs.configure("reconcile", level="ERROR")
    chosen = Chosen((Scope.PROGRESS, Scope.ROWS), None, repair)
    return reconcile(settings, Contract.of(settings), chosen, PROJECTIONS)


_READ: Final = "SELECT position_ms FROM model.playback_progress WHERE user_ref = %s AND media_id = %s"
_EDIT: Final = "UPDATE model.playback_progress SET position_ms = %s WHERE user_ref = %s AND media_id = %s"


@dataclass(frozen=True, slots=True)
class _Row:
    """Ben's row of the read model. ``key``: user_ref and media_id."""

    settings: Any
    key: tuple[str, str]

    @classmethod
    def of(cls, settings: Any) -> _Row:
        from streams.cli.admin import door_connection
        from streams.runtime.people import find_account

        source, user, media, _ = _EDITED
        with door_connection(settings) as connection:
            return cls(settings, (find_account(connection, source, user).user_ref, media_id(source, media)))

    def position_ms(self) -> int:
        with self._connection() as connection:
            found = connection.execute(_READ.encode(), self.key).fetchone()
        if found is None:
            raise RuntimeError(f"there is no row of {_EDITED[3]}")
        return int(found[0])

    def edit(self, position_ms: int) -> None:
        """As somebody's hand does."""
        with self._connection() as connection:
            connection.execute(_EDIT.encode(), (position_ms, *self.key))

    def _connection(self) -> Any:
        import psycopg

        return psycopg.connect(**self.settings.postgres.conninfo("projector"))


def _is_at(homes: Homes, server: Server, position_ms: int) -> bool:
    return abs(homes.place(server) - position_ms) <= _SLACK_MS


def _places(homes: Homes) -> Any:
    from rich.table import Table

    table = Table(title="What the servers themselves say", title_justify="left")
    for column in ("server", "what", "its own id of it", "Dora is at"):
        table.add_column(column)
    for server in homes.both:
        table.add_row(server.name, TITLE, f"{server.film(_IMDB).guid[:8]}…", clock(homes.place(server)))
    return table


def _drift(found: Any) -> Any:
    from rich.table import Table

    from projections.reconcile.findings import MEANING

    table = Table(title="Found", title_justify="left")
    for column in ("cause", "count", "means"):
        table.add_column(column)
    for cause, one in found.findings.causes():
        table.add_row(cause.value, str(one.count), MEANING[cause])
    return table
