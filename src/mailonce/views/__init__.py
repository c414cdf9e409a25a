"""What can be seen: read-only, paged, in the words of the public contract."""
