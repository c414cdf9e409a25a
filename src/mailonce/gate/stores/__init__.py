"""Stores: the app's own database, through the driver it already uses."""
