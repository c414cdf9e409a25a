"""`mailonce dead`: what was given up on; tried again, or dismissed."""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import typer

from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.command import Yes, api_command, confirm, group
from mailonce.edge.cli.dead_letter_words import add_retrier, complete, how
from mailonce.edge.cli.deliveries import TRY_COLUMNS, DryRun
from mailonce.edge.cli.delivery_outcomes import DeliveryWatch, Detach, follow, pending_by_route
from mailonce.edge.cli.list_options import (
    Cursor,
    Limit,
    MessageId,
    Recipient,
    RouteName,
    SinceFailure,
    SourceName,
    UntilFailure,
    empty_list,
)
from mailonce.edge.cli.removed_routes import giving_up_words
from mailonce.edge.cli.retry_choice import by_reason, choose_retry
from mailonce.edge.cli.send_ids import about
from mailonce.edge.cli.show import Column, Show, moment
from mailonce.errors import ClashError, ConfigError, RefusedError

app = group("dead", "List, show, retry and dismiss dead letters.")

EMPTY = "no dead letters"
# Of more letters that are retried at once, the first are followed.
FOLLOW_MAX = 1_000
# Of more letters that are closed already, the first are named.
SENTENCES_MAX = 10

COLUMNS = (
    Column("failed", "failed_at"),
    Column("kind", "kind"),
    Column("source", "source_name"),
    Column("route", "route_name"),
    Column("recipient", "recipient", whole=True),
    Column("status", "status", right=True),
    Column("reason", "why", wraps=True),
    Column("attempts", "attempts", right=True),
    Column("id", "id", whole=True),
)
RESOLVED_COLUMNS = (
    *COLUMNS[:-1], Column("resolved", "resolved_at"), Column("how", "how", wraps=True), COLUMNS[-1],
)  # fmt: skip
FIELDS = (
    "id", "kind", "recipient", "route_name", "why", "status", "attempts", "failed_at",
    "resolved_at", "how", "delivered_at", "next", "source_name", "delivery", "key",
)  # fmt: skip
BODY = ("raw", "raw_base64")

Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="dead_…, or its beginning")]
DeadId = Annotated[str, typer.Argument(metavar="ID", help="dead_…, or its beginning")]
OfKind = Annotated[str | None, typer.Option("--kind", help="arrival, delivery or mail")]
All = Annotated[bool, typer.Option("--all", help="all that are open")]


