"""mailonce: one email event, one outcome."""

__version__ = "0.1.0"
