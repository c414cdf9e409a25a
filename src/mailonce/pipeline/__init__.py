"""The way of an event: receive → verify → parse → record."""
