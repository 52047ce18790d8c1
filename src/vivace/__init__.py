"""vivace makes a self-hosted language model answer fast, and proves it."""

__version__ = "0.1.0"
