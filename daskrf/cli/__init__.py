"""The command line: parse, call one function of :mod:`daskrf`, print its report."""

from daskrf.cli.app import main

__all__ = ["main"]
