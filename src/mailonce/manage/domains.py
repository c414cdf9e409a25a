"""Mail domains: each belongs to one workspace, which makes its inboxes there."""

from collections.abc import Callable
from dataclasses import dataclass

from mailonce.core.access import Caller
from mailonce.core.mail.address import read_domain
from mailonce.core.record_origin import API, FILE
from mailonce.errors import ClashError, ConfigError, MissingError, ParseError, RefusedError
from mailonce.manage.managing import Parts
from mailonce.settings import InboxSettings
from mailonce.store.audit import name_object
from mailonce.store.configuration import locks
from mailonce.store.configuration.workspaces import DEFAULT
from mailonce.store.dialects.contract import Tx
from mailonce.store.inboxes import domains, inboxes
from mailonce.store.inboxes.domains import MailDomain

# Names below .localhost lead to the machine itself (RFC 6761): good for a first try and for tests.
BUILTIN_DOMAIN = "inbox.localhost"
BUILTIN = "built in"
# Made for mail that `--dev` keeps: never chosen for inboxes which ask for none.
DEV = "dev"
DOMAINS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Domains:
    """The mail domains of every workspace."""

    parts: Parts
    settings: InboxSettings

    async def list_of(self, caller: Caller) -> list[MailDomain]:
        """List the caller's domains; the first is that of inboxes which ask for none."""
        return await self.parts.database.read(lambda tx: self.in_order(tx, caller.workspace))

    async def find(self, caller: Caller, name: str) -> MailDomain:
        """Find a domain of the caller's workspace.

        Raises: MissingError.
        """
        domain = await self.parts.database.read(lambda tx: domains.get(tx, _read(name)))
        if domain is None or domain.workspace != caller.workspace:
            raise _missing(name)
        return domain

    async def add(self, caller: Caller, name: str, *, origin: str = API) -> MailDomain:
        """Make a domain the workspace's own; one that it has already stays as it is.

        Raises: ParseError, ClashError where it is another workspace's, RefusedError.
        """
        name_object(name)
        wanted = MailDomain(_read(name), caller.workspace, origin, self.parts.clock.now_ms())

        def work(tx: Tx) -> MailDomain:
            known = domains.claim(tx, wanted)
            if len(domains.list_of(tx, caller.workspace)) > DOMAINS_MAX:
                raise RefusedError(f"a workspace has at most {DOMAINS_MAX} domains; remove one")
            return known

        domain = await self.parts.database.write(work)
        if domain.workspace != caller.workspace:
            raise ClashError(f"{name[:80]!r} belongs to another workspace; choose another domain")
        return domain

    async def remove(self, caller: Caller, name: str) -> None:
        """Let a domain go; another workspace may have it then.

        Raises: MissingError, RefusedError where the settings name it, or inboxes have addresses
        there: mail for them would still come.
        """
        domain = _read(name)

        def work(tx: Tx) -> None:
            locks.take(tx, locks.CONFIGURATION)
            # Nobody makes an address there while we look.
            locks.take(tx, locks.DOMAINS)
            if domain in self.settings.domains and caller.workspace == DEFAULT:
                raise RefusedError(f"{domain} stands in the settings; take it out there, restart")
            if inboxes.has_addresses_at(tx, caller.workspace, domain):
                raise RefusedError(f"there are inboxes at {domain}; delete them first")
            if not domains.remove(tx, caller.workspace, domain):
                raise _missing(name)

        await self.parts.database.write(work)

    async def apply_settings(self) -> None:
        """Give the default workspace the domains of the settings, or else the built-in one.

        Raises: ConfigError where one of them is another workspace's.
        """
        await self.parts.database.write(self.prepare())

    def prepare(self) -> Callable[[Tx], None]:
        """Give what `apply_settings` runs."""
        now_ms = self.parts.clock.now_ms()

        def work(tx: Tx) -> None:
            for domain in self.settings.domains:
                owner = domains.claim(tx, MailDomain(domain, DEFAULT, FILE, now_ms)).workspace
                if owner != DEFAULT:
                    raise ConfigError(
                        f"`inboxes.domains`: {domain} belongs to workspace {owner!r}; "
                        "remove it there, or take it out"
                    )
            if not domains.list_of(tx, DEFAULT):
                domains.claim(tx, MailDomain(BUILTIN_DOMAIN, DEFAULT, BUILTIN, now_ms))

        return work

    def in_order(self, tx: Tx, workspace: str) -> list[MailDomain]:
        """List domains: those of the settings in their order, then the oldest, built-in ones last.

        Other workspaces have none of the settings; those of `--dev` come behind all others.
        """
        first = {domain: place for place, domain in enumerate(self.settings.domains)}

        def place_of(one: MailDomain) -> tuple[bool, bool, int]:
            is_named = one.domain in first
            return (
                one.origin == DEV and not is_named,
                one.origin == BUILTIN,
                first.get(one.domain, len(first)),
            )

        return sorted(domains.list_of(tx, workspace), key=place_of)


def _read(name: str) -> str:
    domain = read_domain(name)
    if domain is None or "." not in domain or domain.rpartition(".")[2].isdecimal():
        raise ParseError(f"{name[:80]!r} is no mail domain; write it as in.example.com")
    return domain


def _missing(name: str) -> MissingError:
    return MissingError(f"there is no domain {name[:80]!r} of yours; see GET /v1/domains")
