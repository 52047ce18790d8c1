"""Find a model, read its shape, make other GGUF types, keep a cache."""
