"""Secrets in settings: what cannot be one is refused, with what to write instead."""

from typing import Any

from pydantic import ValidationInfo, field_validator

from mailonce.core.empty_secret import is_empty
from mailonce.core.file_reference import is_file_reference
from mailonce.core.one_line import is_one_line


def refuse_files(table: str, *names: str) -> Any:
    """Validate the settings `names` of a table of records: none of them is `@FILE`."""

    def check(value: str | list[str], info: ValidationInfo) -> str | list[str]:
        for one in [value] if isinstance(value, str) else value:
            refuse_file(one, f"MAILONCE_{table}__NAME__{str(info.field_name).upper()}")
        return value

    return field_validator(*names)(check)


def refuse_file(value: str, variable: str) -> None:
    """Refuse a secret that is `@FILE`, which was taken for the secret itself.

    Raises: ValueError that says how `variable` is given what the file has.
    """
    if is_file_reference(value):
        raise ValueError(
            "`@FILE` is for options on the command line, and is not read here; write the value "
            f'itself, or give it in a variable: {variable}="$(cat FILE)"'
        )


def check_admin_key(value: str | None) -> str | None:
    """Check the admin key.

    Raises: ValueError where it is empty, has several lines or is `@FILE`.
    """
    if value is None:
        return None
    if is_empty(value):
        raise ValueError("it is empty; write a key, or leave the setting out")
    if not is_one_line(value):
        raise ValueError("it has a line break; write it on one line")
    refuse_file(value, "MAILONCE_ADMIN_KEY")
    return value


def check_master_key(value: str | list[str]) -> str | list[str]:
    """Check the first master key; an old one may be anything, so that what it sealed can be read.

    Raises: ValueError where it is empty, has several lines, is `@FILE`, or is several in one text.
    """
    keys = [value] if isinstance(value, str) else value
    if keys and is_empty(keys[0]):
        raise ValueError("it is empty; write a key, or leave the setting out to have one made")
    if keys and not is_one_line(keys[0]):
        raise ValueError(
            "it has a line break; write it on one line, and several keys as a list, in a "
            'variable as MAILONCE_MASTER_KEY=\'["new", "old"]\'; there a key that was used '
            'with its line break is "old\\n"'
        )
    if keys:
        refuse_file(keys[0], "MAILONCE_MASTER_KEY")
    if isinstance(value, str) and "," in value:
        raise ValueError(
            "it has a comma; write several keys as a list, in a variable as "
            'MAILONCE_MASTER_KEY=\'["new", "old"]\', and so a key that has a comma itself'
        )
    return value
