"""launch.h and the table of packages, compiled by a C++ compiler and compared with the runtime.

The second opinion is Python's: expressions with `titan.device.expressions`, launches with what the
runner passes to the same fake driver, refusals with `plan`, the choice with `titan.Library`.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.device import fake_gpu
from tests.runtime.packages import linked, package
from titan.cli.main import run
from titan.codegen.emit.host import field, launch_header, number
from titan.device import driver, gpu
from titan.device.expressions import BadExpression, evaluate
from titan.device.plan import Unlaunchable, plan
from titan.foundation.resources import root, template
from titan.runtime.arrays import ArrayFacts, CallError, Place
from titan.runtime.binding import strides_of
from titan.runtime.library import Library, _dense
from titan.runtime.table import tables, write_tables
from titan.validate.compare.compile import nvcc

COMPILER = shutil.which("g++")
pytestmark = pytest.mark.skipif(
    COMPILER is None or fake_gpu.include() is None, reason="no g++, or no cuda.h"
)
HERE = ArrayFacts(0, (), (), "f32", Place.CUDA, 0, True, None)
STRICT = ("-std=c++11", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-pedantic")
KERNELS = ("gemm_small_tiles", "gemm_cluster2", "convolution", "gemm", "sum_parts", "rms_norm")
LIBRARY = r"""
#include "packages_cuda.h"
using titan::packages::rows;
extern "C" {
const char* refusal(int row, const int64_t* sizes) {
  return rows()[row].package.refusal(sizes, nullptr);
}
int launch(int row, const int64_t* sizes, const titan::host::Array* arrays, int processors) {
  CUfunction kernel;
  if (CUresult const error = rows()[row].package.find(nullptr, &kernel)) return error;
  return rows()[row].package.launch(kernel, sizes, arrays, processors, nullptr);
}
const char* picked(const char* kernel, const int64_t* sizes, int processors) {
  titan::packages::Row const* row =
      titan::packages::pick(kernel, "sm_90a", sizes, nullptr, processors);
  return row ? row->package.kernel : "";
}
}
"""


class Array(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("strides", ctypes.c_int64 * 4)]


def compiled(source: str, folder: Path, *more: str) -> Path:
    """A program or library of C++11 without warnings."""
    text, made = folder / "host.cpp", folder / "host"
    text.write_text(source)
    flags = ["-O0", *STRICT, "-isystem", str(fake_gpu.include()), *more]
    done = subprocess.run(
        [str(COMPILER), str(text), *flags, "-o", str(made)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return made


def random_expression(chance: random.Random, depth: int) -> str:
    if depth == 0 or chance.random() < 0.15:
        return chance.choice(["a", "b", "c", str(chance.choice([0, 1, 2, 7, 128, 2**30]))])
    left, right = (random_expression(chance, depth - 1) for _ in range(2))
    operator = chance.choice(
        ["+", "-", "*", "*", "//", "//", "%", "<", "<=", "==", "!=", ">=", ">", "and", "or",
         "min", "max", "not"]
    )  # fmt: skip
    if operator in ("min", "max"):
        return f"{operator}({left}, {right})"
    return f"(not ({left}))" if operator == "not" else f"({left} {operator} {right})"


def test_expressions_have_the_same_values(tmp_path):
    """Floors of negative numbers, short circuits, and the unknown beyond 62 bits."""
    chance = random.Random(5)
    texts = [random_expression(chance, 4) for _ in range(150)]
    values = [0, 1, 3, 2**20 + 1, 2**30, 2**31 - 1]
    environments = [{name: chance.choice(values) for name in "abc"} for _ in texts]
    lines = []
    for text, names in zip(texts, environments, strict=True):
        spelled = {name: f"Number({value}LL)" for name, value in names.items()}
        lines.append(f"  show({number(text, spelled)});")
    common = template("host", "common.h.j2").render(amd=True, api=dict.fromkeys(
        ("address", "result", "module", "function", "stream"), "void*"))  # fmt: skip
    program = compiled(
        f"#include <cstdint>\n#include <cstdio>\n{common}\nusing titan::host::Number;\n"
        "static void show(Number n) {\n"
        '  if (n.known()) std::printf("%lld\\n", (long long)n.value());\n'
        '  else std::printf("unknown\\n");\n}\n'
        "int main() {\n" + "\n".join(lines) + "\n}\n",
        tmp_path,
    )  # fmt: skip
    shown = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    expected = []
    for text, names in zip(texts, environments, strict=True):
        try:
            expected.append(str(evaluate(text, names)))
        except BadExpression:
            expected.append("unknown")
    assert shown == expected
    assert 5 < expected.count("unknown") < 100
    assert any(value.startswith("-") for value in expected)


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    """The table of some packages as a library on the fake driver; that driver; manifests."""
    folder = linked(tmp_path_factory.mktemp("table"), *KERNELS)
    assert [path.name for path in write_tables(folder)] == ["packages_cuda.h"]
    fake = driver.typed(fake_gpu.build(folder), driver.FUNCTIONS, "the fake driver")
    made = compiled(LIBRARY, folder, "-shared", "-fPIC", f"-I{folder}", str(folder / "libcuda.so"))
    library = ctypes.CDLL(str(made))
    library.refusal.restype = library.picked.restype = ctypes.c_char_p
    manifests = [
        json.loads((folder / f"{name}-sm_90a" / "manifest.json").read_text())
        for name in sorted(KERNELS)
    ]
    return library, fake, manifests


def sizes_in(manifest, sizes):
    order = [sizes[item["name"]] for item in manifest["parameters"]]
    return (ctypes.c_int64 * max(1, len(order)))(*order)


def expects(fake, manifest):
    """Let the fake driver read the arguments of this kernel: by others' it would read past them."""
    letters = {"tensor_map": "m", "pointer": "p", "size": "n", "scalar": "n"}
    fake.fake_fail(0)
    fake.fake_kinds("".join(letters[item["kind"]] for item in manifest["arguments"]).encode())


