"""What every provider promises: who is believed, and what is read."""

import json
from base64 import b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Guard, Refused, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.signatures import hmac_signature as schemes
from mailonce.errors import ParseError
from tests.providers.cases import NOW_S, arrival_of, find, parse, provider_of, source_of
from tests.providers.signing import (
    MANDRILL_URL,
    SCHEMES,
    TOKEN,
    Scheme,
    attach_customerio,
    attach_mailersend,
    attach_mailgun,
    attach_mailwebhook,
    attach_mandrill,
    attach_resend,
    attach_standard,
    sign_mailgun,
)

NOW = str(NOW_S)
GARBAGE = (
    *("", "=", "not base64 !", "é", "\ud800", "\x00", "A" * 1_000_000, "sha256=", "MEUCIQ=="),
)
every_scheme = pytest.mark.parametrize("scheme", SCHEMES, ids=str)
every_timestamped = pytest.mark.parametrize(
    "scheme", [one for one in SCHEMES if one.timestamped], ids=str
)


def verify(scheme: Scheme, arrival: Arrival, source: Source) -> Verdict:
    return provider_of(scheme.provider).verify(arrival, source, {})


class TestSignatures:
    @every_scheme
    def test_what_the_secret_signed_is_verified(self, scheme: Scheme) -> None:
        arrival = scheme.arrive("old", NOW)

        verdict = verify(scheme, arrival, scheme.source("old"))

        assert verdict == Verified()

    @every_scheme
    def test_what_another_secret_signed_is_refused(self, scheme: Scheme) -> None:
        arrival = scheme.arrive("stranger", NOW)

        verdict = verify(scheme, arrival, scheme.source("old"))

        assert verdict == schemes.WRONG

    @every_scheme
    def test_both_secrets_count_during_a_rotation(self, scheme: Scheme) -> None:
        source = scheme.source("old", "new")

        verdicts = [verify(scheme, scheme.arrive(one, NOW), source) for one in ("old", "new")]

        assert verdicts == [Verified(), Verified()]

    @every_scheme
    def test_a_source_without_secrets_believes_nobody(self, scheme: Scheme) -> None:
        arrival = scheme.arrive("old", NOW)

        verdict = verify(scheme, arrival, scheme.source())

        assert isinstance(verdict, Refused)

    @every_scheme
    def test_one_other_character_in_the_signature_is_refused(self, scheme: Scheme) -> None:
        good = scheme.signature("old", scheme.body, NOW)
        middle = len(good) // 2
        spoilt = good[:middle] + ("0" if good[middle] != "0" else "1") + good[middle + 1 :]

        verdict = verify(scheme, scheme.attach(scheme.body, NOW, spoilt), scheme.source("old"))

        assert verdict == schemes.WRONG

    @every_scheme
    def test_one_other_byte_in_a_signed_body_is_refused(self, scheme: Scheme) -> None:
        signature = scheme.signature("old", scheme.body, NOW)
        changed = scheme.body.replace(b"e", b"E", 1)

        verdict = verify(scheme, scheme.attach(changed, NOW, signature), scheme.source("old"))

        covered = provider_of(scheme.provider).signs_body
        assert covered == scheme.covers_body
        assert verdict == (schemes.WRONG if covered else Verified())

    @every_scheme
    def test_a_body_without_signature_is_refused(self, scheme: Scheme) -> None:
        verdict = verify(scheme, arrival_of(scheme.body), scheme.source("old"))

        assert verdict == schemes.MISSING

    @every_timestamped
    def test_a_timestamp_that_is_no_number_is_refused_even_if_signed(
        self, scheme: Scheme, subtests: pytest.Subtests
    ) -> None:
        for timestamp in ("soon", "", "1767225600.0", "-1", "²", "1" * 40):
            with subtests.test(timestamp):
                arrival = scheme.arrive("old", timestamp)

                verdict = verify(scheme, arrival, scheme.source("old"))

                assert verdict in {schemes.NOT_NUMERIC, schemes.MISSING}

    @every_timestamped
    @pytest.mark.parametrize("direction", [-1, 1])
    def test_a_signed_time_counts_to_the_end_of_its_window(
        self, scheme: Scheme, direction: int
    ) -> None:
        window_s = provider_of(scheme.provider).freshness_s
        assert window_s is not None
        last, stale = (str(NOW_S + direction * age) for age in (window_s, window_s + 1))
        source = scheme.source("old")

        verdicts = [verify(scheme, scheme.arrive("old", one), source) for one in (last, stale)]

        assert verdicts == [Verified(), schemes.STALE]

    @every_timestamped
    def test_a_source_may_set_its_own_window_or_none(self, scheme: Scheme) -> None:
        arrival = scheme.arrive("old", str(NOW_S - 61))

        strict = verify(scheme, arrival, scheme.source("old", freshness_s=60))
        without = verify(
            scheme, scheme.arrive("old", "1000000000"), scheme.source("old", freshness_s=0)
        )

        assert strict == schemes.STALE
        assert without == Verified()

    @every_scheme
    def test_garbage_for_a_signature_is_refused_not_raised(
        self, scheme: Scheme, subtests: pytest.Subtests
    ) -> None:
        for garbage in GARBAGE:
            with subtests.test(repr(garbage)[:20]):
                arrival = scheme.attach(scheme.body, NOW, garbage)

                verdict = verify(scheme, arrival, scheme.source("old", "new"))

                assert verdict == schemes.WRONG


