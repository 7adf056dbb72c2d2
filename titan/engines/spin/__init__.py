"""Sync programs in the languages of other tools: Promela for Spin."""

from titan.engines.spin.names import ExportError
from titan.engines.spin.promela import to_promela, to_promela_batch
from titan.engines.spin.spin import (
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
