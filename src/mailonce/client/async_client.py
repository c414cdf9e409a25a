"""The awaited client of a mailonce server."""

import random
import ssl
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self, Unpack

from mailonce.client import calls, flows
from mailonce.client.async_driver import AsyncWire, NetworkWire, run
from mailonce.client.calls import (
    ExpectationFields,
    ExpectationKind,
    ExpectationName,
    InboxFields,
    InboxName,
    KeyHook,
    NarrowFields,
    SendName,
)
from mailonce.client.flows import RETRY_S, TIMEOUT_S, WAIT_S, FlowContext
from mailonce.client.message_match import MessageMatch
from mailonce.client.place import place_of
from mailonce.client.records import (
    ConsumptionRecord,
    ExpectationRecord,
    InboxRecord,
    MessageList,
    MessageRecord,
    SendRecord,
)
from mailonce.client.requests import name_of
from mailonce.client.send_fields import RecipientFields, SendFields, many_recipients, one_recipient


class AsyncClient:
    """Sends, inboxes and expectations of a server; tasks may share one, and event loops too.

    Without `url` and `key` it is MAILONCE_URL and MAILONCE_KEY that count. A request that was not
    answered is sent again under the same key for `retry_s`, so a restart of the server is no error.
    What the API refuses is raised as in `mailonce.errors`, with its further facts in `members`.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        workspace: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retry_s: float = RETRY_S,
        tls: ssl.SSLContext | None = None,
        wire: AsyncWire | None = None,
    ) -> None:
        place = place_of(url, key, workspace=workspace, tls=tls)
        self.url = place.url
        self._wire: AsyncWire = wire or NetworkWire(place)
        self._context = FlowContext(
            url=place.url,
            timeout_s=timeout_s,
            retry_s=retry_s,
            now=time.monotonic,
            chance=random.random,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the idle connections; whatever is asked afterwards is a ConfigError."""
        await self._wire.close()

    async def send(
        self,
        to: RecipientFields,
        *,
        from_: str,
        key: str | None = None,
        on_key: KeyHook | None = None,
        **fields: Unpack[SendFields],
    ) -> SendRecord:
        """Send a mail to one recipient, once.

        `key` names the mail: made before the first try and stored with what causes it. Without one
        it is made of `cause_id`, `stream` and template; without these the client makes a key, which
        `on_key` is given before the first attempt.
        """
        [sent] = await run(
            self._wire,
            calls.send(
                self._context, one_recipient(to), from_=from_, key=key, on_key=on_key, fields=fields
            ),
        )
        return sent

    async def send_many(
        self,
        to: Sequence[RecipientFields],
        *,
        from_: str,
        key: str | None = None,
        on_key: KeyHook | None = None,
        **fields: Unpack[SendFields],
    ) -> list[SendRecord]:
        """Send a mail of its own to each of up to 1,000 recipients, once; all under one key."""
        return await run(
            self._wire,
            calls.send(
                self._context,
                many_recipients(to),
                from_=from_,
                key=key,
                on_key=on_key,
                fields=fields,
            ),
        )

    async def find_send(self, send: SendName) -> SendRecord:
        """Show a send, with its attempts and the evidence of its outcome in `json`."""
        return await run(self._wire, calls.find_send(self._context, send))

    async def cancel_send(self, send: SendName) -> SendRecord:
        """Cancel a send whose first byte has not left; its key stays taken."""
        return await run(self._wire, calls.cancel_send(self._context, send))

    async def make_inbox(
        self, *, key: str | None = None, **fields: Unpack[InboxFields]
    ) -> InboxRecord:
        """Make an inbox; without `local` its address is one that nobody can guess."""
        return await run(self._wire, calls.make_inbox(self._context, key, fields))

    async def find_inbox(self, inbox: InboxName) -> InboxRecord:
        """Show an inbox, by its id or an address of it."""
        return await run(self._wire, calls.find_inbox(self._context, inbox))

    async def delete_inbox(self, inbox: InboxName) -> None:
        """Delete an inbox with all its mail."""
        await run(self._wire, calls.delete_inbox(self._context, inbox))

    async def read_messages(
        self,
        inbox: InboxName,
        *,
        after: int = 0,
        wait_s: float = 0,
        sender: str | None = None,
        subject: str | None = None,
    ) -> MessageList:
        """Read messages behind the number `after`; where there are none, wait up to 25 s."""
        return await run(
            self._wire,
            flows.read_messages(
                self._context,
                name_of(inbox),
                after=after,
                wait_s=wait_s,
                sender=sender,
                subject=subject,
            ),
        )

    async def wait_for_message(
        self,
        inbox: InboxName,
        *,
        after: int = 0,
        sender: str | None = None,
        subject: str | None = None,
        timeout_s: float = WAIT_S,
    ) -> MessageRecord:
        """Wait for the first message behind `after` that matches.

        A client remembers no mail: asked again, it gives the same one. For the next one pass the
        number of this one, `after=message.seq`. `sender` is an address, also with a name before it
        (`Shop <shop@example.com>`), or `@example.com` for all addresses of that domain, not of its
        subdomains; case does not count. `subject` is words that the subject contains.

        Raises: WaitTimeoutError, and at once ParseError where `sender` can never match.
        """
        match = MessageMatch(sender=sender, subject=subject)
        return await run(
            self._wire,
            flows.wait_for_message(self._context, inbox, match, after=after, timeout_s=timeout_s),
        )

    async def find_message(self, inbox: InboxName, message: str) -> MessageRecord:
        """Show one message."""
        return await run(self._wire, calls.find_message(self._context, inbox, message))

    async def put_message(
        self, inbox: InboxName, mail: bytes, *, to: str | None = None, from_: str | None = None
    ) -> bool:
        """Put a mail into an inbox as if it had come over SMTP; say whether it was new."""
        return await run(
            self._wire, calls.put_message(self._context, inbox, mail, to=to, from_=from_)
        )

    async def raw_mail(self, inbox: InboxName, message: MessageRecord | str) -> bytes:
        """Give a mail as it came."""
        id_ = message if isinstance(message, str) else message.id
        return await run(self._wire, calls.raw_mail(self._context, inbox, id_))

    async def open_expectation(
        self,
        inbox: InboxName | None,
        kind: ExpectationKind,
        *,
        key: str | None = None,
        **fields: Unpack[ExpectationFields],
    ) -> ExpectationRecord:
        """Expect a `code`, a `link` or a `state`, of an inbox or of a new one.

        Open it before the mail is asked for: what comes from then on counts.
        """
        return await run(
            self._wire, calls.open_expectation(self._context, inbox, kind, key, fields)
        )

    async def find_expectation(
        self, expectation: ExpectationName, *, wait_s: float = 0
    ) -> ExpectationRecord:
        """Show an expectation; while it waits for mail, the answer is held back for `wait_s`."""
        return await run(self._wire, calls.find_expectation(self._context, expectation, wait_s))

    async def wait_for_expectation(
        self, expectation: ExpectationName, *, timeout_s: float = WAIT_S
    ) -> ExpectationRecord:
        """Wait while it is `pending` or `quarantined`; at the end of the time, give it as it is.

        A mail that is held back ends no wait: the right one may still come.
        """
        name = calls.id_of(expectation)
        return await run(
            self._wire, flows.wait_for_expectation(self._context, name, timeout_s=timeout_s)
        )

    async def consume(
        self, expectation: ExpectationName, consume_key: str | None = None
    ) -> ConsumptionRecord:
        """Take the value, once; the same key is given the same value again."""
        return await run(self._wire, calls.consume(self._context, expectation, consume_key))

    async def confirm(
        self, expectation: ExpectationName, consume_key: str, *, accepted: bool = True
    ) -> Mapping[str, Any]:
        """Say whether the value was accepted; of a rejected one the next is offered."""
        flow = calls.confirm(self._context, expectation, consume_key, accepted=accepted)
        return await run(self._wire, flow)

    async def redeem(self, expectation: ExpectationName, consume_key: str) -> Mapping[str, Any]:
        """Let the server make the one guarded request with the link that was consumed."""
        return await run(self._wire, calls.redeem(self._context, expectation, consume_key))

    async def narrow(
        self, expectation: ExpectationName, **fields: Unpack[NarrowFields]
    ) -> ExpectationRecord:
        """Ask for less than before: fewer senders or hosts, an earlier deadline; never more."""
        return await run(self._wire, calls.narrow(self._context, expectation, fields))

    async def resend(self, expectation: ExpectationName, *, number: int) -> Mapping[str, Any]:
        """Ask whether the mail may be asked for again; `number` counts your resends, from 1."""
        return await run(self._wire, calls.resend(self._context, expectation, number))

    async def explain(self, expectation: ExpectationName) -> Mapping[str, Any]:
        """Say what came, and why it did or did not match."""
        return await run(self._wire, calls.explain(self._context, expectation))

    async def find_access(self) -> Mapping[str, Any]:
        """Say what the key of this client may do: its `scope` and `workspace`."""
        return await run(self._wire, calls.find_access(self._context))
