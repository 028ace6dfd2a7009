"""Types of what is stored as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

State: TypeAlias = Mapping[str, Any]
"""What rebuilds an object of some class, as JSON holds it; only this class knows the types of its entries."""
