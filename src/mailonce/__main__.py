"""The command `mailonce`."""

import gc
import sys

GC_OBJECTS = 50_000


def main() -> None:
    """Run the command line, or say which extra it needs."""
    # What is imported stays; looking for cycles in it again and again is a tenth of the start.
    gc.set_threshold(GC_OBJECTS)
    try:
        from mailonce.edge.cli.main import run  # noqa: PLC0415 - tells what is missing
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("mailonce"):
            raise
        sys.exit(
            f"mailonce: {error.name} is missing; install the server: pip install 'mailonce[server]'"
        )
    run()


if __name__ == "__main__":
    main()
