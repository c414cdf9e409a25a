"""What is wrong with the body of a send is one sentence that names the field."""

import pytest

from mailonce.edge.http.send_body import read_send
from mailonce.errors import ParseError


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{}", "`to` is missing; see /docs"),
        (
            b'{"to": "a@b.example", "from": "c@d.example", "attachments": [{"name": "a"}]}',
            "`attachments[0].content` is missing; see /docs",
        ),
    ],
)
def test_a_field_that_is_missing_is_named(body: bytes, sentence: str) -> None:
    with pytest.raises(ParseError) as refused:
        read_send(body)

    assert str(refused.value) == sentence
