"""Where the settings of a source, route or sender come from."""

API = "api"
FILE = "file"
APP = "app"
# A secret that stands in the file is changed there.
SEALED_BY_FILE = "file, and its secret"
OF_FILE = (FILE, SEALED_BY_FILE)
# Why a record is off that the file no longer has; whoever changes it then, or switches it on,
# owns it.
NOT_IN_FILE = "it is no longer in the settings file"


def off_when_put(off: str | None) -> str | None:
    """Say whether a record stays off whose settings are given again, and why."""
    return None if off == NOT_IN_FILE else off


def origin_when_put(origin: str, *, stored: str | None, off: str | None) -> str:
    """Say whose a record is that is put by `origin`; `stored` and `off` are how it stands.

    A change over the API takes nothing from the file: what is taken out of it must go off.
    """
    if origin == API and stored is not None and stored in OF_FILE and off != NOT_IN_FILE:
        return stored
    return origin
