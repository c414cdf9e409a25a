"""Which send is meant: people name one by its id or by its idempotency key."""

from typing import Any

from mailonce.edge.cli.client import ApiSession
from mailonce.errors import MissingError, RefusedError


async def send_id_of(client: ApiSession, id_or_key: str) -> str:
    """Find the send of an idempotency key, which one send has unless it went to several people.

    Raises: MissingError, RefusedError where several have it.
    """
    if id_or_key.startswith("snd_"):
        return id_or_key
    matches = (await client.get("sends", key=id_or_key, limit=2))["data"]
    if not matches:
        raise MissingError(
            f"no send has the id or the key {id_or_key[:80]!r}; see `mailonce sends list`"
        )
    if len(matches) > 1:
        raise RefusedError(
            f"several sends have the key {id_or_key[:80]!r}; name one by its id, from "
            "`mailonce sends list --idempotency-key …`"
        )
    return str(matches[0]["id"])


async def is_send_key(client: ApiSession, text: str) -> bool:
    """Say whether a send has this idempotency key."""
    return bool((await client.get("sends", key=text, limit=1))["data"])


async def about(
    client: ApiSession, recipient: str | None, message: str | None
) -> dict[str, str | None]:
    """Give the filter of a list for an address and a message."""
    message_id = None if message is None else await _provider_id_of(client, message)
    return {"recipient": recipient, "message_id": message_id}


async def _provider_id_of(client: ApiSession, text: str) -> str:
    """Find the id that the provider gave to a mail, which may be named by its send."""
    if not text.startswith("snd_") and not await is_send_key(client, text):
        return text
    send: Any = await client.get("sends", await send_id_of(client, text))
    return str(send["provider_message_id"] or text)
