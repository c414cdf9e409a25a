"""The settings file: found, and read as TOML in UTF-8, or refused in one sentence."""

import tomllib
from pathlib import Path
from typing import Any

from pydantic_settings import TomlConfigSettingsSource

from mailonce.errors import ConfigError

DEFAULT_FILE = Path("mailonce.toml")


def find_file(given: Path | None) -> Path | None:
    """Find the settings file; None where none was given, and nothing has the usual name.

    Raises: ConfigError where what has its name is no file: a start without it would be another one.
    """
    path = given or DEFAULT_FILE
    if path.is_file():
        return path
    if path.is_dir():
        raise ConfigError(
            f"{str(path)!r} is a folder, and no file; write the settings into a file of that name, "
            "or remove the folder"
        )
    if path.is_symlink():
        raise ConfigError(
            f"{str(path)!r} is a link to nothing; make the file that it names, or remove the link"
        )
    if given is not None:
        raise ConfigError(f"there is no file {str(given)!r}; make it, or leave --config out")
    return None


def read_toml(path: Path) -> dict[str, Any]:
    """Read a settings file; editors of Windows put a byte order mark in front of it.

    Raises: ConfigError, in one sentence.
    """
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8; save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}; correct that line") from error
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror}); let the user of this process read it"
        ) from error


class TomlFile(TomlConfigSettingsSource):
    """The settings of a file, for pydantic."""

    def _read_file(self, file_path: Any) -> dict[str, Any]:
        return read_toml(file_path)
