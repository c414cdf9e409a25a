"""What an event proves that carries the id of a send."""

import pytest

from mailonce.core.events.event import Event, EventType
from mailonce.core.events.key import Identity, Key, Recipe
from mailonce.core.ledger.send_proof import ProofRow, proof_of

RECIPE = Recipe(name="x", version=1, identity=("id",))


@pytest.mark.parametrize("type_", list(EventType))
def test_whatever_happened_to_a_mail_its_provider_had_it(type_: EventType) -> None:
    event = Event(
        type=type_, identity=Identity(RECIPE, {"id": 1}), message_id="m-1", recipient="a@b.c"
    )

    proof = proof_of(event, Key(b"k"), workspace="default", id_=b"e")

    # A reply is another mail.
    is_reply = type_ is EventType.INBOUND
    assert proof == (None if is_reply else ProofRow(Key(b"k"), "default", "a@b.c", "m-1", b"e"))
