"""Which messages a wait is for; what no mail can match is refused before anything is waited for."""

import re
from dataclasses import dataclass

from mailonce.client.records import MessageRecord
from mailonce.core.mail.domain_name import domain_in_ascii
from mailonce.errors import ConfigError, ParseError

_SENDER = re.compile(r"""("[^"]+"|[^\s,;<>@*"]*)@([^\s,;<>@*"]+)""")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageMatch:
    """The sender and the subject of the messages that a wait is for; None is any.

    Raises: ConfigError where one is no text, ParseError where a sender can never match.
    """

    # An address, with or without a name before it, or @domain for all addresses of that domain.
    sender: str | None = None
    # Words that the subject contains.
    subject: str | None = None

    def __post_init__(self) -> None:
        check_texts(sender=self.sender, subject=self.subject)
        object.__setattr__(self, "sender", read_sender(self.sender))

    def matches(self, message: MessageRecord) -> bool:
        return self._is_sender(message.sender) and self._is_subject(message.subject)

    def _is_sender(self, sender: str) -> bool:
        if self.sender is None:
            return True
        local, at, domain = sender.rpartition("@")
        shown = f"{local.casefold()}@{domain_in_ascii(domain)}" if at else ""
        is_domain = self.sender.startswith("@")
        return shown.endswith(self.sender) if is_domain else shown == self.sender

    def _is_subject(self, subject: str) -> bool:
        return (self.subject or "").casefold() in subject.casefold()


def check_texts(*, is_needed: bool = False, **arguments: object) -> None:
    """See that arguments are texts, where they are given or needed. Raises: ConfigError."""
    for name, value in arguments.items():
        if not isinstance(value, str) and (is_needed or value is not None):
            raise ConfigError(f"`{name}` is {value!r:.80}; write one text in quotes")


def read_sender(sender: str | None) -> str | None:
    """Give a sender in its one spelling: in small letters, the domain as DNS has it.

    Raises: ParseError where it is no address and no @domain: it would be waited for in vain.
    """
    if sender is None:
        return None
    _, bracket, rest = sender.rpartition("<")
    bare = rest.partition(">")[0].strip() if bracket else sender.strip()
    match = _SENDER.fullmatch(bare)
    domain = None if match is None else domain_in_ascii(match[2])
    if match is None or not domain:
        raise ParseError(
            f"`sender` is {sender[:80]!r}; write shop@example.com, or @example.com for its domain"
        )
    return f"{match[1].casefold()}@{domain}"