@api_command(app, "list")
async def list_(
    client: ApiSession,
    show: Show,
    *,
    source: SourceName = None,
    route: RouteName = None,
    kind: OfKind = None,
    recipient: Recipient = None,
    message: MessageId = None,
    resolved: Annotated[
        bool, typer.Option("--resolved", help="those that were retried or dismissed instead")
    ] = False,
    since: SinceFailure = None,
    until: UntilFailure = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """List dead letters: arrivals and deliveries that were given up on."""
    wanted = {"source": source, "route": route, "kind": kind, "since": since, "until": until}
    wanted |= await about(client, recipient, message)
    wanted["resolved"] = "true" if resolved else None
    page = await client.some("dead-letters", limit=limit, cursor=cursor, **wanted)
    if not show.json:
        await complete(client, page["data"])
    columns = RESOLVED_COLUMNS if resolved else COLUMNS
    show.page(
        page, columns, empty=empty_list("dead letters", wanted | {"resolved": resolved}, EMPTY)
    )
    given = {name for name, value in wanted.items() if value is not None}
    if not show.json and given <= {"route"}:
        show.plain(await giving_up_words(client, route))
    if not show.json and any(one["resolution"] == "retried" for one in page["data"]):
        show.say("[dim]who retried one: `mailonce dead show ID`[/dim]")


@api_command(app, "show")
async def show_(client: ApiSession, show: Show, dead_id: DeadId) -> None:
    """Show a dead letter: why, what can be done, each attempt, and its bytes."""
    letter = await client.get("dead-letters", dead_id)
    if show.answer(letter):
        return
    await complete(client, [letter])
    await add_retrier(client, letter)
    show.fields(letter, FIELDS)
    if letter.get("history"):
        show.table(TRY_COLUMNS, letter["history"], sparse=True, is_whole=True)
    show.fields(letter, BODY)


@api_command(app, "retry")
async def retry(
    client: ApiSession,
    show: Show,
    ids: Ids = None,
    *,
    source: SourceName = None,
    route: RouteName = None,
    kind: OfKind = None,
    recipient: Recipient = None,
    message: MessageId = None,
    since: SinceFailure = None,
    until: UntilFailure = None,
    dry_run: DryRun = False,
    all_: All = False,
    read_as: Annotated[
        str | None,
        typer.Option("--as", metavar="SOURCE", help="read as of this source; their own is removed"),
    ] = None,
    yes: Yes = False,
    detach: Detach = False,
) -> None:
    """Read arrivals again with today's code, and send deliveries again."""
    wanted = {"source": source, "route": route, "kind": kind, "since": since, "until": until}
    wanted |= await about(client, recipient, message)
    rows = await _chosen(client, ids, wanted, all_=all_ or dry_run)
    # What is named one by one is refused by the server, with its reason.
    letters, left_out = (ids, []) if ids else await choose_retry(client, rows)
    if dry_run:
        if not show.answer({"dry_run": True, "total": len(letters)}):
            show.say(f"would retry {_dead_letters(len(letters))}; nothing was changed")
            show.plain(left_out)
        return
    if not letters and not left_out and not show.json:
        await _say_none(client, show, route, is_all=all_)
        return
    if len(letters) > 1 and ids is None:
        confirm(f"Retry {_dead_letters(len(letters))}?", yes=yes)
    body = None if read_as is None else {"source": read_as}
    outcome = await _retry_each(client, show, letters, body)
    client.warn_without_server()
    done, failed = outcome.done, [*left_out, *outcome.failed_lines, *outcome.closed]
    if not show.answer(done[0] if ids and len(done) == 1 else {"data": done, "failed": failed}):
        _say_retried(show, outcome, of=len(letters))
        show.plain(left_out)
        if not detach:
            await _follow(client, show, done)
    # One that is closed already is no failure beside others.
    if left_out or outcome.failed or (outcome.closed and not done):
        raise typer.Exit(1)


class _RetryOutcome(NamedTuple):
    """What became of letters: retried, refused with a reason, or closed before."""

    done: list[Any]
    failed: list[tuple[str, str]]
    closed: list[str]

    @property
    def failed_lines(self) -> list[str]:
        return [f"{id_}: {why}" for id_, why in self.failed]

    @property
    def own(self) -> list[Any]:
        """Those that this command has retried: somebody may have been quicker."""
        # A server of before does not tell it.
        return [one for one in self.done if not one.get("already_retried")]


async def _retry_each(
    client: ApiSession, show: Show, letters: Sequence[str], body: Any
) -> _RetryOutcome:
    """Retry letters one after the other; what is refused of a single one is raised."""
    outcome = _RetryOutcome([], [], [])
    with show.progress() as progress:
        bar = progress.add_task("retry", total=len(letters))
        for one in letters:
            try:
                outcome.done.append(await client.post("dead-letters", one, "retry", body=body))
            except RefusedError as error:
                if len(letters) == 1:
                    raise
                if isinstance(error, ClashError):
                    outcome.closed.append(str(error))
                else:
                    outcome.failed.append((one, str(error)))
            progress.advance(bar)
    return outcome


def _say_retried(show: Show, outcome: _RetryOutcome, *, of: int) -> None:
    own = outcome.own
    if len(own) == 1:
        [letter] = own
        is_delivery = letter["kind"] == "delivery"
        show.say(f"{letter['id']} {'queued for delivery' if is_delivery else 'read and recorded'}")
    others = len(outcome.done) - len(own)
    if of > 1:
        before = others + len(outcome.closed)
        had = f"; {before:,} had been retried or dismissed before" if before else ""
        show.say(f"retried {len(own):,} of {_dead_letters(of)}{had}")
    elif others:
        [letter] = outcome.done
        at = moment(letter["resolved_at"])
        show.say(f"{letter['id']} had been retried before, at {at}; nothing more is sent")
    show.plain(by_reason(outcome.failed))
    show.plain(outcome.closed[:SENTENCES_MAX])
    if len(outcome.closed) > SENTENCES_MAX:
        show.say(f"and {len(outcome.closed) - SENTENCES_MAX:,} more that were closed before")


async def _say_none(client: ApiSession, show: Show, route: str | None, *, is_all: bool) -> None:
    show.say("no dead letter is open" if is_all else "no such dead letter is open")
    if is_all or route is not None:
        show.plain(await giving_up_words(client, route))
        show.plain(await pending_by_route(client, route))


async def _follow(client: ApiSession, show: Show, letters: list[Any]) -> None:
    """Follow the deliveries among letters that were retried."""
    sent = [one for one in letters if one["delivery"]][:FOLLOW_MAX]
    if sent:
        ids = [one["delivery"] for one in sent]
        since = min(one["resolved_at"] for one in sent)
        await follow(show, DeliveryWatch(client, ids, since=since), moves=client.has_server)


@api_command(app, "dismiss")
async def dismiss(
    client: ApiSession,
    show: Show,
    ids: Ids = None,
    *,
    source: SourceName = None,
    route: RouteName = None,
    kind: OfKind = None,
    recipient: Recipient = None,
    message: MessageId = None,
    since: SinceFailure = None,
    until: UntilFailure = None,
    all_: All = False,
    reason: Annotated[str, typer.Option(help="why; others will read it")] = "",
    yes: Yes = False,
) -> None:
    """Close dead letters about which nothing is to be done; they stay readable."""
    wanted = {"source": source, "route": route, "kind": kind, "since": since, "until": until}
    wanted |= await about(client, recipient, message)
    rows = await _chosen(client, ids, wanted, all_=all_)
    letters = ids or [str(one["id"]) for one in rows]
    if not letters and not show.json:
        await _say_none(client, show, route, is_all=all_)
        return
    closed: list[Any] = []
    if ids is None:
        confirm(f"Dismiss {_dead_letters(len(letters))}?", yes=yes or not letters)
    else:
        known = [await client.get("dead-letters", one) for one in letters]
        closed = [one for one in known if one["resolved_at"] is not None]
        letters = [one["id"] for one in known if one["resolved_at"] is None]
    done = [
        await client.post("dead-letters", one, "dismiss", body={"reason": reason})
        for one in letters
    ]
    if done and not show.json:
        unsaid = "" if reason else ", without a reason; --reason tells others why"
        show.say(f"dismissed {_dead_letters(len(done))}{unsaid}")
    refused = [why for one in closed if (why := await _explain(client, show, one, reason))]
    if not show.answer({"data": done} | ({"failed": refused} if refused else {})):
        show.plain(refused)
    if refused:
        raise typer.Exit(1)


async def _explain(client: ApiSession, show: Show, letter: Any, reason: str) -> str | None:
    """Give a letter that is closed the reason that it lacks; else say why it is not kept."""
    words = f"{letter['id']} is closed already: {how(letter)}, at {moment(letter['resolved_at'])}"
    if not reason or reason == letter["dismissed_because"]:
        show.plain([] if show.json else [words])
        return None
    try:
        await client.post("dead-letters", letter["id"], "dismiss", body={"reason": reason})
    except ClashError:
        return f"{words}; the reason that you give is not kept"
    show.plain([] if show.json else [f"{words}; now it has your reason"])
    return None


def _dead_letters(count: int) -> str:
    return f"{count:,} dead letter{'' if count == 1 else 's'}"


async def _chosen(
    client: ApiSession, ids: list[str] | None, wanted: dict[str, str | None], *, all_: bool
) -> list[Any]:
    """List the open letters that the filters choose; none where ids name them."""
    if ids:
        return []
    if not all_ and not any(wanted.values()):
        raise ConfigError(
            "say which: ids, --route, --recipient, --since or another filter, or --all"
        )
    return await client.all("dead-letters", **wanted)
