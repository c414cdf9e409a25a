"""Management on both databases."""

from typing import Any

import pytest

from mailonce.clock import Clock
from mailonce.core.access import Caller, Scope
from mailonce.core.inboxes.inbox import Inbox
from mailonce.core.inboxes.inbox_request import InboxRequest
from mailonce.core.signatures.sealing import Sealer
from mailonce.manage.domains import Domains
from mailonce.manage.inboxes import Inboxes, build_lookups
from mailonce.manage.managing import Parts
from mailonce.net.http import GuardedClient
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.purge_inboxes import InboxPurge
from mailonce.settings import InboxSettings
from mailonce.store.dialects.contract import Database
from mailonce.telemetry import Metrics

ALICE = Caller("default", Scope.OPERATOR)
BOB = Caller("ws_bob", Scope.OPERATOR)


class Managed:
    """Domains and inboxes of a database, as one process manages them."""

    def __init__(self, database: Database, **settings: Any) -> None:
        self.database = database
        self.clock = Clock()
        sealer = Sealer(["00" * 32])
        configuration = ConfigurationCache(database, self.clock, sealer, Metrics())
        parts = Parts(database, self.clock, sealer, GuardedClient(), configuration, window_days=35)
        self.settings = InboxSettings(**settings)
        self.purge = InboxPurge(
            database,
            unmatched_mails_max=self.settings.unmatched_mails_max,
            unmatched_days=self.settings.unmatched_days,
        )
        self.domains = Domains(parts, self.settings)
        self.inboxes = Inboxes(
            parts, self.settings, self.domains, self.purge, build_lookups(parts.database)
        )

    async def make(self, caller: Caller = ALICE, **asked: Any) -> Inbox:
        made = await self.inboxes.make(caller, [InboxRequest(**asked)])
        return made.inboxes[0]


@pytest.fixture
async def managed(database: Database) -> Managed:
    made = Managed(database, domains=["in.test"])
    await made.domains.apply_settings()
    return made
