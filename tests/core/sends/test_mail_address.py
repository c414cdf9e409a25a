"""The grammar of an address."""

import pytest

from mailonce.core.sends.mail_address import trouble_of_address


@pytest.mark.parametrize(
    "address",
    ["a@b", "ann@example.com", "ann.lee+tag@mail.example.co.uk", "o'neil@example.com",
     '"ann lee"@example.com', '"a\\"b"@example.com', "anna@münchen.example", "安娜@例子.广告",
     f"{'x' * 64}@example.com", "a@xn--mnchen-3ya.example", "_dmarc@_x.example"],
)  # fmt: skip
def test_an_address_is_right(address: str) -> None:
    assert trouble_of_address(address) is None


@pytest.mark.parametrize(
    "address",
    ["", "a", "@", "a@", "@b.c", "a b@c.d", "a@b c.d", "a@b..c", "a@-b.c", "a@b-.c", ".a@b.c",
     "a.@b.c", "a..b@c.d", "a@b.c\n", "a@b.c\r\nBcc: x@y.z", "a\n@b.c", "a\x00@b.c", "<a@b.c>",
     "a@b.c,d@e.f", "a@b.c;d@e.f", '"a\nb"@c.d', '"a@b.c', "a@[127.0.0.1]", "a@b.c>", "\ud800@b.c",
     f"{'x' * 65}@example.com", f"a@{'x' * 64}.com", f"a@{'x.' * 130}com", "a@b.c ",
     "a@b.c\u202e", "a\u2028b@c.d", "a\u00a0b@c.d", "a@b\u2060.c", "a@\u2f80.c\ufffd"],
)  # fmt: skip
def test_what_is_no_address_is_told(address: str) -> None:
    assert trouble_of_address(address) is not None
