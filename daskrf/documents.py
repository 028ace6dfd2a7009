"""Types of what is stored as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypedDict

OfClass = TypedDict("OfClass", {"class": str})
"""The state of an object that is rebuilt by the name of its class."""

JsonObject: TypeAlias = Mapping[str, Any]
"""A JSON object as it comes from a file of any kind, which says what it is by its entries."""
