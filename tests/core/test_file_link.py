"""A link to an attachment opens that one, until it expires, and cannot be made by others."""

from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from mailonce.core.signatures.file_link import FileLink, FileLinks

NOW_MS = 1_000_000
LINKS = FileLinks(["new", "old"], base_url="https://mail.example/", lifetime_s=60)


def link_of(links: FileLinks = LINKS) -> tuple[FileLink, str]:
    url = urlsplit(links.url("default", "msg_1", "att_1", now_ms=NOW_MS))
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert (url.netloc, url.path) == ("mail.example", "/files/msg_1/att_1")
    link = FileLink(query["workspace"], "msg_1", "att_1", int(query["expires"]))
    return link, query["signature"]


def test_a_link_is_good_until_it_expires() -> None:
    link, signature = link_of()

    assert LINKS.is_good(link, signature, now_ms=NOW_MS)
    assert LINKS.is_good(link, signature, now_ms=NOW_MS + 59_999)
    assert not LINKS.is_good(link, signature, now_ms=NOW_MS + 60_000)


@pytest.mark.parametrize(
    "changes",
    [{"workspace": "other"}, {"message": "msg_2"}, {"attachment": "att_2"},
     {"expires_s": 9_999_999_999}, {"message": "msg_1a", "attachment": "tt_1"}],
)  # fmt: skip
def test_a_signature_is_good_for_one_link(changes: dict[str, object]) -> None:
    link, signature = link_of()

    assert not LINKS.is_good(replace(link, **changes), signature, now_ms=NOW_MS)


def test_links_of_an_older_master_key_stay_good_and_those_of_another_are_not() -> None:
    old = FileLinks(["old"], base_url="https://mail.example", lifetime_s=60)
    other = FileLinks(["another"], base_url="https://mail.example", lifetime_s=60)

    assert LINKS.is_good(*link_of(old), now_ms=NOW_MS)
    assert not LINKS.is_good(*link_of(other), now_ms=NOW_MS)
    assert not LINKS.is_good(link_of()[0], "\udcff", now_ms=NOW_MS)
