"""The records that a database has, as far as a settings file must fit to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSender:
    """A sender: its provider stays, and `next_sender` is the name of the one that takes over."""

    name: str
    provider: str
    next_sender: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRecords:
    """Names by ids, and senders by ids, of the workspace that the file is for."""

    sources: Mapping[str, str] = field(default_factory=dict)
    routes: Mapping[str, str] = field(default_factory=dict)
    senders: Mapping[str, KnownSender] = field(default_factory=dict)

    @property
    def sender_names(self) -> Mapping[str, str]:
        """Give the names of the senders by their ids."""
        return {id_: one.name for id_, one in self.senders.items()}
