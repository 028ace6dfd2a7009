"""Searching a make-on-demand space, whose products are not listed."""
