"""EventBridge carries what SES publishes to an API destination, without a signature."""

import secrets
from collections.abc import Sequence

import orjson

from mailonce.testing.sign import iso
from mailonce.testing.simulator import Happening, Post, UnsignedSimulator, is_final, waits_s
from mailonce.testing.simulators.ses import WORDS, event_of

# https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-api-destinations.html
AGAIN = frozenset({401, 407, 409, 429})


class EventBridge(UnsignedSimulator):
    """Posts one event at a time, in an envelope with an id that its attempts share."""

    name = "eventbridge"
    # Up to 185 attempts in a day, ever further apart; fewer here, for as long.
    retry_waits_s = waits_s(minutes=(1, 2, 4, 8, 16, 29), hours=(1,) * 22)
    words = WORDS

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event."""
        (happening,) = happenings
        word, _ = self.words[happening.type]
        envelope = {
            "version": "0",
            "id": secrets.token_hex(16),
            "detail-type": f"Email {word}",
            "source": "aws.ses",
            "account": "111122223333",
            "time": iso(now_s),
            "region": "eu-west-1",
            "resources": [],
            "detail": event_of(happening),
        }
        return Post(self._headers("application/json; charset=utf-8"), orjson.dumps(envelope))

    def stops(self, code: int) -> bool:
        """Any 4xx drops the event, but for a few."""
        return is_final(code, again=AGAIN)


SIMULATOR = EventBridge
