"""``playhead forget``: a person leaves, and nothing brings them back."""

from __future__ import annotations

import typer

from streams.cli.output import Json, emit_json


def forget(
    person: str = typer.Argument("", help="SOURCE/ACCOUNT as 'playhead user list' shows it, or a user_ref."),
    again: bool = typer.Option(False, "--again", help="Nobody new: tell the log once more of all who were forgotten."),
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
    wait_s: float = typer.Option(30.0, "--wait", min=0.0, help="Seconds to wait until the read models have done it."),
    as_json: Json = False,
) -> None:
    """Forget a person: progress, history, plays, listening time, names, accounts linked to them, tokens bound to them.

    What the log still holds is of a random id that leads to nobody. Nothing older brings them back: no spool, poll,
    redrive, rebuild or restored backup. Who plays on with the same account afterwards is somebody new.
    Repeating goes on where it was interrupted. After Kafka was restored to an older state, use --again.

    Examples:  playhead forget jelly/3f1c0d5e8a2b4c6d  ·  playhead forget 9d4e… --yes --json  ·  playhead forget --again
    """
    import uuid

    from streams.cli import forgetting
    from streams.runtime import failpoints
    from streams.runtime.errors import EXIT_DIFFERENCES
    from streams.runtime.settings import Settings

    if bool(person) == again:
        raise typer.BadParameter("either a person, or --again")
    settings = Settings.load()
    failpoint, correlation_id = failpoints.armed(settings.failpoints), uuid.uuid4().hex
    if again:
        done = forgetting.carry_out(settings, correlation_id, failpoint, everybody=True)
        refs: tuple[str, ...] = done.told
    else:
        who = forgetting.look(settings, person)
        if not yes:
            names = ", ".join(f"{one.source_id}/{one.upstream_user}" for one in who.accounts) or "no account any more"
            typer.echo(f"{len(who.user_refs)} user_ref{'s' * (len(who.user_refs) > 1)}, accounts: {names}", err=True)
            typer.confirm("Forget this person for good?", abort=True, err=True)
        who, done = forgetting.forget(settings, person, correlation_id, failpoint)
        refs = who.user_refs
    complete = forgetting.wait_for_read_models(settings, refs, wait_s)
    if as_json:
        emit_json(
            {
                "user_refs": refs,
                "erased": done.erased,
                "read_models": complete,
                "correlation_id": correlation_id,
            }
        )
    else:
        erased = ", ".join(f"{count} {name}" for name, count in done.erased.items() if count) or "no name"
        typer.echo(f"forgotten: {len(refs)} user_ref{'s' * (len(refs) != 1)}; erased here: {erased}")
        typer.echo(
            "the read models hold nothing of them"
            if complete
            else "the log is told; the read models follow when 'playhead agents' and 'playhead project' run"
        )
    if not complete:
        raise typer.Exit(EXIT_DIFFERENCES)
