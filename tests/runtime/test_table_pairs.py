"""Pairs of packages in the table for C++: the choice of `titan.Library`, and both launches.

Compiled with the headers of the driver alone and run against the fake driver; the second opinion
on launches is the plan of the runner with the workspace in its place.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.device import fake_gpu
from tests.runtime.packages import linked
from tests.runtime.test_launch_header import COMPILER, Array, compiled, hip_headers, launched
from titan.device import driver, gpu
from titan.device.plan import plan
from titan.runtime.library import Library
from titan.runtime.table import write_tables

pytestmark = pytest.mark.skipif(
    COMPILER is None or fake_gpu.include() is None, reason="no g++, or no cuda.h"
)
SPLIT = ("gemm", "gemm_split_k", "gemm_split_k_small_tiles", "sum_parts")
WORKSPACE = 0x900000
SHAPES = [
    (128, 128, 16384), (1024, 1024, 16384), (8192, 8192, 8192), (128, 96, 64), (256, 384, 4096),
    (128, 128, 128), (72, 200, 8192), (2048, 128, 65536),
]  # fmt: skip
LIBRARY = r"""
#include "packages_cuda.h"
namespace packages = titan::packages;
extern "C" {
void chosen(const char* kernel, const int64_t* sizes, int processors, const char** names,
            int64_t* numbers) {
  packages::Choice const one = packages::choose(kernel, "sm_90a", sizes, nullptr, processors);
  names[0] = one.first ? one.first->package.kernel : "";
  names[1] = one.second ? one.second->package.kernel : "";
  numbers[0] = one.parts;
  numbers[1] = one.workspace_bytes;
  numbers[2] = one.cycles;
}
int launch(const char* kernel, const int64_t* sizes, const titan::host::Array* arrays,
           CUdeviceptr workspace, int processors) {
  packages::Choice const one = packages::choose(kernel, "sm_90a", sizes, arrays, processors);
  if (!one.first) return -1;
  CUfunction first, second = nullptr;
  if (CUresult const error = one.first->package.find(nullptr, &first)) return error;
  if (one.second)
    if (CUresult const error = one.second->package.find(nullptr, &second)) return error;
  return packages::run(one, first, second, sizes, arrays, workspace, processors, nullptr);
}
}
"""


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    """The table of the packages of a product in parts, compiled; the fake driver; the folder."""
    folder = linked(tmp_path_factory.mktemp("table"), *SPLIT)
    write_tables(folder)
    fake = driver.typed(fake_gpu.build(folder), driver.FUNCTIONS, "the fake driver")
    made = compiled(  # its table is its own, not one with that of other tests in the process
        LIBRARY, folder, "-shared", "-fPIC", "-fno-gnu-unique", f"-I{folder}",
        str(folder / "libcuda.so"),
    )  # fmt: skip
    return ctypes.CDLL(str(made)), fake, folder


def chosen(library, shape, processors=132, kernel=b"gemm"):
    """Names, parts, bytes of the workspace and cycles of the choice in C++."""
    names, numbers = (ctypes.c_char_p * 2)(), (ctypes.c_int64 * 3)()
    library.chosen(kernel, (ctypes.c_int64 * 3)(*shape), processors, names, numbers)
    found = ", ".join(name.decode() for name in names if name)
    return found, *numbers


def unread(rows, k):
    return np.lib.stride_tricks.as_strided(np.zeros(8, np.uint16), (rows, k), (2 * k, 2))


def test_the_choice_and_its_estimate_are_those_of_the_library(native):
    library, _, folder = native
    python, split = Library(folder), 0
    for m, n, k in SHAPES:
        ranked = python.choices(unread(m, k), unread(n, k), kernel="gemm")
        best = next(one for one in ranked if one.rest is None)  # shares of rows: not in the table
        size = 4 * int(np.prod(best.between)) if best.chain else 0
        assert chosen(library, (m, n, k)) == (best.name, best.parts, size, best.cycles)
        split += best.chain is not None
    assert 3 <= split < len(SHAPES)
    assert chosen(library, (128, 128, 16383))[0] == ""
    assert chosen(library, (128, 128, 16384), kernel=b"gem")[0] == ""


def planned_launches(fake, monkeypatch, folder, steps):
    """What the runner passes to the driver for these packages, sizes and addresses."""
    monkeypatch.setattr(driver, "driver", lambda: fake)
    monkeypatch.setitem(sys.modules, "cupy", fake_gpu.cupy())
    letters = {"tensor_map": "m", "pointer": "p", "size": "n", "scalar": "n"}
    found = []
    for name, sizes, addresses in steps:
        manifest = json.loads((folder / f"{name}-sm_90a" / "manifest.json").read_text())
        kinds = "".join(letters[item["kind"]] for item in manifest["arguments"])
        planned = plan(manifest, sizes, 132)
        fake.fake_kinds(kinds.encode())
        module = gpu.GpuModule(Path("kernel.cu"), "sm_90a", cubin=b"\x7fELF")
        fake.fake_clear()
        function = module.function(planned.entry, planned.shared_bytes)
        gpu.Prepared(function, planned, addresses).run()
        found.append((kinds, launched(fake.fake_log())))
    return found


def test_both_launches_pass_what_the_runner_passes(native, monkeypatch):
    library, fake, folder = native
    m, n, k = 128, 256, 16384
    names, parts, size, _ = chosen(library, (m, n, k))
    first, second = names.split(", ")
    assert parts > 1 and size == 4 * parts * m * n
    fake.fake_fail(0)
    inputs = {"A": 0x10000, "B": 0x20000, "P": WORKSPACE}
    steps = [
        (first, {"M": m, "N": n, "K": k, "parts": parts}, inputs),
        (second, {"M": m, "N": n, "parts": parts}, {"P": WORKSPACE, "C": 0x30000}),
    ]
    (kinds_one, right_one), (kinds_two, right_two) = planned_launches(
        fake, monkeypatch, folder, steps
    )
    arrays = (Array * 3)(*(Array(address) for address in (0x10000, 0x20000, 0x30000)))
    sizes = (ctypes.c_int64 * 3)(m, n, k)
    fake.fake_kinds(f"{kinds_one};{kinds_two}".encode())
    fake.fake_clear()
    workspace = ctypes.c_uint64(WORKSPACE)
    assert library.launch(b"gemm", sizes, arrays, workspace, 132) == 0
    assert launched(fake.fake_log()) == [*right_one, *right_two]


def test_a_missing_or_crooked_workspace_launches_nothing(native):
    library, fake, _ = native
    arrays = (Array * 3)(*(Array(address) for address in (0x10000, 0x20000, 0x30000)))
    sizes = (ctypes.c_int64 * 3)(128, 128, 16384)
    fake.fake_fail(0)
    for address in (0, WORKSPACE + 8):
        fake.fake_clear()
        assert library.launch(b"gemm", sizes, arrays, ctypes.c_uint64(address), 132) == 1
        assert launched(fake.fake_log()) == []


DECODE = ("attention_decode_paged", "attention_decode_paged_parts", "attention_combine_parts")
CALLS = [(1, 8, 2048), (4, 8, 512), (128, 8, 512), (1, 8, 1), (3, 2, 700)]  # batch, heads, pages


@pytest.fixture(scope="module")
def decoding(tmp_path_factory):
    """The table of decoding in parts, which hands three workspaces on."""
    folder = linked(tmp_path_factory.mktemp("decoding"), *DECODE)
    write_tables(folder)
    fake = driver.typed(fake_gpu.build(folder), driver.FUNCTIONS, "the fake driver")
    made = compiled(
        LIBRARY, folder, "-shared", "-fPIC", "-fno-gnu-unique", f"-I{folder}",
        str(folder / "libcuda.so"),
    )  # fmt: skip
    return ctypes.CDLL(str(made)), fake, folder


def sizes_of_call(folder, batch, heads, most, ratio=8):
    """The sizes of a call in the order of the package that is asked for."""
    manifest = json.loads((folder / f"{DECODE[0]}-sm_90a" / "manifest.json").read_text())
    known = {"batch": batch, "kv_heads": heads, "ratio": ratio, "pages": batch * most}
    known["pages_most"] = most
    return known, [known[item["name"]] for item in manifest["parameters"]]


def of_decoding(library, sizes, processors=132):
    names, numbers = (ctypes.c_char_p * 2)(), (ctypes.c_int64 * 3)()
    given = (ctypes.c_int64 * len(sizes))(*sizes)
    library.chosen(DECODE[0].encode(), given, processors, names, numbers)
    return ", ".join(name.decode() for name in names if name), *numbers


def places_of(shapes):
    """Where each workspace begins, and the end of the last: multiples of 256 bytes."""
    offsets, end = [], 0
    for shape in shapes:
        offsets.append(-(-end // 256) * 256)
        end = offsets[-1] + 4 * int(np.prod(shape))
    return offsets, end


@pytest.mark.heavy
@pytest.mark.long
def test_three_workspaces_are_chosen_as_the_library_does(decoding):
    library, _, folder = decoding
    python, split = Library(folder), 0
    for batch, heads, most in CALLS:
        _, sizes = sizes_of_call(folder, batch, heads, most)
        cache = dense((batch * most, heads, 64, 128), np.uint16)
        arrays = [dense((batch, heads, 8, 128), np.uint16), cache, cache]
        table, lengths = dense((batch, most), np.int32), dense((batch,), np.int32)
        best = python.choices(*arrays, table, lengths, kernel=DECODE[0])[0]
        _, length = places_of(best.between) if best.chain else (None, 0)
        assert of_decoding(library, sizes) == (best.name, best.parts, length, best.cycles)
        split += best.chain is not None
    assert 2 <= split < len(CALLS)


def dense(shape, dtype):
    """An array of this shape whose elements nobody reads."""
    size = np.dtype(dtype).itemsize
    strides = [size * int(np.prod(shape[place + 1 :])) for place in range(len(shape))]
    return np.lib.stride_tricks.as_strided(np.zeros(8, dtype), shape, strides)


def test_three_workspaces_are_handed_from_launch_to_launch(decoding, monkeypatch):
    library, fake, folder = decoding
    known, sizes = sizes_of_call(folder, 3, 2, 700, ratio=5)
    names, parts, length, _ = of_decoding(library, sizes)
    assert names == ", ".join(DECODE[1:]) and parts > 1
    shapes = [(parts, 3, 5, 2 * 128), (parts, 3, 2, 5), (parts, 3, 2, 5)]
    offsets, end = places_of(shapes)
    assert length == end and offsets[1] % 256 == 0 < 4 * int(np.prod(shapes[1])) % 256
    between = dict(zip(("P", "top", "total"), (WORKSPACE + one for one in offsets), strict=True))
    manifest = json.loads((folder / f"{DECODE[0]}-sm_90a" / "manifest.json").read_text())
    arrays = {item["name"]: 0x10000 * (1 + n) for n, item in enumerate(manifest["tensors"])}
    combined = {"batch": 3, "ratio": 5, "kv_heads": 2, "parts": parts}
    (output,) = (item["name"] for item in manifest["tensors"] if item["output"])
    second = json.loads((folder / f"{DECODE[2]}-sm_90a" / "manifest.json").read_text())
    (written,) = (item["name"] for item in second["tensors"] if item["output"])
    combined = {item["name"]: combined[item["name"]] for item in second["parameters"]}
    steps = [
        (DECODE[1], {**known, "parts": parts}, {**arrays, **between}),
        (DECODE[2], combined, {**between, written: arrays[output]}),
    ]
    fake.fake_fail(0)
    (kinds_one, right_one), (kinds_two, right_two) = planned_launches(
        fake, monkeypatch, folder, steps
    )
    given = (Array * len(arrays))(*(Array(address) for address in arrays.values()))
    fake.fake_kinds(f"{kinds_one};{kinds_two}".encode())
    fake.fake_clear()
    numbers = (ctypes.c_int64 * len(sizes))(*sizes)
    asked = DECODE[0].encode()
    assert library.launch(asked, numbers, given, ctypes.c_uint64(WORKSPACE), 132) == 0
    assert launched(fake.fake_log()) == [*right_one, *right_two]
    for address in (0, WORKSPACE + 8):
        fake.fake_clear()
        assert library.launch(asked, numbers, given, ctypes.c_uint64(address), 132) == 1
        assert launched(fake.fake_log()) == []


@pytest.mark.skipif(hip_headers() is None, reason="no headers of HIP")
def test_the_table_for_hip_compiles_with_choices(tmp_path):
    from tests.runtime.packages import package_for

    folder = package_for("gemm_small_tiles_gfx942", "gfx942")
    (tmp_path / folder.name).symlink_to(folder)
    write_tables(tmp_path)
    program = compiled(
        '#include "packages_hip.h"\n#include <cstdio>\n'
        "hipError_t hipModuleGetFunction(hipFunction_t*, hipModule_t, const char*) "
        "{ return hipSuccess; }\n"
        "hipError_t hipModuleLaunchKernel(hipFunction_t, unsigned, unsigned, unsigned, unsigned,\n"
        "  unsigned, unsigned, unsigned, hipStream_t, void**, void**) { return hipSuccess; }\n"
        "int main() {\n  std::int64_t const sizes[] = {200, 72, 136};\n"
        "  titan::host::Array const arrays[] = {{(void*)16, {}}, {(void*)32, {}},\n"
        "                                       {(void*)48, {}}};\n"
        '  auto const one = titan::packages::choose("gemm_small_tiles_gfx942", "gfx942", sizes,\n'
        "                                           arrays, 304);\n"
        "  if (!one.first || one.second) return 1;\n"
        "  return titan::packages::run(one, nullptr, nullptr, sizes, arrays, nullptr, 304,\n"
        "                              nullptr);\n"
        "}\n",
        tmp_path, "-D__HIP_PLATFORM_AMD__", "-isystem", str(hip_headers()), f"-I{tmp_path}",
        "-Wno-unused-parameter",
    )  # fmt: skip
    subprocess.run([program], check=True)
