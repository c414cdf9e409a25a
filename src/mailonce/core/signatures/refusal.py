"""What a refused sender is answered, and what an operator can do about it."""

import re
from collections.abc import Mapping

from mailonce.core.arrivals.provider import Codes, Provider
from mailonce.core.signatures import hmac_signature, proof, sns

UNREADABLE = "unreadable"
TOO_MANY = "too many events"
TOO_LARGE = "too large"
SWITCHED_OFF = "the source is switched off"
EMPTY_SECRET = "the source has an empty secret"  # noqa: S105
NO_SOURCE = "no source has this name"
NO_SOURCE_PATH = "no source has this path"
# What came for a name before its source was made, or while it was removed.
NO_SOURCE_THEN = "no source had this name then"
# Kept among the headers of a sample, under a name that no header has.
PATH = ":path"
# Stands for a source that does not exist, with the name in the URL behind it.
UNKNOWN = "(unknown)"

# For any other reason it is the code that the provider takes for a refusal.
_CODES: Mapping[str, int] = {
    proof.NO_PASSWORD.reason: 401,
    proof.WRONG_PASSWORD.reason: 401,
    UNREADABLE: 400,
    TOO_MANY: 413,
    TOO_LARGE: 413,
    NO_SOURCE: 404,
    NO_SOURCE_PATH: 404,
    NO_SOURCE_THEN: 404,
}
# Stands for the name of the source in the advice.
_NAME = "NAME"
# What changes a setting of a source; the advice has its name in braces.
_COMMANDS: Mapping[str, str] = {
    "allow_ips": "`mailonce source set NAME --allow-ip …`",
    "any_secret": "`mailonce source set --help`",
    "basic": "`mailonce source set NAME --basic -`",
    "header": "`mailonce source set NAME --header -`",
    "public_key": "`mailonce source set NAME --public-key @FILE`",
    "token": "`mailonce source set NAME --token -`",
    "topic_arns": "`mailonce source set NAME --topic-arn ARN --topic-arn …`",
}
# The file wins over commands at the next start, and a variable over the file.
_IN_FILE: Mapping[str, str] = {
    name: f"`{name}` in [sources.NAME] of mailonce.toml, then `mailonce reload`"
    for name in _COMMANDS
} | {"any_secret": "in [sources.NAME] of mailonce.toml, then `mailonce reload`"}
_ANY_SECRET = ("secret", "public_key")
_PLACES_MAX = 3
# A command that acts in a workspace; what shows how a machine is, does not.
_SOURCE_COMMAND = re.compile(r"`mailonce source [^`]+")
# Where nobody knows which variables the server has.
_IN_FILE_OR_VARIABLE: Mapping[str, str] = {
    name: f"{text}; where the server has MAILONCE_SOURCES__NAME__{variable}, that wins: change it "
    "and restart"
    for name, text in _IN_FILE.items()
    for variable in ("SECRET" if name == "any_secret" else name.upper(),)
}
_NOT_THIS_PROVIDER = (
    "this is not what the provider sends: compare the webhook's URL with `mailonce source list`, "
    "and look at the sample with --json"
)
_SET_KEY = "give the source its key again: {public_key}"
_AMAZON = "the certificate must be one that Amazon names and has not ended; else it is a forgery"
_SCALEWAY = "give the source Scaleway's CA certificate: {public_key}"
ADVICE: Mapping[str, str] = {
    proof.NO_PASSWORD.reason: (
        "the sender gives no password: write https://USER:PASSWORD@… as the provider's webhook URL"
    ),
    proof.WRONG_PASSWORD.reason: (
        "compare user and password in the provider's webhook URL with those of the source: {basic}"
    ),
    proof.WRONG_TOKEN.reason: (
        "compare the token in the provider's webhook URL with that of the source: {token}"
    ),
    proof.WRONG_HEADER.reason: (
        "compare the header that the provider sends with that of the source: {header}"
    ),
    proof.WRONG_ADDRESS.reason: (
        "add the sender's address: {allow_ips}; behind a proxy, set net.trusted_proxies"
    ),
    hmac_signature.MISSING.reason: (
        "switch signatures on at the provider; if it signs, something else posts to this URL"
    ),
    hmac_signature.WRONG.reason: (
        "was the secret or key changed at the provider? give the source the new one beside the "
        "old ({any_secret}); a proxy that changes bodies breaks signatures, too"
    ),
    hmac_signature.STALE.reason: (
        "check the clock of this machine (`mailonce doctor`); a request that is sent again after "
        "minutes with its first signature is refused as well"
    ),
    hmac_signature.NOT_NUMERIC.reason: _NOT_THIS_PROVIDER,
    hmac_signature.BAD_ID.reason: _NOT_THIS_PROVIDER,
    sns.NOT_SNS.reason: _NOT_THIS_PROVIDER,
    sns.MISMATCH.reason: _NOT_THIS_PROVIDER,
    sns.WRONG_TOPIC.reason: "allow the topic, and name the others again: "
    "{topic_arns} (what is given replaces the list)",
    sns.WRONG_VERSION.reason: "set SignatureVersion 2 for the topic at Amazon SNS",
    sns.BROKEN_KEY.reason: _AMAZON,
    sns.EXPIRED_KEY.reason: _AMAZON,
    "certificate URL is not Amazon's": _AMAZON,
    "raw delivery is not signed": (
        "switch raw message delivery off for the subscription at Amazon SNS"
    ),
    "certificate URL is not Scaleway's": _SCALEWAY,
    "no usable CA certificate": _SCALEWAY,
    "certificate is not issued by the pinned CA": _SCALEWAY,
    "no usable public key": _SET_KEY,
    "the key does not fit its URL": "the provider's key has changed; look again in some minutes",
    "source is not configured": "see `mailonce source show NAME`, and set what its provider needs",
    "no envelope": _NOT_THIS_PROVIDER,
    "the signed token came before with another body": (
        "somebody sends a token of the provider again with another body; the first one was taken"
    ),
    UNREADABLE: "look at the sample with --json; with poison = dead_letter such bodies are kept",
    TOO_MANY: "have the provider send smaller batches, or raise limits.arrival_events_max",
    TOO_LARGE: "raise limits.body_bytes_max, or limits.mail_bytes_max where it is mail",
    EMPTY_SECRET: "give the source the provider's secret instead of the empty one: {any_secret}",
    SWITCHED_OFF: "switch it on: `mailonce source on NAME`",
    NO_SOURCE: "correct the webhook's URL at the provider: `mailonce source list` shows the URLs",
    NO_SOURCE_PATH: (
        "webhooks are posted to /in/NAME: correct the URL at the provider, or the proxy that "
        "changes its path; `mailonce source list` shows the URLs"
    ),
    NO_SOURCE_THEN: "there is nothing to correct: the source is there now",
}
OTHERWISE = "see the provider's page in docs/providers/, and the sample with --json"


