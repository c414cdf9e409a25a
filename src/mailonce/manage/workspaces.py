"""Workspaces: tenants, made by the admin."""

from dataclasses import dataclass

from mailonce.core.ids import public
from mailonce.errors import ClashError, MissingError
from mailonce.manage.managing import Parts
from mailonce.store.audit import name_object
from mailonce.store.configuration import locks, workspaces
from mailonce.store.configuration.workspaces import Workspace
from mailonce.store.dialects.contract import Tx


@dataclass(frozen=True, slots=True)
class Workspaces:
    """Every workspace of the installation."""

    parts: Parts

    async def list_all(self) -> list[Workspace]:
        return await self.parts.database.read(workspaces.list_all)

    async def find(self, id_or_name: str) -> Workspace:
        """Find a workspace.

        Raises: MissingError.
        """
        workspace = await self.parts.database.read(lambda tx: workspaces.find(tx, id_or_name))
        if workspace is None:
            raise MissingError(f"there is no workspace {id_or_name[:80]!r}; see GET /v1/workspaces")
        return workspace

    async def make(self, name: str) -> Workspace:
        """Make a workspace; its name must be free."""
        name_object(name)
        made = Workspace(public("ws", self.parts.clock.new_id()), name, self.parts.clock.now_ms())

        def work(tx: Tx) -> None:
            locks.take(tx, locks.CONFIGURATION)
            if workspaces.find(tx, name) is not None:
                raise ClashError(f"there is a workspace {name!r} already; choose another name")
            workspaces.put(tx, made)

        await self.parts.database.write(work)
        return made
