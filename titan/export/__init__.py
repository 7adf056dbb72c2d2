"""Sync programs in the languages of other tools: Promela for Spin."""

from titan.export.names import ExportError
from titan.export.promela import to_promela, to_promela_batch
from titan.export.spin import (
    SpinFailedError,
    SpinMissingError,
    SpinResult,
    run_spin,
    run_spin_batch,
    spin_available,
)

__all__ = [
    "ExportError",
    "SpinFailedError",
    "SpinMissingError",
    "SpinResult",
    "run_spin",
    "run_spin_batch",
    "spin_available",
    "to_promela",
    "to_promela_batch",
]
