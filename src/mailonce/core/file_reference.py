"""`@FILE` where a secret is expected: the command line reads the file, nothing else does."""

_BEGINNINGS = ("@/", "@./", "@../", "@~")


def is_file_reference(value: str) -> bool:
    """Say whether a value names a file, as options of commands do."""
    return value.lstrip().startswith(_BEGINNINGS)
