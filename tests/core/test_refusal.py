"""What a refused sender is answered, and the advice for each reason."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import mailonce.core.signatures
import mailonce.pipeline
import mailonce.providers
from mailonce import providers
from mailonce.core.arrivals.provider import Codes, Refused
from mailonce.core.signatures import hmac_signature, proof, refusal
from mailonce.settings import SourceSettings

CODES = Codes(refused=406, later=429)


def reasons() -> Iterator[str]:
    """Give the reason of every refusal that the code can make."""
    for package in (mailonce.core.signatures, mailonce.pipeline, mailonce.providers):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            values = vars(importlib.import_module(module.name)).values()
            yield from (value.reason for value in values if isinstance(value, Refused))


def test_each_reason_for_which_something_is_refused_has_advice() -> None:
    unknown = {refusal.NO_SOURCE, refusal.NO_SOURCE_PATH, refusal.NO_SOURCE_THEN}
    known = {*reasons(), *unknown, refusal.TOO_LARGE}

    assert len(known) > 25
    assert known - refusal.ADVICE.keys() == set()
    assert refusal.ADVICE.keys() - known == set(), "advice for what is never refused"
    assert refusal.advice_of("a provider's own words", "main") == refusal.OTHERWISE


def test_advice_names_the_source_where_it_has_a_name() -> None:
    named, unnamed = (refusal.advice_of(refusal.SWITCHED_OFF, name) for name in ("main", None))

    assert named == "switch it on: `mailonce source on main`"
    assert unnamed == "switch it on: `mailonce source on NAME`"


def test_a_source_of_the_settings_file_is_changed_there() -> None:
    said = refusal.advice_of(proof.WRONG_PASSWORD.reason, "my-shop", is_in_file=True)
    signed = refusal.advice_of(hmac_signature.WRONG.reason, "my-shop", is_in_file=True)

    assert said == (
        "compare user and password in the provider's webhook URL with those of the source: `basic` "
        "in [sources.my-shop] of mailonce.toml, then `mailonce reload`; where the server has "
        "MAILONCE_SOURCES__MY-SHOP__BASIC, that wins: change it and restart"
    )
    assert "in [sources.my-shop] of mailonce.toml" in signed
    for reason in refusal.ADVICE:
        advice = refusal.advice_of(reason, "my-shop", is_in_file=True)
        assert "source set" not in advice, "the file would win at the next start"
        assert "{" not in advice + refusal.advice_of(reason, "my-shop")
    assert {name for text in refusal.ADVICE.values() for name in re.findall(r"{(\w+)}", text)} <= {
        *SourceSettings.model_fields, "any_secret"
    }  # fmt: skip


def test_a_setting_that_a_variable_gives_is_changed_there() -> None:
    variables = {"basic": "MAILONCE_SOURCES__SHOP__BASIC", "public_key": "MAILONCE_SOURCES"}

    password, token, signed = (
        refusal.advice_of(reason, "shop", is_in_file=True, variables=variables)
        for reason in (
            proof.WRONG_PASSWORD.reason,
            proof.WRONG_TOKEN.reason,
            hmac_signature.WRONG.reason,
        )
    )

    assert password.endswith(
        "of the source: the variable MAILONCE_SOURCES__SHOP__BASIC, which wins over "
        "mailonce.toml, then restart the server"
    )
    assert token.endswith("`token` in [sources.shop] of mailonce.toml, then `mailonce reload`")
    assert "the variable MAILONCE_SOURCES, which wins over mailonce.toml" in signed


def test_the_code_is_the_providers_own_unless_the_reason_has_one() -> None:
    answers = {
        proof.WRONG_TOKEN.reason: 406,
        proof.WRONG_PASSWORD.reason: 401,
        refusal.UNREADABLE: 400,
        refusal.TOO_LARGE: 413,
        refusal.NO_SOURCE: 404,
        refusal.SWITCHED_OFF: 429,
    }

    assert {reason: refusal.code_of(reason, CODES) for reason in answers} == answers


def test_advice_says_where_a_refused_webhook_never_comes_again() -> None:
    postmark = providers.find("postmark")
    assert postmark is not None

    assert refusal.is_final(proof.WRONG_PASSWORD.reason, postmark)
    assert refusal.is_final(refusal.TOO_LARGE, postmark)
    assert not refusal.is_final(refusal.SWITCHED_OFF, postmark)
    assert refusal.advice_of(refusal.TOO_LARGE, "pm", lost_by="Postmark").endswith(
        ". Postmark does not send a refused webhook again; what it reported is lost here"
    )


def test_a_password_that_was_asked_for_comes_again() -> None:
    ses, sendgrid = providers.find("ses"), providers.find("sendgrid")
    assert ses is not None
    assert sendgrid is not None

    assert not refusal.is_final(proof.NO_PASSWORD.reason, ses)
    assert refusal.is_final(proof.WRONG_PASSWORD.reason, ses)
    assert not refusal.is_final(proof.WRONG_PASSWORD.reason, sendgrid)
