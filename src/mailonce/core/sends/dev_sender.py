"""The sender of `--dev`, for whom nothing is configured: its mail stays in inboxes here.

It has an id of its own, so that the two never mix: mail that was submitted with `--dev` has no
sender without it and never leaves, and mail that was submitted without `--dev` waits meanwhile.
"""

from mailonce.core.sends.sender import Sender

NAME = "dev"
# No sender that is configured has such an id.
_PREFIX = "dev/"
CONCURRENCY = 32


def dev_sender(workspace: str) -> Sender:
    """Give the sender of a workspace; its mail is built as for SMTP."""
    return Sender(
        id=f"{_PREFIX}{workspace}",
        workspace=workspace,
        name=NAME,
        provider="smtp",
        concurrency=CONCURRENCY,
    )


def find_dev_sender(id_: str) -> Sender | None:
    """Find a sender of `--dev` by its id; None where it is any other's."""
    return dev_sender(id_.removeprefix(_PREFIX)) if is_dev(id_) else None


def is_dev(id_: str) -> bool:
    return id_.startswith(_PREFIX)
