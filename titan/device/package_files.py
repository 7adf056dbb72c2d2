"""The files of a package as they lie in its folder: the manifest, held against the certificate.

Whoever runs a package takes its manifest from here. It is refused where it is none, and where the
certificate beside it names another file: one that was changed by hand, or is left over of another
build. That a package is what its certificate says, `titan gate` derives; without a certificate
what lies there is taken as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from titan.codegen.tile.manifest import Manifest
from titan.foundation.errors import UserError

MANIFEST = "manifest.json"
CERTIFICATE = "certificate.json"
_KEYS = (
    "arguments", "header", "kernel", "launch", "parameters", "rings", "source", "target", "tensors",
)  # fmt: skip  # what every run needs


class BadPackage(UserError):
    """A folder does not hold a package, or not the one that its certificate names."""


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a package. Raises BadPackage."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        raise BadPackage(f"{folder}: {MANIFEST}: {reason}") from None
    except json.JSONDecodeError as error:
        where = f"{folder / MANIFEST}:{error.lineno}:{error.colno}"
        raise BadPackage(f"{where}: this is not JSON") from None
    except (ValueError, RecursionError):
        raise BadPackage(f"{folder / MANIFEST}: this is not JSON") from None
    if not isinstance(manifest, dict):
        raise BadPackage(f"{folder / MANIFEST}: this is no manifest of a package")
    missing = [key for key in _KEYS if key not in manifest]
    if missing:
        raise BadPackage(f"{folder / MANIFEST}: the manifest lacks `{missing[0]}`")
    check_unaltered(folder, [MANIFEST])
    return cast("Manifest", manifest)


def check_unaltered(folder: Path, names: Sequence[str]) -> None:
    """Files have the digests of the certificate, where there is one. Raises BadPackage."""
    try:
        stated = json.loads((folder / CERTIFICATE).read_text(encoding="utf-8"))["files"]
        digests = {name: str(stated[name]) for name in names}
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise BadPackage(f"{folder}: {CERTIFICATE} is none of this package") from None
    for name, digest in digests.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            raise BadPackage(
                f"{folder}: {name} is not the file that {CERTIFICATE} names; build the package "
                f"again, or remove {CERTIFICATE} to run what nobody has verified"
            )
