"""`mailonce tail`: events as they arrive.

Ids sort by the time of receipt, but what has an earlier one may be recorded later: a mail is read
after it was accepted, and one that no inbox took may be adopted days afterwards. So each look goes
through the newest page by what was shown before, and adopted mail is found by the audit log.
"""

import asyncio
import sys
from dataclasses import dataclass, field
from typing import Annotated, Any

import orjson
import typer
from rich.text import Text

from mailonce.core.events.event import EventType
from mailonce.core.ids import ArrivalId, nth_event_id, private, public
from mailonce.core.inboxes.mail_items import MAIL_PREFIX
from mailonce.core.reading.values import address_of
from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.list_options import Recipient, SourceName
from mailonce.edge.cli.show import STYLES, Show, moment
from mailonce.errors import MissingError, UnavailableError

LOOK_EVERY_S = 0.5
PAGE_ROWS = 1_000
# What each look goes through, however little is new.
LATE_ROWS = 100
ROWS_MAX = 50_000
# Of so many events it is remembered that they were shown.
SEEN_MAX = 2 * ROWS_MAX
ADOPTION = "POST /v1/unmatched/{mail_id}/adopt"
ADOPTIONS_MAX = 20
# No index leads to adoptions: so many changes are gone through at each look.
CHANGES_MAX = 100
# A mail may report on several others.
EVENTS_OF_MAIL_MAX = 20


async def tail(
    client: ApiSession,
    show: Show,
    *,
    type: Annotated[EventType | None, typer.Option(help="only this type")] = None,  # noqa: A002
    source: SourceName = None,
    recipient: Recipient = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="stop after that many events")
    ] = None,
) -> None:
    """Follow events as they arrive, until you press Ctrl-C; with --json one object a line.

    A server that goes away is waited for.
    """
    client.require_server("no event arrives")
    word = None if type is None else type.value
    query = {"type": word, "source": source, "recipient": recipient}
    newest = await client.get("events", limit=LATE_ROWS, **query)
    news = _News(client, query, {one["id"] for one in newest["data"]})
    # What is older than the first page is not known to be old.
    news.floor = newest["data"][-1]["id"] if newest["next"] else ""
    news.adoptions = {one["id"] for one in await news.find_adoptions()}
    if not show.json:
        typer.echo("mailonce: waiting for new events; Ctrl-C stops", err=True)
    left = count
    is_away = False
    while left is None or left > 0:
        try:
            events = await news.look()
        except UnavailableError as error:
            if not is_away:
                typer.echo(f"mailonce: {error}; waiting for it", err=True)
            is_away = True
            await asyncio.sleep(LOOK_EVERY_S)
            continue
        if is_away:
            typer.echo("mailonce: the server answers again", err=True)
        is_away = False
        for event in events:
            _print(show, event)
            left = None if left is None else left - 1
            if left == 0:
                return
        await asyncio.sleep(LOOK_EVERY_S)


@dataclass(slots=True)
class _News:
    """Finds events that were not shown yet."""

    client: ApiSession
    query: dict[str, str | None]
    # Events that were there, or were shown; an event below the floor is taken to be one of them.
    seen: set[str]
    floor: str = ""
    # Entries of the audit log that were looked at, and mail that was adopted and is yet to be read.
    adoptions: set[str] = field(default_factory=set)
    adopted: list[str] = field(default_factory=list)

    async def look(self) -> list[Any]:
        """Give what is new, oldest first; an event that is given counts as seen."""
        events = [*await self._adopted_events(), *await self._new_events()]
        events = list({one["id"]: one for one in events}.values())
        self.seen |= {one["id"] for one in events}
        if len(self.seen) > SEEN_MAX:
            kept = sorted(self.seen)[-SEEN_MAX // 2 :]
            self.seen, self.floor = set(kept), kept[0]
        return events

    async def _new_events(self) -> list[Any]:
        """Read new events; where they are too many, say which are left out.

        The newest come first, so all are read before one is shown.
        """
        rows: list[Any] = []
        cursor, limit = None, LATE_ROWS
        while len(rows) < ROWS_MAX:
            page = await self.client.get("events", limit=limit, cursor=cursor, **self.query)
            new = [
                one for one in page["data"] if one["id"] > self.floor and one["id"] not in self.seen
            ]
            rows += new
            cursor, limit = page["next"], PAGE_ROWS
            if cursor is None or len(new) < len(page["data"]):
                return rows[::-1]
        typer.echo(
            f"mailonce: more than {ROWS_MAX:,} events came at once, and older ones are not shown; "
            f"`mailonce events --until {rows[-1]['received_at']}` lists them",
            err=True,
        )
        return rows[::-1]

    async def find_adoptions(self) -> list[Any]:
        """List those of the newest entries of the audit log by which an inbox adopted a mail."""
        # A server of before has no audit log.
        log = await self.client.find("audit", limit=CHANGES_MAX)
        return [one for one in (log or {"data": []})["data"] if one["operation"] == ADOPTION]

    async def _adopted_events(self) -> list[Any]:
        """Read the events of mail that was adopted; they have the ids of when it came."""
        for entry in await self.find_adoptions():
            if entry["id"] not in self.adoptions:
                self.adoptions.add(entry["id"])
                self.adopted = [*self.adopted, entry["object"]][-ADOPTIONS_MAX:]
        rows: list[Any] = []
        for mail in self.adopted:
            try:
                key = ArrivalId(private(MAIL_PREFIX, mail))
            except MissingError:
                self.adopted = [one for one in self.adopted if one != mail]
                continue
            for number in range(EVENTS_OF_MAIL_MAX):
                event = await self.client.find("events", public("evt", nth_event_id(key, number)))
                if event is None:
                    break
                self.adopted = [one for one in self.adopted if one != mail]
                rows.append(event)
        return [one for one in rows if one["id"] not in self.seen and self._is_wanted(one)]

    def _is_wanted(self, event: Any) -> bool:
        wanted = self.query
        of_source = {None, event["source"], event["source_name"]}
        recipient = wanted["recipient"]
        return (
            wanted["type"] in {None, event["type"]}
            and wanted["source"] in of_source
            and (recipient is None or address_of(recipient) == event["recipient"])
        )


def _print(show: Show, event: Any) -> None:
    if show.json:
        sys.stdout.write(orjson.dumps(event).decode() + "\n")
        sys.stdout.flush()
        return
    type_ = event["type"]
    line = Text(f"{moment(event['received_at'])}  ")
    line.append(f"{type_:13}", STYLES.get(type_, "")).append(f"{event['recipient'] or '-'}  ")
    line.append(f"{event['source_name'] or event['source']}  {event['message_id'] or '-'}", "dim")
    show.console.print(line, soft_wrap=True)
