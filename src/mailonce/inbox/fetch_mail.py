"""Fetch mail: get what a provider's hook named but did not hand over.

The fetch is part of reading the mail, so it is tried again as that is. Where the provider has the
mail no longer, what its hook said of it is read instead.
"""

import asyncio
from collections.abc import Callable, Mapping

from mailonce.clock import Clock
from mailonce.core.arrivals.mail_fetch import (
    ANSWER_BYTES_MAX,
    FetchAnswer,
    FetchProblem,
    FetchRequest,
    run_fetch,
)
from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import FetchContent, FieldsContent, MimeContent
from mailonce.errors import RefusedError, UnavailableError
from mailonce.net.http import GuardedClient
from mailonce.providers import account_of, inbound
from mailonce.store.inboxes.messages import MailToRead

# Of one request, and of all that a mail takes: less than its lease.
TIMEOUT_S = 20.0
MAIL_TIMEOUT_S = 45.0


class MailFetcher:
    """Fetches mail with the credentials of the source that announced it."""

    def __init__(
        self, client: GuardedClient, clock: Clock, sources: Callable[[], Mapping[str, Source]]
    ) -> None:
        self._client = client
        self._clock = clock
        # By id, as last read.
        self._sources = sources

    async def fetch(self, mail: MailToRead, wanted: FetchContent) -> MimeContent | FieldsContent:
        """Ask the provider of the mail's source for it.

        Raises: UnavailableError where it cannot be had now.
        """
        source, way = self._source_of(mail), inbound.find(wanted.what)
        if way is None:
            raise UnavailableError(
                f"{wanted.what[:60]!r} cannot be fetched by this version; update mailonce"
            )
        if source is None:
            provider, _, account = mail.account.partition("/")
            raise UnavailableError(
                f"its source was deleted; make one of {provider} with the account {account!r} again"
            )
        try:
            async with asyncio.timeout(MAIL_TIMEOUT_S):
                outcome = await run_fetch(
                    way, wanted.arguments, source, self._ask, now_ms=self._clock.now_ms
                )
        except TimeoutError as error:
            late = f"the provider did not hand over the whole mail in {MAIL_TIMEOUT_S:g} s"
            raise UnavailableError(late) from error
        if not isinstance(outcome, FetchProblem):
            return outcome
        known = way.fallback(wanted.arguments) if outcome.is_final else None
        if known is None:
            raise UnavailableError(outcome.reason)
        return known

    def _source_of(self, mail: MailToRead) -> Source | None:
        """Find the source that announced a mail; where it is gone, another of the same account."""
        known = self._sources()
        return known.get(mail.source) or next(
            (
                one
                for one in known.values()
                if one.workspace == mail.workspace and account_of(one) == mail.account
            ),
            None,
        )

    async def _ask(self, request: FetchRequest) -> FetchAnswer:
        try:
            answer = await self._client.get(
                request.url,
                dict(request.headers),
                bytes_max=ANSWER_BYTES_MAX,
                timeout_s=TIMEOUT_S,
            )
        except RefusedError as error:
            raise UnavailableError(f"the mail cannot be fetched: {error}") from error
        return FetchAnswer(status=answer.status, headers=answer.headers, body=answer.body)