def launched(log: bytes) -> list[str]:
    return [line for line in log.decode().splitlines() if line.startswith(("map ", "launch "))]


@pytest.mark.parametrize("row", range(len(KERNELS)))
def test_a_launch_passes_what_the_runner_passes(native, monkeypatch, row):
    library, fake, manifests = native
    manifest = manifests[row]
    sizes = {item["name"]: 72 + 8 * place for place, item in enumerate(manifest["parameters"])}
    planned = plan(manifest, sizes, 132)
    addresses = {item.name: 0x10000 * (n + 1) for n, item in enumerate(planned.tensors)}
    arrays = (Array * len(addresses))(*(Array(address) for address in addresses.values()))
    expects(fake, manifest)
    monkeypatch.setattr(driver, "driver", lambda: fake)
    monkeypatch.setitem(sys.modules, "cupy", fake_gpu.cupy())
    module = gpu.GpuModule(Path("kernel.cu"), "sm_90a", cubin=b"\x7fELF")
    fake.fake_clear()
    gpu.Prepared(module.function(planned.entry, planned.shared_bytes), planned, addresses).run()
    right = launched(fake.fake_log())
    fake.fake_clear()
    assert library.launch(row, sizes_in(manifest, sizes), arrays, 132) == 0
    assert launched(fake.fake_log()) == right
    assert f"function {manifest['entry']} of" in fake.fake_log().decode()
    assert f"attribute 8 = {planned.shared_bytes}" in fake.fake_log().decode()


@pytest.mark.parametrize("row", range(len(KERNELS)))
def test_what_is_refused_is_what_the_plan_refuses(native, row):
    library, fake, manifests = native
    manifest, chance = manifests[row], random.Random(row)
    expects(fake, manifest)
    names = [item["name"] for item in manifest["parameters"]]
    arrays = (Array * 8)(*(Array(0x1000 * (n + 1)) for n in range(8)))
    values = [-1, 0, 1, 4, 8, 72, 129, 4096, 2**20, 2**28, 2**30, 2**30 + 8, 2**31, 2**40]
    refused = 0
    for _ in range(200):
        sizes = {name: chance.choice(values) for name in names}
        try:
            plan(manifest, sizes, 132)
            right = True
        except Unlaunchable:
            right = False
        given = sizes_in(manifest, sizes)
        assert (library.launch(row, given, arrays, 132) == 0) is right, sizes
        words = library.refusal(row, given)
        assert not (words and right), (sizes, words)
        refused += words is not None
    assert refused > 50


def test_strides_and_addresses_of_arrays(native):
    library, fake, manifests = native
    row = sorted(KERNELS).index("gemm")
    manifest = manifests[row]
    sizes = sizes_in(manifest, {"M": 40, "N": 24, "K": 72})

    def result(**changed):
        arrays = {name: Array(0x1000) for name in "ABC"} | changed
        return library.launch(row, sizes, (Array * 3)(*arrays.values()), 132)

    expects(fake, manifest)
    fake.fake_clear()
    assert result(A=Array(0x1000, (96, 0, 0, 0))) == 0
    assert "(72 of 64 step 1) (40 of" in fake.fake_log().decode()
    assert "stride 192 " in fake.fake_log().decode()
    assert result(A=Array(0x1000, (97, 0, 0, 0))) == 1  # CUDA_ERROR_INVALID_VALUE
    assert result(A=Array(0x1000, (-96, 0, 0, 0))) == 1
    assert result(A=Array(0x1008)) == 1
    assert result(C=Array(0)) == 1


