"""Make the call of a send, once, and say what became of it.

What is certain comes from here: before the first byte of an HTTP request, or the final dot of SMTP,
the provider cannot have the mail; after it, only its answer tells. Nothing is repeated, no redirect
is followed, no connection is used twice for HTTP; whoever calls decides what an outcome leads to.
"""

from collections.abc import Callable

from mailonce.core.sends.sender import CONNECT_TIMEOUT_S, Sender
from mailonce.core.sends.sending import (
    Accepted,
    Correlation,
    Fault,
    Frozen,
    HttpRequest,
    LookupOutcome,
    NotSent,
    ProviderAnswer,
    SendFacts,
    Sending,
    SendOutcome,
    SmtpRequest,
    TryAgain,
    Unknown,
)
from mailonce.errors import RefusedError, UnavailableError
from mailonce.net.http import GuardedClient, NotCalledError
from mailonce.net.response import EndpointResponse
from mailonce.net.smtp import SmtpClient

ANSWER_BYTES_MAX = 256 << 10
LOOKUP_BYTES_MAX = 4 << 20


class Transmitter:
    """The way out for sends; `now_ms` is the wall clock, which signatures need."""

    def __init__(self, client: GuardedClient, *, now_ms: Callable[[], int]) -> None:
        self._client = client
        self._smtp = SmtpClient(client.dialer)
        self._now_ms = now_ms

    async def transmit(
        self,
        request: Frozen,
        sender: Sender,
        sending: Sending,
        *,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> SendOutcome:
        """Send what the ledger has frozen, with the sender's credentials.

        `may_begin` is asked right before the first byte of HTTP, or the final dot of SMTP.
        """
        match request:
            case SmtpRequest():
                return await self._smtp.send(request, sender, may_begin=may_begin)
            case HttpRequest():
                return await self._call(request, sender, sending, may_begin)

    async def look_up(
        self, correlation: Correlation, sender: Sender, sending: Sending, facts: SendFacts
    ) -> LookupOutcome | None:
        """Ask the provider for a send; None where it cannot be asked at all."""
        if sending.lookup is None or sending.read_lookup is None:
            return None
        request = sending.lookup(correlation, sender, facts)
        if request is None:
            return None
        try:
            answer = await self._ask(request, sender, sending, LOOKUP_BYTES_MAX)
        except (RefusedError, UnavailableError) as error:
            return Unknown(reason=str(error))
        return sending.read_lookup(self._read(answer), correlation, facts)

    def close(self) -> None:
        """End the sessions that are kept for the next mail."""
        self._smtp.close()

    async def _call(
        self,
        request: HttpRequest,
        sender: Sender,
        sending: Sending,
        may_begin: Callable[[], bool],
    ) -> SendOutcome:
        assert sending.read_answer is not None, f"{sending.name} has no answers to read"
        try:
            answer = await self._ask(request, sender, sending, ANSWER_BYTES_MAX, may_begin)
        except RefusedError as error:
            return NotSent(reason=str(error), fault=Fault.SENDER)
        except NotCalledError as error:
            return TryAgain(reason=str(error))
        except UnavailableError as error:
            return Unknown(reason=str(error))
        outcome = sending.read_answer(self._read(answer))
        if isinstance(outcome, Accepted) and not answer.is_asked:
            return Unknown(reason=f"answered {answer.status} before it had the whole request")
        return outcome

    async def _ask(
        self,
        request: HttpRequest,
        sender: Sender,
        sending: Sending,
        bytes_max: int,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> EndpointResponse:
        authorized = sending.authorize(request, sender, self._now_ms())
        return await self._client.call(
            authorized.method,
            authorized.url,
            authorized.body,
            dict(authorized.headers),
            bytes_max=bytes_max,
            connect_timeout_s=CONNECT_TIMEOUT_S,
            timeout_s=sender.timeout_s,
            may_begin=may_begin,
        )

    def _read(self, answer: EndpointResponse) -> ProviderAnswer:
        return ProviderAnswer(
            status=answer.status,
            headers=answer.headers,
            body=answer.body,
            is_whole=answer.is_whole,
            received_ms=self._now_ms(),
        )
