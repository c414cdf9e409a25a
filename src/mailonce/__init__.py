"""mailonce: one email event, one outcome."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mailonce.core.deliveries.delivery_key import delivery_key

if TYPE_CHECKING:
    from mailonce.client import AsyncClient, Client, WaitTimeoutError
    from mailonce.handlers import Handlers, Permanent

__all__ = [
    "AsyncClient",
    "Client",
    "Handlers",
    "Permanent",
    "WaitTimeoutError",
    "__version__",
    "delivery_key",
]
__version__ = "0.1.0"

# Imported when they are asked for: handlers need parts that only a server has.
_LAZY = {
    "AsyncClient": "mailonce.client",
    "Client": "mailonce.client",
    "Handlers": "mailonce.handlers",
    "Permanent": "mailonce.handlers",
    "WaitTimeoutError": "mailonce.client",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_LAZY[name]), name)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("mailonce"):
            raise
        raise ImportError(
            f"{error.name} is missing; install the server: pip install 'mailonce[server]'"
        ) from error