class TestVectors:
    """Signatures that were computed apart from this code."""

    BODY = b'{"type":"email.delivered","n":1}'
    SENDGRID_BODY = b'[{"email":"a@example.com","event":"processed","timestamp":1767225600}]\r\n'
    SENDGRID_KEY = (
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAERxw+dYxJBChbun5TEY7Q9SSt6wdX0lvS+Oew1236cUzdUg96"
        "yoqLkXrMN/Ud6PDJu+OthYOC5wLcJaEtCfeoWA=="
    )
    SENDGRID_SIGNATURE = (
        "MEUCIQCRde2qbe+ZTlLtlBrODHWXJjm0/bgQ5yk8kZPn4t4eywIgWwtKpS4/fDZnrbo3IK1MFsHtA0DALv0z"
        "7E5+bUcsuEg="
    )

    def verify_sendgrid(self, body: bytes, public_key: str) -> Verdict:
        headers = {
            "X-Twilio-Email-Event-Webhook-Timestamp": NOW,
            "X-Twilio-Email-Event-Webhook-Signature": self.SENDGRID_SIGNATURE,
        }
        source = source_of("sendgrid", public_keys=(public_key,))
        return provider_of("sendgrid").verify(arrival_of(body, headers), source, {})

    def test_sendgrid(self) -> None:
        assert self.verify_sendgrid(self.SENDGRID_BODY, self.SENDGRID_KEY) == Verified()

    def test_sendgrid_without_its_line_end_is_refused(self) -> None:
        body = self.SENDGRID_BODY.removesuffix(b"\r\n")

        assert self.verify_sendgrid(body, self.SENDGRID_KEY) == schemes.WRONG

    def test_sendgrid_with_a_key_in_pem(self) -> None:
        pem = f"-----BEGIN PUBLIC KEY-----\n{self.SENDGRID_KEY}\n-----END PUBLIC KEY-----\n"

        assert self.verify_sendgrid(self.SENDGRID_BODY, pem) == Verified()

    @pytest.mark.parametrize(
        "key",
        ["", "é", "AAAA", "-----BEGIN PUBLIC KEY-----", "\ud800", "-----BEGIN\ud800"],
        ids=repr,
    )
    def test_sendgrid_with_an_unusable_key_is_refused_for_that_reason(self, key: str) -> None:
        verdict = self.verify_sendgrid(self.SENDGRID_BODY, key)

        assert verdict == Refused("no usable public key")

    def test_sendgrid_with_a_key_of_another_curve_is_refused_for_that_reason(self) -> None:
        other_curve = ec.derive_private_key(7, ec.SECP384R1()).public_key()
        der = other_curve.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

        verdict = self.verify_sendgrid(self.SENDGRID_BODY, b64encode(der).decode())

        assert verdict == Refused("no usable public key")

    def test_mailgun(self) -> None:
        signature = "4e0f8c84cdcfded78bfaf831065514b5126a03fa29d57aa0d9fbac10cdb705a2"
        arrival = attach_mailgun(self.BODY, NOW, signature)

        verdict = provider_of("mailgun").verify(
            arrival, source_of("mailgun", secrets=("key-test",)), {}
        )

        assert verdict == Verified()

    def test_sesmetric_in_both_forms(self) -> None:
        signed = {
            "X-SESMetric-Timestamp": NOW,
            "X-SESMetric-Signature": (
                "b85aa4d9d97d221c71c40ee2076c4442f6fea1422934456317585e99f8b4b2a4"
            ),
        }
        older = {
            "X-SM-Signature": (
                "sha256=ab5edbd837379d007aeabcea1c65181ccfae0473b56989ba1c1924af40bf773d"
            )
        }
        verify_ = provider_of("sesmetric").verify
        plain = source_of("sesmetric", secrets=("s3cret",))
        body_form = source_of("sesmetric", secrets=("s3cret",), options={"form": "body"})

        verdicts = [
            verify_(arrival_of(self.BODY, signed), plain, {}),
            verify_(arrival_of(self.BODY, older), body_form, {}),
            verify_(arrival_of(self.BODY, older), plain, {}),
        ]

        assert verdicts == [Verified(), Verified(), schemes.MISSING]

    def test_customerio(self) -> None:
        signature = "02b7c75b6fce77bc043f5b93d0856ecf4ea73ab7c374c192dc0dd538e605da85"
        source = source_of("customerio", secrets=("s3cret",))

        arrival = attach_customerio(self.BODY, NOW, signature)

        assert provider_of("customerio").verify(arrival, source, {}) == Verified()

    def test_mailwebhook(self) -> None:
        signature = "uFqk2dl9IhxxxA7iB2xEQvb+oUIpNEVjF1hemfi0sqQ="
        source = source_of("mailwebhook", secrets=("s3cret",))

        arrival = attach_mailwebhook(self.BODY, NOW, signature)

        assert provider_of("mailwebhook").verify(arrival, source, {}) == Verified()

    @pytest.mark.parametrize("provider", ["cloudevents", "loops", "mailonce"])
    def test_standard_webhooks(self, provider: str) -> None:
        signature = "JqYTzFHAWDbq2qce4zEY8YeYwmNOdyUMq7L0H+pWKis="
        source = source_of(provider, secrets=("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3",))

        arrival = attach_standard(self.BODY, NOW, signature)

        assert provider_of(provider).verify(arrival, source, {}) == Verified()

    def test_resend(self) -> None:
        signature = "v1,JqYTzFHAWDbq2qce4zEY8YeYwmNOdyUMq7L0H+pWKis="
        source = source_of("resend", secrets=("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3",))

        verdict = provider_of("resend").verify(attach_resend(self.BODY, NOW, signature), source, {})

        assert verdict == Verified()

    def test_mandrill(self) -> None:
        arrival = attach_mandrill(b"mandrill_events=%5B%5D", "", "+S63MR2IEIh9T2/bxU9M9H2NdVk=")
        source = source_of("mandrill", secrets=("mk",), options={"url": MANDRILL_URL})

        assert provider_of("mandrill").verify(arrival, source, {}) == Verified()

    def test_mailersend(self) -> None:
        signature = "ab5edbd837379d007aeabcea1c65181ccfae0473b56989ba1c1924af40bf773d"
        source = source_of("mailersend", secrets=("s3cret",))

        verdict = provider_of("mailersend").verify(
            attach_mailersend(self.BODY, "", signature), source, {}
        )

        assert verdict == Verified()

    def test_mailtrap(self) -> None:
        signature = "ab5edbd837379d007aeabcea1c65181ccfae0473b56989ba1c1924af40bf773d"
        arrival = arrival_of(self.BODY, {"Mailtrap-Signature": signature})

        verdict = provider_of("mailtrap").verify(
            arrival, source_of("mailtrap", secrets=("s3cret",)), {}
        )

        assert verdict == Verified()

    def test_emailit_signs_with_the_whole_secret(self) -> None:
        headers = {
            "X-Emailit-Timestamp": NOW,
            "X-Emailit-Signature": (
                "7cd2aa0efd51accc98fce907447d90df4518b04942be4b6f42105444a8823f9a"
            ),
        }
        source = source_of("emailit", secrets=("whsec_" + "ab" * 32,))

        verdict = provider_of("emailit").verify(arrival_of(self.BODY, headers), source, {})

        assert verdict == Verified()

    def test_unisendergo(self) -> None:
        body = b'{"auth":"867868db089e4d3cb5a92c381ecbb71f","events_by_user":[]}'
        source = source_of("unisendergo", secrets=("api-key-1",))

        verdict = provider_of("unisendergo").verify(arrival_of(body), source, {})

        assert verdict == Verified()


