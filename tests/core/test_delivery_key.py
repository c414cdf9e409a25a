"""The key of a routed mail, by the public recipe."""

from hashlib import sha256
from typing import Any

import pytest

from mailonce.core.deliveries.delivery_key import delivery_key


def test_it_is_the_hex_hash_of_message_and_route() -> None:
    assert delivery_key("<m1@x>", "r1") == sha256(b"<m1@x>|r1").hexdigest()


@pytest.mark.parametrize("missing", ["", "  ", None, 5])
def test_what_is_missing_is_named(missing: Any) -> None:
    with pytest.raises(ValueError, match="message_id is required"):
        delivery_key(missing, "r1")
    with pytest.raises(ValueError, match="route_id is required"):
        delivery_key("m1", missing)