@pytest.mark.parametrize("row", range(len(KERNELS)))
def test_where_arrays_may_begin_is_what_the_runner_says(native, row):
    """Tensor maps take multiples of 16 bytes, pointers those of an element."""
    library, fake, manifests = native
    manifest = manifests[row]
    sizes = {item["name"]: 72 + 8 * place for place, item in enumerate(manifest["parameters"])}
    tensors = plan(manifest, sizes, 132).tensors
    expects(fake, manifest)
    taken = []
    for off in tensors:
        for offset in range(17):
            places = [0x10000 * (n + 1) + offset * (one is off) for n, one in enumerate(tensors)]
            arrays = {
                one.name: replace(_dense(one.shape, one.dtype, HERE), address=address)
                for one, address in zip(tensors, places, strict=True)
            }
            try:
                strides_of(manifest, arrays)
                right = True
            except CallError:
                right = False
            given = (Array * len(places))(*(Array(address) for address in places))
            done = library.launch(row, sizes_in(manifest, sizes), given, 132) == 0
            assert done is right, (off.name, offset)
            taken.append((off.name, offset) if right else None)
    assert (tensors[0].name, 16) in taken and (tensors[0].name, 8) not in taken
    if manifest["kernel"] == "rms_norm":
        own = [offset for name, offset in filter(None, taken) if name == "weight"]
        assert own == [0, 4, 8, 12, 16]


def test_the_choice_is_that_of_the_library(native, tmp_path):
    library, _, _ = native
    python = Library(linked(tmp_path, *KERNELS))
    shapes = [(16, 24, 64), (128, 128, 64), (2048, 2048, 64), (8192, 8192, 8192), (64, 4096, 512)]
    import numpy

    for m, n, k in shapes:
        one = numpy.zeros(1, numpy.uint16)
        a, b = (
            numpy.lib.stride_tricks.as_strided(one, (rows, k), (2 * k, 2)) for rows in (m, n)
        )  # never read
        ranked = python.choices(a, b, kernel="gemm")
        best = next(one.name for one in ranked if one.rest is None)
        picked = library.picked(b"gemm", (ctypes.c_int64 * 3)(m, n, k), 132).decode()
        assert picked == best, f"{m} x {n} x {k}"
    assert library.picked(b"gemm", (ctypes.c_int64 * 3)(16, 24, 63), 132) == b""
    assert library.picked(b"gem", (ctypes.c_int64 * 3)(16, 24, 64), 132) == b""


def test_a_field_of_c_plus_plus_is_no_keyword():
    manifest = json.loads((package("gemm_small_tiles") / "manifest.json").read_text())
    text = json.dumps(manifest).replace('"N', '"int').replace("(N", "(int").replace("- N", "- int")
    made = launch_header(json.loads(text))
    assert "std::int64_t int_;" in made and "sizes.int_ < 1" in made


HEADERS = ("cuda.h", "cstddef", "cstdint", "cstdio", "cassert", "cerrno", "cmath")


@pytest.mark.parametrize("standard", ["c++11", "gnu++17", "gnu++20"])
def test_no_field_of_c_plus_plus_is_a_macro_or_word_of_any_standard(standard, tmp_path):
    """All macros that the compiler and common headers define, and what merely looks like one."""
    text = "".join(f"#include <{name}>\n" for name in HEADERS)
    command = [COMPILER, "-x", "c++", f"-std={standard}", f"-I{fake_gpu.include()}"]
    listed = subprocess.run(
        [*command, "-dM", "-E", "-"], input=text, capture_output=True, text=True, check=True
    ).stdout
    macros = {line.split()[1].partition("(")[0] for line in listed.splitlines()}
    names = [name for name in sorted(macros) if len(name) <= 64 and not name.startswith("_")]
    names += ["concept", "thread_local", "co_await", "static_cast", "M", "k_tile", "heads", "_x"]
    names += ["Q", "q", "Index", "A1", "KV", "_", "__", "a_", "a__", "int", "int_", "int__", "EOF_"]
    fields = [field(name) for name in names]
    assert len(set(fields)) == len(set(names)) > 500
    assert not set(fields) & macros
    kept = ("M", "k_tile", "heads", "_x", "Q", "q", "Index", "A1", "KV", "a_")
    assert all(field(name) == name for name in kept)
    source = tmp_path / "fields.cpp"
    inside = "".join(f"  long {name};\n" for name in fields)
    source.write_text(f"{text}struct Fields {{\n{inside}}};\n")
    subprocess.run([*command, "-fsyntax-only", str(source)], check=True)