class TestMailgunTokens:
    DATA = b'{"event":"delivered","id":"e1","timestamp":1767225600.5}'

    def body(self, **signatures: tuple[str, str]) -> bytes:
        """Sign by (secret, token) under each name."""
        given = {
            name.replace("_", "-"): {
                "timestamp": NOW,
                "token": token,
                "signature": sign_mailgun(secret, b"", NOW, token),
            }
            for name, (secret, token) in signatures.items()
        }
        return json.dumps({**given, "event-data": json.loads(self.DATA)}).encode()

    def test_a_token_is_good_for_one_content(self) -> None:
        parsed = parse("mailgun", self.body(signature=("old", TOKEN)))

        assert parsed.guard == Guard("token", TOKEN)

    def test_a_parents_signature_counts_only_where_the_source_says_so(self) -> None:
        arrival = arrival_of(self.body(signature=("child", "b"), parent_signature=("old", "c")))
        verify_ = provider_of("mailgun").verify
        plain = source_of("mailgun", secrets=("old",))
        parental = source_of("mailgun", secrets=("old",), options={"parent_signature": True})

        verdicts = verify_(arrival, plain, {}), verify_(arrival, parental, {})

        assert verdicts == (schemes.WRONG, Verified())

    def test_the_guarded_token_is_the_proven_one(self) -> None:
        arrival = arrival_of(self.body(signature=("made up", "b"), parent_signature=("old", "c")))
        source = source_of("mailgun", secrets=("old",), options={"parent_signature": True})

        parsed = provider_of("mailgun").parse(arrival, source)

        assert parsed.guard == Guard("token", "c")

    def test_a_digit_cannot_move_from_token_to_timestamp(self) -> None:
        signature = sign_mailgun("old", b"", NOW, "7" + TOKEN)
        moved = attach_mailgun(self.DATA, NOW + "7", signature)
        source = source_of("mailgun", secrets=("old",), freshness_s=0)

        verdict = provider_of("mailgun").verify(moved, source, {})

        assert verdict == schemes.NOT_NUMERIC

    @pytest.mark.parametrize("name", ["form_bounced", "multipart_delivered"])
    def test_a_form_is_verified_by_mailguns_own_fields(self, name: str) -> None:
        case = find("mailgun", name)
        source = source_of("mailgun", secrets=("key-test",))

        arrival = arrival_of(case.body, case.headers)

        assert provider_of("mailgun").verify(arrival, source, {}) == Verified()
        assert provider_of("mailgun").parse(arrival, source).guard == Guard("token", TOKEN)

    @pytest.mark.parametrize("body", [b"", b"[]", b"{", b"5", b"\xff", b'{"signature":[]}'])
    def test_a_body_without_any_shape_is_unsigned(self, body: bytes) -> None:
        verdict = provider_of("mailgun").verify(
            arrival_of(body), source_of("mailgun", secrets=("old",)), {}
        )

        assert verdict == schemes.MISSING