def code_of(reason: str, codes: Codes) -> int:
    """Give the status code that a refusal for `reason` is answered with."""
    if reason in {SWITCHED_OFF, EMPTY_SECRET}:
        # It may be switched on again, or corrected, before the provider gives up.
        return codes.later
    return _CODES.get(reason, codes.refused)


def is_final(reason: str, provider: Provider) -> bool:
    """Say whether the provider never sends again what is refused for `reason`."""
    codes = provider.codes
    if provider.sends_password_when_asked and reason == proof.NO_PASSWORD.reason:
        return False
    return codes.refused_is_final and code_of(reason, codes) != codes.later


def advice_of(
    reason: str,
    source_name: str | None,
    *,
    is_in_file: bool = False,
    variables: Mapping[str, str] | None = None,
    lost_by: str | None = None,
    workspace: str = "",
) -> str:
    """Say in one sentence what an operator can do; NAME stays where the source has none.

    `is_in_file`: the source stands in the settings file, which wins over what a command changes.
    `variables` give settings of it, by their names, and win over the file; None: nobody knows.
    `lost_by`: the provider's title, where it never sends again what was refused.
    `workspace` is that in which the commands have to act; '' is that of whoever runs them.
    """
    name = source_name or _NAME
    places = _places_in_file(variables) if is_in_file else _COMMANDS
    advice = ADVICE.get(reason, OTHERWISE).format_map(places)
    advice = advice.replace(f"__{_NAME}__", f"__{name.upper()}__").replace(_NAME, name)
    if workspace:
        advice = _SOURCE_COMMAND.sub(rf"\g<0> --workspace {workspace}", advice)
    if lost_by is None:
        return advice
    return (
        f"{advice}. {lost_by} does not send a refused webhook again; what it reported is lost here"
    )


def advice_of_other_workspaces(ids: Mapping[str, str]) -> str:
    """Say where sources are whose name was posted to, given their ids by workspace.

    A name in a URL is one of the default workspace, since every workspace may use it.
    """
    known = sorted(ids.items())
    places = ", ".join(f"/in/{id_} (workspace {name})" for name, id_ in known[:_PLACES_MAX])
    more = ", …" if known[_PLACES_MAX:] else ""
    return (
        f"a source of another workspace than the default one is posted to by its id: {places}"
        f"{more}; correct the webhook's URL at the provider: `mailonce source list --workspace "
        f"{known[0][0]}` shows it"
    )


def _places_in_file(variables: Mapping[str, str] | None) -> Mapping[str, str]:
    """Say where each setting of a source is changed that the settings file has."""
    if variables is None:
        return _IN_FILE_OR_VARIABLE
    secret = next((variables[name] for name in _ANY_SECRET if name in variables), None)
    known = {**variables, **({} if secret is None else {"any_secret": secret})}
    return {
        name: f"the variable {known[name]}, which wins over mailonce.toml, then restart the server"
        if name in known
        else text
        for name, text in _IN_FILE.items()
    }
