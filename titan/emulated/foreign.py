"""Values of Triton and of other frameworks, whose packages have no types to check."""

from __future__ import annotations

from typing import Any, TypeAlias

Foreign: TypeAlias = Any
