"""Compiles GEMMs of Composable Kernel, as the peers of our own, and writes launches beside them.

    python benchmarks/amd/composable_kernel.py FOLDER --ck DIR --hip DIR --clr DIR

The folders are checkouts of ROCm's composable_kernel, HIP and clr (of which headers are read). The
shapes are those of Composable Kernel's instances for large GEMMs, A by rows and B by columns. Needs
clang 22.
"""

from __future__ import annotations

import argparse
import struct
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

CLANG, TARGET = "clang++-22", "gfx942"
WIDE = (
    "256,256,256,32,8,8,32,32,4,4,S<4,64,1>,S<1,0,2>,S<1,0,2>,2,8,8,0,"
    "S<4,64,1>,S<1,0,2>,S<1,0,2>,2,8,8,0,1,1,S<1,16,1,16>,4"
)
SMALL = (
    "256,128,128,64,8,8,32,32,2,2,S<8,32,1>,S<1,0,2>,S<1,0,2>,2,8,8,0,"
    "S<8,32,1>,S<1,0,2>,S<1,0,2>,2,8,8,0,1,1,S<1,16,1,16>,4"
)
ONE, TWO = "kernel_gemm_xdl_cshuffle_v3", "kernel_gemm_xdl_cshuffle_v3_2lds"


class Instance(NamedTuple):
    """One GEMM: its element, tile, pipeline and the kernel that has so many arrays of LDS."""

    element: str
    shape: str
    scheduler: str
    version: str
    kernel: str
    groups: int  # that a compute unit is to hold
    tail: str


INSTANCES = {
    "ck_gemm_f16_256x256_v3": Instance("half_t", WIDE, "Intrawave", "v3", ONE, 1, "Full"),
    "ck_gemm_bf16_256x256_v3": Instance("bhalf_t", WIDE, "Intrawave", "v3", ONE, 1, "Full"),
    "ck_gemm_f16_128x128_v3": Instance("half_t", SMALL, "Intrawave", "v3", ONE, 2, "Full"),
    "ck_gemm_f16_128x128_inter": Instance("half_t", SMALL, "Interwave", "v1", ONE, 2, "Full"),
    "ck_gemm_f16_256x256_v4": Instance("half_t", WIDE, "Intrawave", "v4", TWO, 1, "Odd"),
    "ck_gemm_f16_256x256_v5": Instance("half_t", WIDE, "Intrawave", "v5", ONE, 1, "Full"),
}
SOURCE = """
#include <hip/hip_runtime.h>
#include "places.h"
#include "ck/ck.hpp"
#include "ck/tensor_operation/gpu/device/impl/device_gemm_xdl_cshuffle_v3.hpp"
using namespace ck;
template <index_t... Is> using S = Sequence<Is...>;
using Row = tensor_layout::gemm::RowMajor;
using Column = tensor_layout::gemm::ColumnMajor;
using Pass = tensor_operation::element_wise::PassThrough;
using E = %(element)s;
using Gemm = tensor_operation::device::DeviceGemm_Xdl_CShuffleV3<
    Row, Column, Row, E, E, E, float, E, Pass, Pass, Pass,
    tensor_operation::device::GemmSpecialization::Default, %(shape)s,
    BlockGemmPipelineScheduler::%(scheduler)s, BlockGemmPipelineVersion::%(version)s>::GridwiseGemm;
template __global__ void ck::%(kernel)s<
    Gemm, true, InMemoryDataOperationEnum::Set, %(groups)d, TailNumber::%(tail)s>(Gemm::Argument);
"""
# HIP's headers take the place of a work-item from a library of device code.
_PLACE = """
__device__ __attribute__((always_inline)) inline unsigned long __ockl_get_%s(unsigned axis) {
  return axis == 0 ? %s : axis == 1 ? %s : %s;
}
"""
_PLACES = {
    "local_id": "__builtin_amdgcn_workitem_id_{}()",
    "group_id": "__builtin_amdgcn_workgroup_id_{}()",
    "local_size": "__builtin_amdgcn_workgroup_size_{}()",
    "num_groups": "__builtin_amdgcn_grid_size_{0}() / __builtin_amdgcn_workgroup_size_{0}()",
}
_CONFIGURATION = "#pragma once\n#define CK_ENABLE_ALL_DTYPES\n#define CK_USE_XDL\n" + "".join(
    f"#define CK_ENABLE_{name}\n" for name in ("INT8", "FP8", "BF8", "FP16", "BF16", "FP32", "FP64")
)


def headers(folder: Path) -> None:
    """What the builds of HIP and of Composable Kernel make of their configuration."""
    places = "".join(
        _PLACE % (name, *(text.format(axis) for axis in "xyz")) for name, text in _PLACES.items()
    )
    multiplied = (
        "__device__ inline unsigned __ockl_mul_hi_u32(unsigned a, unsigned b) {\n"
        "  return (unsigned)(((unsigned long)a * b) >> 32);\n}\n"
    )
    (folder / "hip").mkdir(parents=True, exist_ok=True)
    (folder / "ck").mkdir(parents=True, exist_ok=True)
    version = "".join(f"#define HIP_VERSION_{name} 6\n" for name in ("MAJOR", "MINOR", "PATCH"))
    (folder / "hip/hip_version.h").write_text(version + "#define HIP_VERSION 60200000\n")
    (folder / "ck/config.h").write_text(_CONFIGURATION)
    (folder / "ck/version.h").write_text("#pragma once\n")
    text = f'#pragma once\nextern "C" {{\n{places}{multiplied}}}\n'
    (folder / "places.h").write_text(text)


def launch(shape: str) -> str:
    """A launch of two tiles by two, with a few steps along K."""
    threads, rows, columns, depth, *_ = (int(word) for word in shape.split(",")[:5])
    m, n, k = 2 * rows, 2 * columns, 8 * depth
    steps = k // 8  # of 8 elements, which a lane loads at once
    numbers = (m, n, k, k, k, n, 1, m, n, k, k, steps, steps, 2, 2)
    data = bytes(16) + struct.pack("<15i", *numbers)
    pointers = struct.pack("<QQQQ", 0x1000000000, 0x2000000000, 0x3000000000, 0)
    given = data.ljust(0x50, b"\0") + pointers
    return (
        f'grid: 4\nblock: {threads}\ndynamic_shared: 0\nparameters: [{{bytes: "{given.hex()}"}}]\n'
    )


def main() -> int:
    """All instances for gfx942."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    for name in ("ck", "hip", "clr"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    made = arguments.folder / "headers"
    headers(made)
    included = (
        made, arguments.ck / "include", arguments.ck / "library/include",
        arguments.hip / "include", arguments.clr / "hipamd/include",
    )  # fmt: skip
    for name, instance in INSTANCES.items():
        source = arguments.folder / f"{name}.hip"
        source.write_text(SOURCE % instance._asdict())
        assembly = arguments.folder / f"{name}_{TARGET}.s"
        command = [
            CLANG, "-x", "hip", f"--offload-arch={TARGET}", "--offload-device-only", "-S",
            "-O3", "-std=c++17", "-nogpuinc", "-nogpulib", "-w", "-D__HIP_PLATFORM_AMD__=1",
            "-D__AMDGCN_WAVEFRONT_SIZE=64", "-include", "__clang_hip_runtime_wrapper.h",
            *(f"-I{one}" for one in included), str(source), "-o", str(assembly),
        ]  # fmt: skip
        if subprocess.run(command, check=False).returncode:
            print(f"{name} is not compiled", file=sys.stderr)
            continue
        beside = assembly.with_suffix(".launch.yaml")
        beside.write_text(launch(instance.shape), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
