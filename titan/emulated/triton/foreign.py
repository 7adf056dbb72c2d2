"""Values of Triton and of the frameworks behind it: their packages have no types to check."""

from __future__ import annotations

from typing import Any, TypeAlias

Foreign: TypeAlias = Any
