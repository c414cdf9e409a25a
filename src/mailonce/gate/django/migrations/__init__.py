"""Migrations of the gate's tables."""
