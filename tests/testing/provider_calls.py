"""Calls to providers' APIs as an application writes them by hand, from the providers' documents."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from mailonce.testing.fakes import Fake

ANN, BOB, CAT, DAN = (f"{name}@example.net" for name in ("ann", "bob", "cat", "dan"))
ALL = (ANN, BOB, CAT, DAN)
SHOP = "shop@example.com"
MIME = (
    b"From: Shop <shop@example.com>\r\nTo: Ann <ann@example.net>, bob@example.net\r\n"
    b"Cc: cat@example.net\r\nBcc: dan@example.net\r\n"
    b"Subject: =?utf-8?q?Caf=C3=A9?=\r\n\r\nHello\r\n"
)
MIME_DATA = b64encode(MIME).decode()


class Call(NamedTuple):
    """A call, for whom it is, and its subjects; `form` is urlencoded, with `files` multipart."""

    path: str
    json: Any = None
    people: tuple[str, ...] = (ANN,)
    subject: str = "Hello"
    form: Mapping[str, Any] | None = None
    files: Mapping[str, Any] | None = None


def credentials(fake: Fake) -> dict[str, str]:
    """Give the headers by which each provider knows its callers."""
    bearer = {"Authorization": f"Bearer {fake.secret}"}
    scope = "20261117/eu-west-1/ses/aws4_request"
    proof = f"SignedHeaders=content-type;host;x-amz-date, Signature={'0' * 64}"
    return {
        "brevo": {"api-key": fake.secret},
        "mailgun": {"Authorization": basic(f"api:{fake.secret}")},
        "mailjet": {"Authorization": basic(f"key:{fake.secret}")},
        "mandrill": {},
        "postal": {"X-Server-API-Key": fake.secret},
        "postmark": {"X-Postmark-Server-Token": fake.secret},
        "scaleway": {"X-Auth-Token": fake.secret},
        "ses": {"Authorization": f"AWS4-HMAC-SHA256 Credential=AKIDFAKE/{scope}, {proof}"},
        "smtp2go": {"X-Smtp2go-Api-Key": fake.secret},
        "sparkpost": {"Authorization": fake.secret},
    }.get(fake.name, bearer)


def basic(user: str) -> str:
    return "Basic " + b64encode(user.encode()).decode()


def person(address: str, key: str = "email") -> dict[str, str]:
    return {key: address, key.replace("email", "name").replace("Email", "Name"): "Some, One"}


def people(key: str = "email") -> dict[str, Any]:
    """Give one of each kind but two in the first, in the providers' usual fields."""
    one = {"to": [person(ANN, key), {key: BOB}], "cc": [person(CAT, key)], "bcc": [{key: DAN}]}
    return one if key == "email" else {name.title(): value for name, value in one.items()}


def simple(**changes: Any) -> dict[str, Any]:
    content = {"Subject": {"Data": "Hello"}, "Body": {"Text": {"Data": "Hi"}}}
    return {"FromEmailAddress": SHOP, "Content": {"Simple": content}, **changes}


_OBJECTS = {"from": {"email": SHOP}, "to": [{"email": ANN}], "subject": "Hello", "text": "Hi"}
_TEXTS = {"from": f"Shop <{SHOP}>", "to": [ANN], "subject": "Hello", "html": "<p>Hi</p>"}
_NAMED = {"to": [f'"Ann, A." <{ANN}>', BOB], "cc": CAT, "bcc": [DAN]}
_LISTS = {**_NAMED, "cc": [CAT]}
_KEY = {"key": "fake-secret"}
_POSTMARK = {"From": SHOP, "To": ANN, "Subject": "Hello", "TextBody": "Hi"}
_MAILJET = {"From": {"Email": SHOP}, "To": [{"Email": ANN}], "Subject": "Hello", "TextPart": "Hi"}
_SENDGRID = {
    "personalizations": [{"to": [{"email": ANN}]}],
    "from": {"email": SHOP},
    "subject": "Hello",
    "content": [{"type": "text/plain", "value": "Hi"}],
}
_SMTP2GO = {"sender": SHOP, "to": [ANN], "subject": "Hello", "text_body": "Hi"}
_SPARKPOST = {"from": SHOP, "subject": "Hello", "text": "Hi"}
_BREVO = {"sender": {"email": SHOP}, "to": [{"email": ANN}], "subject": "Hello"}
_MANDRILL = {"from_email": SHOP, "to": [{"email": ANN}], "subject": "Hello", "text": "Hi"}
_POSTAL = {"from": SHOP, "to": [ANN], "subject": "Hello", "plain_body": "Hi"}
_MAILGUN = {"from": SHOP, "to": ANN, "subject": "Hello", "text": "Hi"}
_MG, _SCW = "/v3/my.example.org", "/transactional-email/v1alpha1/regions/fr-par/emails"

