from mailonce.core.mail.authentication_results import read_authentication
from mailonce.core.mail.incoming import AuthenticationCheck
from mailonce.core.mail.mime.header_block import HeaderFields, make_fields

TRUSTED = ["mx.example.net"]
RESULTS = (
    "mx.example.net 1; spf=pass (domain of a@b.example; ok) smtp.mailfrom=a@b.example;"
    " dkim=pass (2048-bit key) header.d=b.example header.s=x;"
    ' dkim=fail reason="bad; signature" header.i=@c.example;'
    " dmarc=pass (p=none; sp=none) header.from=B.example; arc=none; iprev=pass"
)


def header(*fields: tuple[str, str]) -> HeaderFields:
    return make_fields(fields)


def test_the_results_of_a_trusted_server_are_read() -> None:
    found = read_authentication(header(("Authentication-Results", RESULTS)), TRUSTED)

    assert found is not None
    assert found.spf == AuthenticationCheck(result="pass", domain="b.example")
    assert [one.result for one in found.dkim] == ["pass", "fail"]
    assert found.dkim[1].domain == "c.example"
    assert found.dmarc == AuthenticationCheck(result="pass", domain="b.example")
    assert found.arc == AuthenticationCheck(result="none")
    assert (found.checked_by, found.server) == ("server", TRUSTED[0])


def test_nobody_else_is_believed() -> None:
    strange = RESULTS.replace("mx.example.net", "mx.evil.example")

    assert read_authentication(header(("Authentication-Results", strange)), TRUSTED) is None
    assert read_authentication(header(("Authentication-Results", RESULTS)), []) is None
    hidden = f"mx.evil.example (mx.example.net); {RESULTS}"
    assert read_authentication(header(("Authentication-Results", hidden)), TRUSTED) is None


def test_only_the_topmost_field_of_the_server_counts() -> None:
    failed = "mx.example.net; spf=fail smtp.mailfrom=b.example"

    found = read_authentication(
        header(("Authentication-Results", failed), ("Authentication-Results", RESULTS)), TRUSTED
    )

    assert found is not None
    assert found.spf is not None
    assert found.spf.result == "fail"
    assert found.dkim == ()


def test_a_field_below_the_second_hop_is_the_senders() -> None:
    fields = header(("Received", "a"), ("Received", "b"), ("Authentication-Results", RESULTS))

    assert read_authentication(fields, TRUSTED) is None


def test_an_unknown_result_is_unknown() -> None:
    found = read_authentication(
        header(("Authentication-Results", "mx.example.net; spf=perhaps; dmarc=bestguesspass")),
        TRUSTED,
    )

    assert found is not None
    assert found.spf == AuthenticationCheck(result="unknown")
    assert found.dmarc == AuthenticationCheck(result="unknown")
