"""The key under which one routed mail is delivered, equal on every attempt and on redelivery."""

from hashlib import sha256


def delivery_key(message_id: str, route_id: str) -> str:
    """Give the hex SHA-256 of `message_id|route_id`: for diagnostics, receivers read the header.

    >>> delivery_key("<m1@x>", "r1")[:12]
    '71df9750ff2f'

    Raises: ValueError where either is missing or blank.
    """
    for name, value in (("message_id", message_id), ("route_id", route_id)):
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{name} is required")
    return sha256(f"{message_id}|{route_id}".encode()).hexdigest()