# The first of each provider is its plain one.
ORDINARY: dict[str, list[Call]] = {
    "brevo": [
        Call("/v3/smtp/email", {**_BREVO, "textContent": "Hi"}),
        Call("/v3/smtp/email", {**_BREVO, **people(), "htmlContent": "<p>Hi</p>"}, ALL),
        Call("/v3/smtp/email", {"to": [{"email": ANN}], "templateId": 7}, subject=""),
    ],
    "emailit": [
        Call("/v2/emails", _TEXTS),
        Call("/v2/emails", {**_TEXTS, "to": ANN}),
        Call("/v2/emails", {**_TEXTS, **_NAMED}, ALL),
    ],
    "mailersend": [
        Call("/v1/email", _OBJECTS),
        Call("/v1/email", {**_OBJECTS, **people()}, ALL),
        Call(
            "/v1/email", {**_OBJECTS, "text": None, "template_id": "t", "subject": ""}, subject=""
        ),
    ],
    "mailgun": [
        Call(f"{_MG}/messages", form=_MAILGUN),
        Call(
            f"{_MG}/messages",
            form={**_MAILGUN, "to": f'"A, B" <{ANN}>, {BOB}', "cc": CAT, "bcc": DAN},
            people=ALL,
        ),
        Call(f"{_MG}/messages", form={**_MAILGUN, "to": [ANN, BOB]}, people=(ANN, BOB)),
        Call(f"{_MG}/messages", form=_MAILGUN, files={"attachment": ("a.txt", b"a\r\n--b")}),
        Call(f"{_MG}/messages", form={"from": SHOP, "to": ANN, "template": "t"}, subject=""),
        Call(
            f"{_MG}/messages.mime",
            form={"to": BOB},
            files={"message": ("m.eml", MIME)},
            people=(BOB,),
            subject="Café",
        ),
    ],
    "mailjet": [
        Call("/v3.1/send", {"Messages": [_MAILJET]}),
        Call("/v3.1/send", {"Messages": [{**_MAILJET, **people("Email")}]}, ALL),
        Call(
            "/v3.1/send", {"Messages": [_MAILJET, {**_MAILJET, "To": [{"Email": BOB}]}]}, (ANN, BOB)
        ),
        Call(
            "/v3.1/send",
            {
                "Globals": {"From": {"Email": SHOP}},
                "Messages": [{"To": [{"Email": ANN}], "HTMLPart": "Hi"}],
            },
            subject="",
        ),
    ],
    "mailtrap": [
        Call("/api/send", _OBJECTS),
        Call("/api/send", {**_OBJECTS, **people()}, ALL),
        Call("/api/send", {**_OBJECTS, "to": [], "bcc": [{"email": BOB}]}, (BOB,)),
    ],
    "mandrill": [
        Call("/api/1.0/messages/send.json", {**_KEY, "message": _MANDRILL}),
        Call(
            "/api/1.0/messages/send",
            {
                **_KEY,
                "message": {
                    "from_email": SHOP,
                    "to": [
                        {"email": ANN, "name": "Ann", "type": "to"},
                        {"email": BOB, "type": "bcc"},
                    ],
                },
            },
            (ANN, BOB),
            "",
        ),
    ],
    "postal": [
        Call("/api/v1/send/message", _POSTAL),
        Call("/api/v1/send/message", {**_POSTAL, **_LISTS}, ALL),
        Call(
            "/api/v1/send/raw",
            {"mail_from": SHOP, "rcpt_to": [CAT, DAN], "data": MIME_DATA},
            (CAT, DAN),
            "Café",
        ),
    ],
    "postmark": [
        Call("/email", _POSTMARK),
        Call("/email", {**_POSTMARK, "To": f'"A, B" <{ANN}>,{BOB}', "Cc": CAT, "Bcc": DAN}, ALL),
        Call("/email", {"From": f"Shop <{SHOP}>", "Bcc": ANN, "HtmlBody": "<p>Hi</p>"}, subject=""),
    ],
    "resend": [
        Call("/emails", _TEXTS),
        Call("/emails", {**_TEXTS, "to": ANN}),
        Call("/emails", {**_TEXTS, **_NAMED}, ALL),
    ],
    "scaleway": [
        Call(_SCW, {**_OBJECTS, "project_id": "p"}),
        Call(_SCW, {**_OBJECTS, **people(), "project_id": "p"}, ALL),
    ],
    "sendgrid": [
        Call("/v3/mail/send", _SENDGRID),
        Call("/v3/mail/send", {**_SENDGRID, "personalizations": [people()]}, ALL),
        Call(
            "/v3/mail/send",
            {
                **_SENDGRID,
                "subject": None,
                "personalizations": [
                    {"to": [{"email": ANN}], "subject": "Hello"},
                    {"to": [{"email": BOB}], "subject": "Hello"},
                ],
            },
            (ANN, BOB),
        ),
        Call(
            "/v3/mail/send",
            {
                "personalizations": [{"to": [{"email": ANN}]}],
                "from": {"email": SHOP},
                "template_id": "d-1",
            },
            subject="",
        ),
    ],
    "ses": [
        Call("/v2/email/outbound-emails", simple(Destination={"ToAddresses": [ANN]})),
        Call(
            "/v2/email/outbound-emails",
            simple(
                Destination={
                    "ToAddresses": [f"Ann <{ANN}>", BOB],
                    "CcAddresses": [CAT],
                    "BccAddresses": [DAN],
                }
            ),
            ALL,
        ),
        Call("/v2/email/outbound-emails", {"Content": {"Raw": {"Data": MIME_DATA}}}, ALL, "Café"),
        Call(
            "/v2/email/outbound-emails",
            {
                "FromEmailAddress": SHOP,
                "Destination": {"ToAddresses": [BOB]},
                "Content": {"Raw": {"Data": MIME_DATA}},
            },
            (BOB,),
            "Café",
        ),
        Call(
            "/v2/email/outbound-emails",
            simple(Destination={"ToAddresses": [ANN]}, Content={"Template": {"TemplateName": "t"}}),
            subject="",
        ),
    ],
    "smtp2go": [
        Call("/v3/email/send", _SMTP2GO),
        Call("/v3/email/send", {**_SMTP2GO, **_LISTS}, ALL),
    ],
    "sparkpost": [
        Call(
            "/api/v1/transmissions",
            {"recipients": [{"address": {"email": ANN}}], "content": _SPARKPOST},
        ),
        Call(
            "/api/v1/transmissions",
            {
                "recipients": [{"address": ANN}, {"address": {"email": BOB, "header_to": ANN}}],
                "content": {**_SPARKPOST, "from": {"email": SHOP, "name": "Shop"}},
            },
            (ANN, BOB),
        ),
        Call(
            "/api/v1/transmissions",
            {"recipients": [{"address": BOB}], "content": {"email_rfc822": MIME.decode()}},
            (BOB,),
            "Café",
        ),
    ],
}

