"""Adapters: the gate in the terms of a framework."""
