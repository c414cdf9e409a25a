"""API keys: made, checked and revoked."""

from dataclasses import dataclass, replace

from mailonce.core.access import KEY_PREFIX, Caller, ChildGrant, Scope, demand, digest_of
from mailonce.core.expectations.child_key import (
    SignedChildKey,
    is_in_force,
    is_signed,
    public_half,
    read_child_key,
)
from mailonce.core.ids import public
from mailonce.errors import MissingError, RefusedError, VerifyError
from mailonce.manage.managing import Parts
from mailonce.manage.workspaces import Workspaces
from mailonce.store.audit import name_object
from mailonce.store.configuration import keys, locks
from mailonce.store.configuration.keys import ApiKey
from mailonce.store.configuration.workspaces import DEFAULT as DEFAULT_WORKSPACE
from mailonce.store.dialects.contract import Tx
from mailonce.telemetry import ADMIN_KEY_SET, log

# The name of the admin key in the settings; no other key has it, so that a change is noticed.
ADMIN_KEY_NAME = "MAILONCE_ADMIN_KEY"
# The name of the one that is made where none is set; in the audit log it says who did something.
FIRST_KEY_NAME = "admin key (made at first start)"
# Keys that we made, so that nobody finds their secret from a child of theirs.
PARENTS = frozenset({Scope.AGENT, Scope.OPERATOR})


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """The keys of every workspace; a change is seen by every process within a second."""

    parts: Parts

    async def caller_of(self, secret: str | None, workspace: str | None = None) -> Caller:
        """Authenticate an API caller; only the admin key may name another workspace.

        Raises: VerifyError, AccessError or MissingError.
        """
        if not secret:
            raise VerifyError(
                "send `Authorization: Bearer KEY`; make a key with `mailonce key add`"
            )
        signed = read_child_key(secret)
        if signed is not None:
            return await self._child(signed)
        key = await self._known(digest_of(secret))
        if key is None:
            raise VerifyError(
                "this key is not known or was revoked; make one with `mailonce key add`"
            )
        caller = Caller(key.workspace, key.scope, key.id)
        if workspace is None or workspace == caller.workspace:
            return caller
        return await self.acting_in(caller, workspace)

    def known_caller(self, secret: str) -> Caller | None:
        """Give the caller of a key that is known here; where there is none, `caller_of` asks."""
        key = self.parts.configuration.snapshot.keys.get(digest_of(secret))
        return None if key is None else Caller(key.workspace, key.scope, key.id)

    async def _known(self, digest: bytes) -> ApiKey | None:
        """Find a key in force, after asking the database where it is not known here."""
        key = self.parts.configuration.snapshot.keys.get(digest)
        if key is None and await self.parts.configuration.refresh():
            key = self.parts.configuration.snapshot.keys.get(digest)
        return key

    async def _child(self, signed: SignedChildKey) -> Caller:
        """Authenticate a child key: its parent is in force, has signed it, and it has not ended."""
        parent = await self._known(signed.child.parent_digest)
        is_parent = parent is not None and parent.scope in PARENTS
        if not is_parent or parent is None or parent.public_half is None:
            raise VerifyError("the key that this child key was made of is not in force")
        if not is_signed(signed, parent.public_half):
            raise VerifyError("this child key was not signed by the key that it names")
        child = signed.child
        if not is_in_force(child, now_ms=self.parts.clock.now_ms()):
            raise VerifyError("this child key has ended, or asks for more than one may; make one")
        grant = ChildGrant(child.id, child.expectation, child.uses, child.expires_ms)
        return Caller(parent.workspace, Scope.AGENT, f"{parent.id}/{child.id.hex()}", grant)

    async def acting_in(self, caller: Caller, workspace: str) -> Caller:
        """Let the admin act in another workspace."""
        demand(caller, frozenset({Scope.ADMIN}))
        workspace_id = (await Workspaces(self.parts).find(workspace)).id
        return replace(caller, workspace=workspace_id)

    async def list_of(self, caller: Caller) -> list[ApiKey]:
        """List the keys of the caller's workspace; those of admins to an admin alone."""
        admins = caller.is_admin
        return await self.parts.database.read(
            lambda tx: keys.list_of(tx, caller.workspace, admins=admins)
        )

    async def make(self, workspace: str, scope: Scope, name: str) -> tuple[ApiKey, str]:
        """Make an API key; the secret is shown once and stored as a hash."""
        if name == ADMIN_KEY_NAME:
            raise RefusedError(f"the name {name} belongs to the key of the settings; use another")
        secret = KEY_PREFIX + self.parts.clock.chance(24).hex()
        key = self._key(workspace, scope, name, secret)
        name_object(f"{name} ({scope.value}) {key.id}")
        await self.parts.change(lambda tx: keys.put(tx, key))
        return key, secret

    async def ensure_admin(self, secret: str | None) -> str | None:
        """Ensure that there is an admin key: that of the settings, or a new one, which is returned.

        Keys that the settings had before are revoked.
        """
        if secret is None:
            if await self.parts.database.read(keys.has_admin):
                return None
            return (await self.make(DEFAULT_WORKSPACE, Scope.ADMIN, FIRST_KEY_NAME))[1]
        key = self._key(DEFAULT_WORKSPACE, Scope.ADMIN, ADMIN_KEY_NAME, secret)
        now_ms = self.parts.clock.now_ms()
        if await self.parts.database.write(lambda tx: keys.put_only(tx, key, now_ms=now_ms)):
            log.info(ADMIN_KEY_SET, key=key.id)
            await self.parts.configuration.announce()
        return None

    async def revoke(self, caller: Caller, key_id: str) -> None:
        """Revoke a key; it is refused here at once, and elsewhere within a second.

        Raises: MissingError, also for an admin key that is not the caller's to revoke.
        """
        now_ms = self.parts.clock.now_ms()

        def work(tx: Tx) -> None:
            locks.take(tx, locks.CONFIGURATION)
            key = keys.get(tx, caller.workspace, key_id)
            hidden = key is not None and key.scope is Scope.ADMIN and not caller.is_admin
            if key is None or hidden or key.revoked_ms is not None:
                raise MissingError(f"there is no key {key_id[:80]!r} in force; see GET /v1/keys")
            if key.scope is Scope.ADMIN and key.name == ADMIN_KEY_NAME:
                raise RefusedError(
                    "this key stands in the settings; change MAILONCE_ADMIN_KEY and restart"
                )
            keys.revoke(tx, key.id, now_ms=now_ms)
            name_object(f"{key.name} {key.id}")

        await self.parts.change(work)

    def _key(self, workspace: str, scope: Scope, name: str, secret: str) -> ApiKey:
        return ApiKey(
            id=public("key", self.parts.clock.new_id()),
            workspace=workspace,
            name=name,
            scope=scope,
            digest=digest_of(secret),
            created_ms=self.parts.clock.now_ms(),
            public_half=public_half(secret),
        )
