"""Names of records as findings have them, with their workspace. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class RecordName:
    """The name of a source, route or sender; '' is the default workspace."""

    name: str
    workspace: str = ""

    def __str__(self) -> str:
        return f"{self.name} (workspace {self.workspace})" if self.workspace else self.name

    @property
    def in_command(self) -> str:
        """The name as it stands in a command, with the option that leads to it."""
        return f"{self.name}{option_of(self.workspace)}"


def option_of(workspace: str) -> str:
    """Give what makes a command act in a workspace; nothing for the default one."""
    return f" --workspace {workspace}" if workspace else ""
