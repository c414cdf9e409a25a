"""mailonce: one email event, one outcome."""

from mailonce.core.delivery_key import delivery_key

__all__ = ["__version__", "delivery_key"]
__version__ = "0.1.0"
