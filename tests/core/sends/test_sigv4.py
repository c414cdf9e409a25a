"""AWS signatures: those of Amazon's own examples and test suite."""

import pytest

from mailonce.core.sends.sending import HttpRequest
from mailonce.core.sends.sigv4 import signed

# 2015-08-30T12:36:00Z
AT_MS = 1_440_938_160_000
FORM = "application/x-www-form-urlencoded"
CASES = {
    "an example of the documentation": (
        HttpRequest(
            method="GET",
            url="https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08",
            headers=(("Content-Type", f"{FORM}; charset=utf-8"),),
        ),
        "iam",
        "content-type;host;x-amz-date",
        "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
    ),
    "get-vanilla": (
        HttpRequest(method="GET", url="https://example.amazonaws.com/"),
        "service",
        "host;x-amz-date",
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    "post-vanilla": (
        HttpRequest(method="POST", url="https://example.amazonaws.com/"),
        "service",
        "host;x-amz-date",
        "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    ),
    "post-x-www-form-urlencoded": (
        HttpRequest(
            url="https://example.amazonaws.com/",
            headers=(("Content-Type", FORM),),
            body=b"Param1=value1",
        ),
        "service",
        "content-type;host;x-amz-date",
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_signature_is_that_of_amazons_own_examples(name: str) -> None:
    request, service, names, signature = CASES[name]

    proven = signed(
        request,
        access_key="AKIDEXAMPLE",
        secret_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        token="",
        region="us-east-1",
        service=service,
        now_ms=AT_MS + 999,
    )

    headers = dict(proven.headers)
    assert headers["X-Amz-Date"] == "20150830T123600Z"
    assert headers["Authorization"] == (
        f"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/{service}/aws4_request, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    assert (proven.method, proven.url, proven.body) == (request.method, request.url, request.body)


def test_the_token_of_temporary_keys_is_sent_and_signed() -> None:
    proven = signed(
        HttpRequest(url="https://email.eu-west-1.amazonaws.com/v2/email/outbound-emails"),
        access_key="ASIA",
        secret_key="s",
        token="the-token",
        region="eu-west-1",
        service="ses",
        now_ms=AT_MS,
    )

    headers = dict(proven.headers)
    assert headers["X-Amz-Security-Token"] == "the-token"
    assert "SignedHeaders=host;x-amz-date;x-amz-security-token" in headers["Authorization"]
