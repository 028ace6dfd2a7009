"""Paths, local or in an object store: read, write, sync, rename and list what is there."""
