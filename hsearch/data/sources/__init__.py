"""Data sets; the file name is the registry, each file yields records."""
