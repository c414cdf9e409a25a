"""What has nothing that can be seen is an empty secret."""

from mailonce.core.arrivals.source import Source
from mailonce.core.empty_secret import is_empty

# HMAC fills a key up with zeros: to it, those of zeros are the empty one.
EMPTY = ("", " ", "\0", "\0" * 64, "\t\r\n", "\u200b", "\u00a0", "\ufeff", b"", b"\0" * 64, b" ")
SEEN = ("a", " a ", "\u00fc", "0", b"\0\1", b"\xff" * 16)


def test_what_can_be_seen_is_not_empty() -> None:
    assert [one for one in EMPTY if not is_empty(one)] == []
    assert [one for one in SEEN if is_empty(one)] == []


def test_a_proof_is_never_left_out_because_it_is_empty() -> None:
    source = Source(
        id="s", workspace="w", name="n", provider="p", account="a",
        secrets=("s", ""), tokens=("t",), headers=("X-A: ", "x-a: v"),
    )  # fmt: skip

    kept = source.without_empty()

    assert source.empty_setting == "secret"
    assert kept is not None
    assert (kept.secrets, kept.tokens, kept.headers) == (("s",), ("t",), ("x-a: v",))
    assert kept.empty_setting is None