class TestBodies:
    def test_an_unreadable_element_costs_no_other(self) -> None:
        event = b'{"event":"processed","email":"ann@example.net"}'
        body = b"[" + b",".join([event, b"{broken}", b"5", event, b'"x"']) + b"]\r\n"

        parsed = parse("sendgrid", body)

        assert len(parsed.events) == 2
        assert [(one.position, one.raw) for one in parsed.unreadable] == [
            (1, b"{broken}"),
            (2, b"5"),
            (4, b'"x"'),
        ]

    @pytest.mark.parametrize(
        ("provider", "body"),
        [
            ("sendgrid", b"[]"),
            ("emailit", b"[]"),
            ("mailtrap", b"[]"),
            ("mailtrap", b'{"events":[]}'),
            ("unisendergo", b'{"auth":"","events_by_user":[]}'),
        ],
    )
    def test_a_body_without_events_is_a_probe(self, provider: str, body: bytes) -> None:
        parsed = parse(provider, body)

        assert parsed.events == ()
        assert parsed.unreadable == ()

    @pytest.mark.parametrize(
        "provider",
        [
            "brevo",
            "cloudevents",
            "customerio",
            "elasticemail",
            "emailit",
            "eventbridge",
            "loops",
            "mailersend",
            "mailgun",
            "mailhook",
            "mailjet",
            "mailonce",
            "mailtrap",
            "mandrill",
            "postal",
            "postmark",
            "resend",
            "scaleway",
            "sendgrid",
            "sesmetric",
            "smtp2go",
            "sparkpost",
            "unisendergo",
        ],
    )
    def test_a_body_of_another_shape_is_refused(
        self, provider: str, subtests: pytest.Subtests
    ) -> None:
        for body in (b"", b"5", b"null", b'"x"', b"\xff\x00", b"[" * 5_000):
            with subtests.test(repr(body)[:20]), pytest.raises(ParseError):
                parse(provider, body)
