"""Any provider's webhooks without a signature, where the operator says so."""

import json

import pytest
from msgspec.structs import replace

from mailonce import providers
from mailonce.core.arrivals.provider import Refused, Verified
from mailonce.core.signatures import hmac_signature, sns
from mailonce.manage.sources import check_source
from mailonce.pipeline.parse import entry_of
from mailonce.pipeline.verify import verify_now
from tests.providers.cases import arrival_of, cases_of, provider_of, source_of
from tests.providers.sns_peer import TOPIC, notification

SIGNING = [name for name in providers.names() if provider_of(name).needs]
TOPICS = {"ses": TOPIC, "scaleway": "arn:scw:sns:fr-par:project-1f2e:tem-events"}


@pytest.mark.parametrize("name", SIGNING)
def test_every_provider_that_signs_may_be_received_unsigned(name: str) -> None:
    case, provider = cases_of(name)[0], provider_of(name)
    topics = (TOPICS[name],) if name in TOPICS else ()
    source = source_of(
        name, unsigned=True, allow_ips=("192.0.2.0/24",), topic_arns=topics, options=case.options
    )
    headers = {**case.headers, "x-amz-sns-topic-arn": TOPIC} if name == "ses" else case.headers
    arrival = arrival_of(case.body, headers)

    check_source(source, window_days=35)
    here = verify_now(provider, source, replace(arrival, peer="192.0.2.7"))
    elsewhere = verify_now(provider, source, replace(arrival, peer="198.51.100.7"))
    signed = verify_now(provider, source_of(name, topic_arns=topics), arrival)

    assert here == Verified()
    assert elsewhere == Refused("address is not allowed")
    assert isinstance(signed, Refused)


def test_a_topic_is_asked_for_although_nothing_is_signed() -> None:
    source = source_of("ses", unsigned=True, unproven=True, topic_arns=(f"{TOPIC}-2",))

    verdict = verify_now(provider_of("ses"), source, arrival_of(notification_body()))

    assert verdict == sns.WRONG_TOPIC


def notification_body() -> bytes:
    return json.dumps(notification({"eventType": "Send", "mail": {"messageId": "m"}})).encode()


def test_unproven_with_a_secret_still_asks_for_the_signature() -> None:
    source = source_of("mailtrap", unproven=True, secrets=("s",))

    assert verify_now(provider_of("mailtrap"), source, arrival_of(b"{}")) == hmac_signature.MISSING


def test_what_nobody_signed_vouches_for_nothing() -> None:
    """Other content under a known key changes nothing, and no token is bound to it."""
    case, provider = cases_of("mailgun")[0], provider_of("mailgun")
    source = source_of("mailgun", unsigned=True, basic=("a:b",))
    arrival = arrival_of(case.body, case.headers)

    entry = entry_of(
        provider, source, arrival, provider.parse(arrival, source), new_id=lambda: bytes(16)
    )

    assert (entry.signs_body, entry.guard) == (False, None)
    resend = source_of("resend", unsigned=True, basic=("a:b",))
    case = cases_of("resend")[0]
    arrival = arrival_of(case.body, case.headers)
    parsed = provider_of("resend").parse(arrival, resend)
    entry = entry_of(provider_of("resend"), resend, arrival, parsed, new_id=lambda: bytes(16))
    assert not entry.signs_body
