"""Which arrivals speak of one event, and which only look alike."""

import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest

from mailonce.pipeline.parse import kept_headers
from tests.providers.cases import (
    Case,
    all_cases,
    arrival_of,
    each_provider,
    find,
    keys,
    provider_of,
    scaleway_envelope,
)


class TestCopies:
    @each_provider(all_cases())
    def test_a_redelivery_has_the_same_keys(
        self, cases: Sequence[Case], subtests: pytest.Subtests
    ) -> None:
        for case in cases:
            with subtests.test(case.name):
                first = keys(case.provider, case.body, case.headers, **case.options)

                headers = {**case.headers, "X-Attempt": "2"}
                again = keys(case.provider, case.body, headers, **case.options)

                assert first == again
                assert len({one.key for one in first}) == len(case.events)

    @each_provider(all_cases())
    def test_an_arrival_that_is_read_again_has_the_same_keys(
        self, cases: Sequence[Case], subtests: pytest.Subtests
    ) -> None:
        for case in cases:
            with subtests.test(case.name):
                arrival = arrival_of(case.body, case.headers)

                kept = json.loads(kept_headers(provider_of(case.provider), arrival))

                again = keys(case.provider, case.body, kept, **case.options)
                assert again == keys(case.provider, case.body, case.headers, **case.options)

    @pytest.mark.parametrize(
        ("provider", "name", "changed"),
        [
            ("sendgrid", "bounce", {"email": "ANN@example.net"}),
            ("sendgrid", "bounce", {"sg_event_id": "another"}),
            ("sendgrid", "bounce", {"bounce_classification": "Other", "category": "welcome"}),
            ("sendgrid", "delivered", {"tls": 0, "cert_err": 1}),
            ("sendgrid", "open", {"sg_content_type": "amp"}),
            ("postmark", "delivery", {"Recipient": "ann@EXAMPLE.net", "ServerID": 24}),
            ("postmark", "bounce_HardBounce", {"Inactive": False, "Subject": "other"}),
            ("postmark", "open", {"ReadSeconds": 6}),
            ("mailgun", "opened", {"geolocation": {"city": "Bonn"}, "log-level": "warn"}),
            ("sesmetric", "event_bounce_hard", {"metadata": {}, "reason": "other"}),
            ("resend", "email_opened", {"subject": "other", "tags": {}}),
            ("mandrill", "open", {"location": {"city": "Bonn"}, "user_agent_parsed": None}),
            ("mandrill", "open", {"msg": {"email": "ANN@example.net", "opens": [1], "diag": "x"}}),
            ("sparkpost", "bounce_10", {"raw_rcpt_to": "ann@EXAMPLE.net", "rcpt_meta": {}}),
            ("sparkpost", "open", {"geo_ip": {"city": "Bonn"}, "user_agent_parsed": {}}),
            ("brevo", "hard_bounce", {"email": "ANN@example.net", "id": 1, "tags": []}),
            ("brevo", "opened", {"user_agent": "told later", "device_used": "MOBILE"}),
            ("brevo", "delivered", {"ts": 1, "ts_event": 2, "date": "2026-01-01 00:00:05"}),
            ("mailjet", "open", {"geo": "FR", "mj_contact_id": 5}),
            ("mailjet", "bounce_user_unknown", {"blocked": True, "comment": "added later"}),
            ("mailersend", "v2_hard_bounced", {"meta": [], "subject": "other", "tags": None}),
            ("mailersend", "v1_opened", {"created_at": "2026-01-01T00:00:09Z", "morph": None}),
            ("mailtrap", "bounce", {"email": "ANN@example.net", "response": "other"}),
            ("mailtrap", "inbound", {"event_id": "of the next attempt"}),
            ("emailit", "email_delivered", {"attempt": 2}),
            ("postal", "sent", {"message": {"to": "ANN@example.net", "subject": "x"}}),
            ("postal", "sent", {"time": 0.9, "sent_with_ssl": True}),
            ("scaleway", "email_dropped", {"email_to": "ANN@example.net", "email_try_count": 2}),
            ("unisendergo", "clicked", {"email": "ANN@example.net", "metadata": None}),
            ("smtp2go", "open", {"id": "another", "rcpt": "ANN@example.net"}),
            ("smtp2go", "open", {"read-secs": "5", "bounce": ""}),
            ("customerio", "bounce_hard", {"data": {"recipient": "ANN@example.net"}}),
            ("loops", "bounce_hard", {"contactIdentity": {"email": "Ann@example.net"}}),
            ("loops", "bounce_hard", {"webhookSchemaVersion": "1.0.1", "email": {"id": "e1"}}),
            ("eventbridge", "bounce_hard", {"id": "another", "time": "2026-01-02T00:00:00Z"}),
            ("cloudevents", "subject_is_recipient", {"traceparent": "00-1"}),
            ("cloudevents", "subject_is_recipient", {"data": {"id": "m1", "geo": "DE"}}),
            ("mailonce", "bounce_hard", {"copies": 3, "reason": "other", "id": "evt_02"}),
        ],
    )
    def test_what_may_differ_between_copies_changes_nothing(
        self, provider: str, name: str, changed: dict[str, Any]
    ) -> None:
        case = find(provider, name)

        [one], [other] = (
            keys(provider, value, case.headers, **case.options)
            for value in (case.value, _with(provider, case.value, changed))
        )

        assert (one.key, one.fingerprint) == (other.key, other.fingerprint)

    @pytest.mark.parametrize(
        ("provider", "name", "changed"),
        [
            ("sendgrid", "bounce", {"type": "blocked"}),
            ("sendgrid", "open", {"email": "bob@example.net"}),
            ("sendgrid", "click", {"url": "https://evil.example"}),
            ("postmark", "bounce_HardBounce", {"Email": "bob@example.net"}),
            ("postmark", "bounce_HardBounce", {"Type": "SoftBounce"}),
            ("postmark", "delivery", {"Details": "other"}),
            ("mailgun", "failed_permanent_bounce", {"recipient": "bob@example.net"}),
            ("mailgun", "failed_permanent_bounce", {"severity": "temporary"}),
            ("sesmetric", "event_bounce_hard", {"bounce_type": "soft"}),
            ("mandrill", "soft_bounce", {"msg": {"bounce_description": "spam"}}),
            ("mandrill", "reject_spam", {"msg": {"reject": {"reason": "unsub"}}}),
            ("sparkpost", "bounce_10", {"bounce_class": "20"}),
            ("sparkpost", "bounce_10", {"rcpt_to": "bob@example.net", "raw_rcpt_to": None}),
            ("brevo", "hard_bounce", {"subject": "other"}),
            ("mailjet", "bounce_user_unknown", {"error_related_to": "spam"}),
            ("mailersend", "v2_hard_bounced", {"recipient": "bob@example.net"}),
            ("mailersend", "v2_hard_bounced", {"message_id": "another"}),
            ("mailtrap", "bounce", {"email": "bob@example.net"}),
            ("mailtrap", "bounce", {"event": "soft bounce"}),
            ("emailit", "email_delivered", {"type": "email.bounced"}),
            ("emailit", "email_delivered", {"data": {"object": {"to": "bob@example.net"}}}),
            ("postal", "sent", {"message": {"to": "bob@example.net"}}),
            ("postal", "sent", {"output": "250 another answer"}),
            ("scaleway", "email_dropped", {"type": "email_delivered"}),
            ("scaleway", "email_dropped", {"email_to": "bob@example.net"}),
            ("smtp2go", "open", {"sender": "mallory@example.com"}),
            ("customerio", "bounce_hard", {"data": {"recipient": "bob@example.net"}}),
            ("customerio", "bounce_hard", {"data": {"failure_message": "451 4.7.1 later"}}),
            ("customerio", "email_clicked", {"data": {"href": "https://evil.example"}}),
            ("loops", "bounce_hard", {"contactIdentity": {"email": "bob@example.net"}}),
            ("loops", "bounce_hard", {"eventName": "email.softBounced"}),
            ("eventbridge", "sending_disabled", {"detail-type": "Sending Status Enabled"}),
            ("cloudevents", "structured", {"type": "email.bounced"}),
            ("cloudevents", "structured", {"data": {"message_id": "m2"}}),
            ("mailonce", "bounce_hard", {"bounce": "soft"}),
            ("mailonce", "bounce_hard", {"recipient": "bob@example.net"}),
            ("mailwebhook", "generic", {"body": {"text": "what today's mapper makes of it"}}),
        ],
    )
    def test_other_content_under_one_key_has_another_fingerprint(
        self, provider: str, name: str, changed: dict[str, Any]
    ) -> None:
        case = find(provider, name)

        [one], [other] = (
            keys(provider, value, case.headers, **case.options)
            for value in (case.value, _with(provider, case.value, changed))
        )

        assert one.key == other.key
        assert one.fingerprint != other.fingerprint

    @pytest.mark.parametrize(
        ("provider", "name", "changed"),
        [
            ("sendgrid", "open", {"sg_event_id": "of the next open in that second"}),
            ("sendgrid", "bounce", {"email": "bob@example.net"}),
            ("sendgrid", "deferred", {"attempt": "6"}),
            ("sendgrid", "delivered", {"event": "processed"}),
            ("sendgrid", "group_unsubscribe", {"asm_group_id": 13}),
            ("sendgrid", "account_status_change", {"type": "compliance_ban"}),
            ("postmark", "open", {"UserAgent": "another client"}),
            ("postmark", "open", {"Geo": {"IP": "192.0.2.9"}}),
            ("postmark", "open", {"RecordType": "Click"}),
            ("postmark", "click", {"OriginalLink": "https://example.com/b"}),
            ("postmark", "click", {"ClickLocation": "Text"}),
            ("postmark", "delivery", {"Recipient": "bob@example.net"}),
            ("postmark", "bounce_HardBounce", {"ID": 692560174}),
            ("postmark", "change_reactivated", {"SuppressSending": True}),
            ("postmark", "change_reactivated", {"MessageStream": "receipts"}),
            ("mailgun", "opened", {"id": "another"}),
            ("mailgun", "opened", {"timestamp": 1767225600.123456 + 86_400}),
            ("mailgun", "opened", {"event": "clicked"}),
            ("sesmetric", "event_open", {"id": "another"}),
            ("mandrill", "open", {"ip": "192.0.2.9"}),
            ("mandrill", "open", {"user_agent": "another client"}),
            ("mandrill", "open", {"ts": 1767225606}),
            ("mandrill", "click", {"url": "https://example.com/b"}),
            ("mandrill", "hard_bounce", {"msg": {"email": "bob@example.net"}}),
            ("mandrill", "deferral_with_diag", {"msg": {"diag": "452 another answer"}}),
            ("mandrill", "sync_blacklist_add", {"action": "remove"}),
            ("mandrill", "sync_blacklist_add", {"ts": 1767225606}),
            ("mandrill", "inbound", {"msg": {"raw_msg": "another mail of that second"}}),
            ("sparkpost", "open", {"event_id": "of the next open in that second"}),
            ("sparkpost", "open", {"type": "initial_open"}),
            ("brevo", "opened", {"ts_epoch": 1767225605124}),
            ("brevo", "opened", {"event": "unique_opened"}),
            ("brevo", "click", {"link": "https://example.com/b"}),
            ("brevo", "deferred", {"reason": "another answer"}),
            ("brevo", "hard_bounce", {"email": "bob@example.net"}),
            ("brevo", "complaint_without_ts_epoch", {"ip": "192.0.2.9"}),
            ("brevo", "seconds_in_ts_epoch", {"user_agent": "another client"}),
            ("mailjet", "open", {"ip": "192.0.2.9"}),
            ("mailjet", "open", {"agent": "another client"}),
            ("mailjet", "open", {"MessageID": 20547674933128002}),
            ("mailjet", "click", {"url": "https://example.com/b"}),
            ("mailjet", "bounce_user_unknown", {"hard_bounce": False}),
            ("mailjet", "bounce_user_unknown", {"email": "bob@example.net"}),
            ("mailersend", "v2_opened", {"id": "another"}),
            ("mailtrap", "open", {"event_id": "of the next open in that second"}),
            ("mailtrap", "inbound", {"message_id": "in-2"}),
            ("emailit", "email_loaded", {"event_id": "of the next open in that second"}),
            ("postal", "loaded", {"ip_address": "192.0.2.9"}),
            ("postal", "loaded", {"message": {"id": 12346}}),
            ("postal", "link_clicked", {"url": "https://example.com/b"}),
            ("postal", "delayed", {"timestamp": 1767225605.2}),
            ("postal", "bounced", {"bounce": {"id": 12400, "token": "another"}}),
            ("postal", "send_limit_exceeded", {"volume": 1102}),
            ("scaleway", "email_deferred", {"id": "of the next attempt"}),
            ("unisendergo", "opened", {"delivery_info": {"ip": "192.0.2.9"}}),
            ("unisendergo", "opened", {"delivery_info": {"user_agent": "another client"}}),
            ("unisendergo", "opened", {"email": "bob@example.net"}),
            ("unisendergo", "opened", {"event_time": "2026-01-01 00:00:06"}),
            ("unisendergo", "clicked", {"url": "https://example.com/b"}),
            ("unisendergo", "spam_block", {"domain_status": "unblocked"}),
            ("smtp2go", "open", {"srchost": "192.0.2.9"}),
            ("smtp2go", "open", {"user-agent": "another client"}),
            ("smtp2go", "open", {"read-secs": 10}),
            ("smtp2go", "click", {"context": "https://example.com/b"}),
            ("smtp2go", "bounce_hard", {"rcpt": "bob@example.net"}),
            ("smtp2go", "bounce_hard", {"time": "2026-01-01 00:00:06"}),
            ("customerio", "email_opened", {"event_id": "of the next open in that second"}),
            ("eventbridge", "sending_disabled", {"id": "another"}),
            ("cloudevents", "structured", {"id": "e2"}),
            ("cloudevents", "structured", {"source": "//mail.example/us"}),
        ],
    )
    def test_events_that_look_alike_have_different_keys(
        self, provider: str, name: str, changed: dict[str, Any]
    ) -> None:
        case = find(provider, name)

        [one], [other] = (
            keys(provider, value, case.headers, **case.options)
            for value in (case.value, _with(provider, case.value, changed))
        )

        assert one.key != other.key

    @pytest.mark.parametrize(
        "changed", [{"email_id": "another"}, {"click": {"link": "https://example.com/b"}}]
    )
    def test_resend_events_that_lost_their_headers_differ_by_content(
        self, changed: dict[str, Any]
    ) -> None:
        value = find("resend", "email_clicked").value

        [one], [other] = keys("resend", value), keys("resend", _with("resend", value, changed))

        assert one.key != other.key

    def test_opens_of_one_second_without_ids_differ_by_client(self) -> None:
        [open_] = find("sendgrid", "open").value
        del open_["sg_event_id"]
        opens = [open_, {**open_, "useragent": "another"}, {**open_, "ip": "192.0.2.9"}]

        event_keys = keys("sendgrid", opens)

        assert len({one.key for one in event_keys}) == 3

    def test_a_sendgrid_event_is_known_by_its_id_as_well(self) -> None:
        [bounce] = find("sendgrid", "bounce").value

        one, other = keys("sendgrid", [bounce, {**bounce, "attempt": "2"}])

        assert one.key != other.key
        assert [(alias.name, alias.key) for alias in one.aliases] == [
            (alias.name, alias.key) for alias in other.aliases
        ]
        assert [alias.name for alias in one.aliases] == ["sg_event_id"]

    def test_a_mailgun_event_posted_by_two_webhooks_is_one(self) -> None:
        value = find("mailgun", "opened").value
        other_hook = {**value, "signature": {**value["signature"], "token": "b" * 50}}

        assert keys("mailgun", value) == keys("mailgun", other_hook)

    def test_a_complaint_told_as_a_bounce_is_the_same_event(self) -> None:
        value = find("postmark", "bounce_SpamComplaint").value

        [one] = keys("postmark", value)
        [other] = keys("postmark", {**value, "RecordType": "SpamComplaint"})

        assert one == other


# Where the one event of a body stands; elsewhere the body is the event.
PLACES: dict[str, tuple[str | int, ...]] = {
    "emailit": (0,),
    "mailersend": ("data",),
    "mailgun": ("event-data",),
    "mailjet": (0,),
    "mailtrap": ("events", 0),
    "mandrill": (0,),
    "postal": ("payload",),
    "resend": ("data",),
    "sendgrid": (0,),
    "sparkpost": (0, "msys"),
    "unisendergo": ("events_by_user", 0, "events", 0, "event_data"),
}


def _with(provider: str, value: Any, changed: dict[str, Any]) -> Any:
    """Change fields of the one event in a body."""
    if provider == "scaleway":
        return scaleway_envelope({**json.loads(value["Message"]), **changed})
    value = copy.deepcopy(value)
    event = value
    for step in PLACES.get(provider, ()):
        event = event[step]
    if provider == "sparkpost":
        [event] = event.values()
    for name, new in changed.items():
        is_within = isinstance(new, dict) and isinstance(event.get(name), dict)
        event[name] = {**event[name], **new} if is_within else new
    return value
