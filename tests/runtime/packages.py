"""Packages of small kernels, built once a process, and numbers of 16 bits without a library."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from titan.codegen.pipeline.build import BuildLimits
from titan.codegen.tile.load import load_tile, parse_tile
from titan.foundation.resources import root
from titan.package.produce import produce

_FOLDER = tempfile.TemporaryDirectory(prefix="titan-runtime-")
FOLDER = Path(_FOLDER.name)


def package(name: str) -> Path:
    """The folder of a package for sm_90a, built without the toolchain."""
    return package_for(name, "sm_90a")


@cache
def package_for(name: str, target: str) -> Path:
    """The folder of a package, built without the toolchain."""
    path = root("protocols") / "tiles" / f"{name}.yaml"
    tile = load_tile(path, target=target)
    return produce(tile, path.read_text(), FOLDER, BuildLimits(), with_toolchain=False).folder


@cache
def package_of(text: str) -> Path:
    """The folder of a package for sm_90a of a tile program, built without the toolchain."""
    tile = parse_tile(text, target="sm_90a")
    return produce(tile, text, FOLDER, BuildLimits(), with_toolchain=False).folder


def linked(folder: Path, *names: str) -> Path:
    """The folder, with these packages for sm_90a in it and no others."""
    for name in names:
        (folder / package(name).name).symlink_to(package(name))
    return folder


def bits(values: np.ndarray) -> np.ndarray:
    """Numbers as the bits of bf16, cut off."""
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def numbers(values: np.ndarray) -> np.ndarray:
    """The numbers of bits of bf16."""
    return (values.astype(np.uint32) << 16).view(np.float32)


def random_bits(*shape: int, seed: int = 0) -> np.ndarray:
    """Random numbers as bits of bf16."""
    return bits(np.random.default_rng(seed).standard_normal(shape))