_BAD = {"email": "ann"}
_NO_SUBJECT = {"Simple": {"Body": {"Text": {"Data": "x"}}}}
_NO_BODY = {"Simple": {"Subject": {"Data": "x"}, "Body": {}}}
Changes = list[dict[str, Any]]
_MAILJET_CHANGES: Changes = [
    {"From": None},
    {"To": []},
    {"To": [{"Email": "ann"}]},
    {"TextPart": None},
]
_NO_PERSON: Changes = [{"from": None}, {"to": []}, {"to": [_BAD]}, {"to": ANN}, {"subject": None}]
_NOBODY: Changes = [{"to": None}, {"to": []}, {"to": ["ann"]}, {"to": [7]}, {"to": "a,b"}]
# What is changed in the plain call of each provider, and the status of its refusal.
REFUSED: dict[str, tuple[int, Changes]] = {
    "brevo": (
        400,
        [
            {"sender": None},
            {"to": []},
            {"to": [_BAD]},
            {"to": ANN},
            {"subject": None},
            {"textContent": ""},
            {"messageVersions": [{"to": [{"email": BOB}]}]},
            {"headers": {"idempotencyKey": []}},
        ],
    ),
    "emailit": (400, [*_NOBODY, {"from": None}, {"subject": None}, {"html": None}, {"meta": 7}]),
    "mailersend": (422, [*_NO_PERSON, {"text": None}, {"tags": "x"}]),
    "mailgun": (400, [{"from": ""}, {"to": ""}, {"to": "ann"}, {"text": ""}, {"cc": "x"}]),
    "mailjet": (
        400,
        [
            {"Messages": []},
            {"Messages": [7]},
            {"Messages": [_MAILJET, {}]},
            *({"Messages": [{**_MAILJET, **change}]} for change in _MAILJET_CHANGES),
        ],
    ),
    "mailtrap": (400, [*_NO_PERSON, {"text": None}]),
    # It has its errors in a 500.
    "mandrill": (
        500,
        [
            {"message": None},
            {"message": {**_MANDRILL, "from_email": None}},
            {"message": {**_MANDRILL, "to": []}},
            {"message": {**_MANDRILL, "to": [_BAD]}},
        ],
    ),
    # It has its errors in a 200.
    "postal": (200, [*_NOBODY, {"from": None}, {"plain_body": None}]),
    "postmark": (
        422,
        [
            {"From": None},
            {"From": "shop"},
            {"To": None},
            {"To": "ann"},
            {"To": f"{ANN},bob"},
            {"TextBody": None},
            {"Headers": [7]},
            {"To": ",".join([ANN] * 51)},
        ],
    ),
    "resend": (
        422,
        [
            *_NOBODY,
            {"from": None},
            {"from": "shop"},
            {"to": 7},
            {"subject": None},
            {"html": None},
            {"tags": [{"name": 7}]},
            {"to": [ANN] * 51},
        ],
    ),
    "scaleway": (400, [*_NO_PERSON, {"text": None}, {"project_id": None}]),
    "sendgrid": (
        400,
        [
            {"from": None},
            {"personalizations": []},
            {"personalizations": [{"to": []}]},
            {"personalizations": [{"to": [_BAD]}]},
            {"subject": None},
            {"content": []},
            {"personalizations": [{"to": [{"email": ANN}], "cc": [{"email": ANN}]}]},
            {"mail_settings": {"sandbox_mode": {"enable": "true"}}},
        ],
    ),
    "ses": (
        400,
        [
            {"FromEmailAddress": None},
            {"Destination": None},
            {"Destination": {"ToAddresses": ["ann"]}},
            {"Content": None},
            {"Content": _NO_SUBJECT},
            {"Content": _NO_BODY},
            {"Content": {"Raw": {"Data": "?"}}},
        ],
    ),
    "smtp2go": (400, [*_NOBODY, {"sender": None}, {"subject": None}, {"text_body": None}]),
    "sparkpost": (
        422,
        [
            {"recipients": []},
            {"recipients": [{"address": "ann"}]},
            {"recipients": {"list_id": "l"}},
            {"content": {**_SPARKPOST, "from": None}},
            {"content": {**_SPARKPOST, "subject": None}},
            {"content": {**_SPARKPOST, "text": None}},
        ],
    ),
}
