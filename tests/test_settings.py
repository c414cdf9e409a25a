"""What settings say of themselves."""

from pathlib import Path

import pytest

from mailonce.settings import Settings


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://me:secret@DB.example:5432/mail?sslmode=require", "//db.example/mail"),
        ("postgres://db.example/mail", "//db.example/mail"),
        ("postgresql://me@db.example:6432/mail", "//db.example:6432/mail"),
        ("postgresql:///mail?host=/run/postgresql&port=5433", "///run/postgresql:5433/mail"),
        ("postgresql://a:1,b:2/mail", "//a:1,b:2/mail"),
    ],
)
def test_a_database_is_named_without_user_password_and_options(url: str, place: str) -> None:
    assert Settings(database=url).database_place == f"postgresql:{place}"


def test_a_file_is_named_as_a_whole_whichever_link_leads_to_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    places = {Settings(data_dir=one).database_place for one in (tmp_path, tmp_path / "link")}

    assert places == {f"sqlite:///{tmp_path.resolve() / 'mailonce.db'}"}
