"""Checks of who sent a mail, beside the event loop."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from mailonce.core.mail.incoming import Authentication, AuthenticationCheck, MailEnvelope
from mailonce.inbox.authenticate_mail import authenticate
from mailonce.inbox.digest_mail import CheckSender
from mailonce.net.dns_lookup import BoundedResolver

# Threads of their own: those that all share must not wait for the DNS.
THREADS_MAX = 8
# How long a mail waits for one of them: senders with slow name servers must not hold up the others.
WAIT_S = 5.0
_BUSY = AuthenticationCheck(result="temperror", detail="too many senders were checked at once")
BUSY = Authentication(spf=_BUSY, dmarc=_BUSY, checked_by="self")


class SenderChecks:
    """Runs our own SPF, DKIM and DMARC for the mail that a worker reads."""

    def __init__(
        self,
        resolver: BoundedResolver,
        *,
        trusted_servers: Sequence[str] = (),
        wait_s: float = WAIT_S,
    ) -> None:
        self._resolver = resolver
        self._wait_s = wait_s
        self._trusted_servers = tuple(trusted_servers)
        self._free = asyncio.Semaphore(THREADS_MAX)
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="sender-checks")

    async def check(self, raw: bytes, envelope: MailEnvelope) -> Authentication | None:
        """Check who sent a mail; it ends in time, whatever the DNS does."""
        try:
            await asyncio.wait_for(self._free.acquire(), self._wait_s)
        except TimeoutError:
            return BUSY
        work = asyncio.get_running_loop().run_in_executor(self._threads, self._check, raw, envelope)
        # The thread is free when its work is done, also where nobody waits for that any more.
        work.add_done_callback(lambda _: self._free.release())
        return await asyncio.shield(work)

    def _check(self, raw: bytes, envelope: MailEnvelope) -> Authentication | None:
        ask = self._resolver.for_one_mail()
        return authenticate(raw, envelope, ask, trusted_servers=self._trusted_servers)


def build_sender_check(
    *, is_wanted: bool, nameservers: Sequence[str], trusted_servers: Sequence[str]
) -> CheckSender | None:
    """Build the check that reading a mail calls; None where it is not wanted."""
    resolver = BoundedResolver(nameservers)
    return SenderChecks(resolver, trusted_servers=trusted_servers).check if is_wanted else None
