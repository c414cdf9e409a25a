"""EventBridge carries what SES publishes to an API destination, without a signature."""

import secrets
from collections.abc import Sequence
from typing import Any

import orjson

from mailonce.testing.sign import basic, iso
from mailonce.testing.simulator import Happening, Post, UnsignedSimulator, final_codes, waits_s
from mailonce.testing.simulators.ses import WORDS, event_of

# https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-api-destinations.html
AGAIN = (401, 407, 409, 429)


class EventBridge(UnsignedSimulator):
    """Posts one event at a time, in an envelope with an id that its attempts share."""

    name = "eventbridge"
    content_type = "application/json; charset=utf-8"
    # Up to 185 attempts in a day, ever further apart; fewer here, for as long.
    retry_waits_s = waits_s(minutes=(1, 2, 4, 8, 16, 29), hours=(1,) * 22)
    # Any 4xx drops the event, but for a few.
    final = final_codes(again=AGAIN)
    words = WORDS

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        (one,) = happenings
        word, _ = self.words[one.type]
        envelope = {
            "version": "0",
            "id": secrets.token_hex(16),
            "detail-type": f"Email {word}",
            "source": "aws.ses",
            "account": "111122223333",
            "time": iso(now_s),
            "region": "eu-west-1",
            "resources": [],
            "detail": self.event(one),
        }
        headers = {"Content-Type": self.content_type, "Authorization": basic(self.secret)}
        return Post(headers, orjson.dumps(envelope))

    def event(self, one: Happening) -> dict[str, Any]:
        return event_of(one)


SIMULATOR = EventBridge
