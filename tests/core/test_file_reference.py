"""What is taken for the name of a file where a secret is expected."""

import pytest

from mailonce.core.file_reference import is_file_reference


@pytest.mark.parametrize("value", ["@/run/secrets/mg", "@./mg", "@../mg", "@~/mg", " @/run/mg"])
def test_a_path_behind_an_at_sign_names_a_file(value: str) -> None:
    assert is_file_reference(value)


@pytest.mark.parametrize("value", ["", "@", "@word", "user:@/word", "/run/secrets/mg", "whsec_a/b"])
def test_a_secret_with_such_signs_in_it_is_none(value: str) -> None:
    assert not is_file_reference(value)