def test_the_command_writes_the_table(tmp_path, capsys):
    assert run(["table", str(tmp_path)]) == 2
    assert "no packages" in capsys.readouterr().err
    shutil.copytree(package("gemm_small_tiles"), tmp_path / "one")
    assert run(["table", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip().endswith("packages_cuda.h")
    assert '#include "one/launch.h"' in (tmp_path / "packages_cuda.h").read_text()
    shutil.copytree(package("gemm_small_tiles"), tmp_path / "two")
    assert run(["table", str(tmp_path)]) == 2
    assert "one and two are two packages of one kernel" in capsys.readouterr().err


def hip_headers() -> Path | None:
    """The headers of HIP: of ROCm, or those that Triton carries."""
    known = [Path(os.environ["ROCM_PATH"]) / "include"] if "ROCM_PATH" in os.environ else []
    if (spec := find_spec("triton")) is not None and spec.submodule_search_locations:
        known.append(Path(spec.submodule_search_locations[0]) / "backends/amd/include")
    return next((one for one in known if (one / "hip" / "hip_runtime_api.h").is_file()), None)


FAKE_HIP = r"""
#include "packages_hip.h"
#include <cstdio>
hipError_t hipModuleGetFunction(hipFunction_t* f, hipModule_t, const char* name) {
  std::printf("%s\n", name);
  *f = nullptr;
  return hipSuccess;
}
hipError_t hipModuleLaunchKernel(hipFunction_t, unsigned x, unsigned, unsigned, unsigned bx,
                                 unsigned, unsigned, unsigned shared, hipStream_t, void** words,
                                 void** extra) {
  std::printf("%u %u %u %d | %zx %zx %zx %d %d %d\n", x, bx, shared, extra != nullptr,
              *(size_t*)words[0], *(size_t*)words[1], *(size_t*)words[2], *(int*)words[3],
              *(int*)words[4], *(int*)words[5]);
  return hipSuccess;
}
int main() {
  titan::host::Array const arrays[] = {{(void*)16, {}}, {(void*)32, {}}, {(void*)48, {}}};
  std::int64_t const sizes[] = {200, 72, 136}, none[] = {200, 72, 0};
  titan::host::Package const& package = titan::packages::rows()[0].package;
  hipFunction_t kernel;
  if (package.find(nullptr, &kernel)) return 1;
  if (package.launch(kernel, sizes, arrays, 304, nullptr)) return 1;
  return package.launch(kernel, none, arrays, 304, nullptr) != hipErrorInvalidValue;
}
"""


@pytest.mark.skipif(hip_headers() is None, reason="no headers of HIP")
def test_a_launch_by_hip(tmp_path):
    from tests.runtime.packages import package_for

    folder = package_for("gemm_small_tiles_gfx942", "gfx942")
    (tmp_path / folder.name).symlink_to(folder)
    assert list(tables(tmp_path)) == ["packages_hip.h"]
    write_tables(tmp_path)
    program = compiled(
        FAKE_HIP, tmp_path, "-D__HIP_PLATFORM_AMD__", "-isystem", str(hip_headers()),
        f"-I{tmp_path}", "-Wno-unused-parameter",
    )  # fmt: skip
    shown = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    manifest = json.loads((folder / "manifest.json").read_text())
    planned = plan(manifest, {"M": 200, "N": 72, "K": 136}, 304)
    assert shown.splitlines() == [
        manifest["entry"],
        f"{planned.grid} {planned.block} {planned.shared_bytes} 0 | 10 20 30 200 72 136",
    ]


@pytest.mark.heavy  # nvcc, CMake, and a launch on the emulated device
@pytest.mark.skipif(nvcc() is None or shutil.which("cmake") is None, reason="no nvcc or no CMake")
def test_the_example_computes_on_the_emulated_device(tmp_path, capfd):
    assert run(["cuda-flags"]) == 0
    library = capfd.readouterr().out.split()[-1]  # as CMakeLists.txt says
    for name in ("gemm", "gemm_small_tiles"):
        shutil.copytree(package(name), tmp_path / package(name).name)
    assert run(["table", str(tmp_path)]) == 0
    made = tmp_path / "cpp"
    source = root("examples") / "cpp"
    subprocess.run(
        ["cmake", "-S", str(source), "-B", str(made), f"-DTITAN_PACKAGES={tmp_path}",
         f"-DTITAN_DRIVER={library}"],
        check=True,
    )  # fmt: skip
    subprocess.run(["cmake", "--build", str(made)], check=True)
    assert run(["run", "--check", "off", str(made / "gemm")]) == 0
    assert "gemm_small_tiles: right" in capfd.readouterr().out
    assert run(["run", "--check", "off", str(made / "gemm"), "40", "24", "63"]) == 1
    assert "no package: the kernel needs K % 8 == 0" in capfd.readouterr().err
