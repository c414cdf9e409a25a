"""The token that a sender without headers puts into a URL."""

import pytest

from mailonce.core.arrivals.arrival import query_token


@pytest.mark.parametrize(
    ("query", "token"),
    [
        ("token=abc", "abc"),
        ("a=1&access_token=a%2Bb+c", "a+b c"),
        ("token=first&token=second", "first"),
        ("token=", ""),
        ("token", None),
        ("tokens=abc&xtoken=abc", None),
        ("", None),
        ("a=token=abc", None),
    ],
)
def test_a_token_is_taken_from_its_own_field_alone(query: str, token: str | None) -> None:
    assert query_token(query) == token
