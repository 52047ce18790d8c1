"""The wire: event streams, HTTP/1.1, one exchange on one socket, its record."""
