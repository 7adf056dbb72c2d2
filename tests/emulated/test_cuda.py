"""CUDA programs on the emulated device: images, the library, programs with their exit codes."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.emulated.test_machine import SCALE
from titan.cli.main import run
from titan.emulated.cuda.fatbin import LZ4, MAGIC, ZSTD, entries, ptx_of
from titan.emulated.cuda.library import NAME, library
from titan.emulated.machine import LaunchQueue
from titan.emulated.memory import OwnMemory
from titan.emulated.modules import LoadedModule, load, made_resident
from titan.emulated.settings import CheckMode, EmulationSettings
from titan.foundation.errors import UserError
from titan.isa.numbers.device import LaunchShape
from titan.validate.compare.compile import nvcc

COMPILER = shutil.which("cc")
without_cc = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


def fatbin(*items: tuple[int, int, int, bytes, int]) -> bytes:
    """A fatbin of (kind, architecture, flags, stored bytes, bytes when expanded)."""
    body = b""
    for kind, architecture, flags, stored, size in items:
        padded = stored + bytes(-len(stored) % 8)
        body += struct.pack("<HHIQI", kind, 0x101, 64, len(padded), len(stored))
        body += struct.pack("<IHHIIIQQQ", 0, 7, 8, architecture, 0, 0, flags, 0, size) + padded
    return struct.pack("<IHHQ", MAGIC, 1, 16, len(body)) + body


def test_ptx_comes_out_of_a_fatbin():
    old, new, newer = (b".version 8.%d\n" % n for n in (1, 2, 3))
    image = fatbin((1, 80, 0, old, len(old)), (2, 90, 0, b"cubin", 5), (1, 90, 0, new, len(new)),
                   (1, 100, 0, newer, len(newer)))  # fmt: skip
    assert ptx_of(image, 90) == new.decode()
    assert ptx_of(image, 100) == newer.decode()
    assert [item.kind for item in entries(image)] == [1, 2, 1, 1]
    assert ptx_of(new + b"\0", 90) == new.decode()


@pytest.mark.parametrize(("flag", "package"), [(ZSTD, "zstandard"), (LZ4, "lz4.block")])
def test_compressed_ptx_is_expanded(flag, package):
    module = pytest.importorskip(package, reason=f"{package} is not installed (extra `cuda`)")
    text = b".version 8.7\n" * 50
    if flag == ZSTD:
        stored = module.ZstdCompressor().compress(text)
    else:
        stored = module.compress(text, store_size=False)
    assert ptx_of(fatbin((1, 90, flag, stored, len(text))), 90) == text.decode()


@pytest.mark.parametrize(
    ("image", "part"),
    [
        (b"\x7fELF", "titan cuda-flags"),
        (fatbin((2, 90, 0, b"cubin", 5)), "titan cuda-flags"),
        (fatbin((1, 100, 0, b"text", 4)), "PTX for sm_100, and the device is sm_90"),
        (fatbin((1, 90, 0, b"text" * 40, 160))[:100], "ends within an entry"),
    ],
    ids=["machine code", "cubin only", "another architecture", "cut"],
)
def test_an_image_without_ptx_for_the_device_is_refused(image, part):
    with pytest.raises(UserError, match=part):
        ptx_of(image, 90)


PROGRAM = r"""
#include <stdint.h>
#include <stdio.h>
#include <string.h>
int cuInit(unsigned), cuModuleLoadData(void **, const void *), cuMemFree_v2(uint64_t);
int cuModuleGetFunction(void **, void *, const char *), cuMemAlloc_v2(uint64_t *, size_t);
int cuMemcpyHtoD_v2(uint64_t, const void *, size_t), cuMemcpyDtoH_v2(void *, uint64_t, size_t);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void *, void **, void **);
int cuGetErrorString(int, const char **), cuGetErrorName(int, const char **);
int cudaPointerGetAttributes(void *, const void *);
static const char ptx[] = PTX;
int main(int count, char **words)
{
    float x[64], by = 2;
    void *module, *function;
    uint64_t at;
    int size = count > 1 && !strcmp(words[1], "small") ? 252 : 256;
    for (int n = 0; n < 64; n++) x[n] = (float)n;
    if (cuInit(0)) return 9;
    if (cuModuleLoadData(&module, ptx) || cuModuleGetFunction(&function, module, "scale")) return 8;
    if (!cuModuleGetFunction(&function, module, "other")) return 7;
    cuModuleGetFunction(&function, module, "scale");
    if (cuMemAlloc_v2(&at, (size_t)size) || cuMemcpyHtoD_v2(at, x, (size_t)size)) return 6;
    if (!cuMemcpyHtoD_v2(at, x, 1000)) return 5;
    const char *text;
    if (cuGetErrorString(1, &text) || strcmp(text, "invalid value")) return 10;
    if (cuGetErrorName(1, &text) || strcmp(text, "CUDA_INVALID_VALUE")) return 11;
    struct { int type, device; void *on_device, *on_host; long reserved[8]; } found;
    if (cudaPointerGetAttributes(&found, (void *)at) || found.type != 2 || found.device ||
        found.on_device != (void *)at || found.on_host) return 12;
    if (cudaPointerGetAttributes(&found, x) || found.type || found.on_device) return 13;
    void *arguments[] = {&at, &by};
    if (cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, 0, arguments, 0)) return 4;
    if (cuMemcpyDtoH_v2(x, at, (size_t)size) || cuMemFree_v2(at) || !cuMemFree_v2(at)) return 3;
    printf("%g %g\n", x[1], x[63]);
    return count > 1 ? 2 : x[63] != 126;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> str:
    """A C program that talks to the driver library alone, linked with ours."""
    folder = tmp_path_factory.mktemp("cuda")
    quoted = "".join(f'"{line}\\n"\n' for line in SCALE.splitlines())
    (folder / "main.c").write_text(PROGRAM.replace("PTX;", quoted + ";"))
    made = folder / "main"
    assert COMPILER is not None
    linked = library() / NAME
    subprocess.run([COMPILER, str(folder / "main.c"), str(linked), "-o", str(made)], check=True)
    return str(made)


@without_cc
def test_a_program_of_the_driver_library_runs(program, capfd):
    assert run(["run", program]) == 0
    shown = capfd.readouterr()
    assert shown.out == "2 126\n"
    assert shown.err == "titan: 1 launch computed: 1 verified\n"


@without_cc
def test_a_launch_that_is_wrong_ends_the_program(program, capfd):
    assert run(["run", program, "small"]) == 1
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "TTN218" in shown.err and "1 refuted" in shown.err


@without_cc
def test_the_exit_code_of_a_program_is_reported(program, capfd):
    assert run(["run", "--check", "off", program, "more"]) == 1
    assert "the program ended with exit code 2" in capfd.readouterr().err


@without_cc
def test_without_a_device_a_program_gets_an_error(program):
    environment = {"LD_LIBRARY_PATH": str(library())}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 9
    assert "titan run" in done.stderr


def test_a_program_with_a_static_runtime_is_refused(tmp_path, capsys):
    path = tmp_path / "program"
    path.write_bytes(b"\x7fELF .nv_fatbin ")
    path.chmod(0o755)
    assert run(["run", str(path)]) == 2
    assert "titan cuda-flags" in capsys.readouterr().err


CUDA = r"""
#include <cstdio>
#include <cstdlib>
__global__ void twice(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}
int main(int count, char **words)
{
    int extent = count > 1 ? atoi(words[1]) : 100;
    float host[100], *x;
    for (int i = 0; i < 100; i++) host[i] = i;
    cudaMalloc(&x, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    twice<<<2, 64>>>(x, extent);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    printf("%g\n", host[99]);
    return cudaGetLastError() || host[99] != 198;
}
"""


@without_cc
@pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
def test_a_program_of_nvcc_runs(tmp_path, capfd):
    assert run(["cuda-flags"]) == 0
    flags = capfd.readouterr().out.split()
    assert Path(flags[-1]).is_file(), "the library is the last word"
    source = tmp_path / "main.cu"
    source.write_text(CUDA)
    made = str(tmp_path / "main")
    subprocess.run([str(nvcc()), "-lineinfo", str(source), *flags, "-o", made], check=True)
    assert run(["run", made]) == 0
    assert capfd.readouterr().out == "198\n"
    assert run(["run", made, "101"]) == 1
    shown = capfd.readouterr()
    assert "TTN218" in shown.err and "main.cu:7:" in shown.err


VARIABLES = r"""
#include <cstdio>
__device__ int counter = 5;
__device__ int *where = &counter;
__constant__ float factors[4] = {1, 2, 3, 4};
__global__ void count(const int *steps) { if (threadIdx.x == 0) *where += *steps; }
__global__ void scale(float *x) { x[threadIdx.x] *= factors[threadIdx.x % 4]; }
int main()
{
    int found = 0, *steps;
    float given[4] = {10, 20, 30, 40}, *x;
    size_t bytes = 0;
    cudaMallocManaged(&steps, sizeof *steps);
    cudaMallocManaged(&x, 64 * sizeof *x);
    *steps = 3;
    for (int i = 0; i < 64; i++) x[i] = 1;
    count<<<1, 32>>>(steps);
    cudaDeviceSynchronize();
    *steps = 4;
    count<<<1, 32>>>(steps);
    cudaMemcpyFromSymbol(&found, counter, sizeof found);
    if (found != 12) return 1;
    cudaGetSymbolSize(&bytes, factors);
    if (bytes != sizeof given) return 2;
    scale<<<1, 64>>>(x);
    cudaMemcpyToSymbol(factors, given + 2, 8, 8);
    scale<<<1, 64>>>(x);
    cudaDeviceSynchronize();
    if (x[0] != 1 || x[1] != 4 || x[2] != 90 || x[63] != 160) return 3;
    if (cudaMemcpyToSymbol(factors, given, 16, 4) == 0) return 4;
    cudaGetLastError();
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    count<<<1, 32, 0, stream>>>(steps);
    cudaMemsetAsync(x, 0, 8, stream);
    cudaStreamEndCapture(stream, &graph);
    cudaMemcpyFromSymbol(&found, counter, sizeof found);
    if (found != 12 || x[0] != 1) return 5;
    cudaGraphInstantiate(&ready, graph, 0);
    for (int i = 0; i < 3; i++) cudaGraphLaunch(ready, stream);
    cudaStreamSynchronize(stream);
    cudaMemcpyFromSymbol(&found, counter, sizeof found);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    cudaFree(x);
    printf("%d %g\n", found, (double)given[0]);
    return cudaGetLastError() || found != 24;
}
"""


@without_cc
@pytest.mark.heavy
@pytest.mark.skipif(nvcc() is None, reason="nvcc is not installed")
def test_variables_managed_memory_and_graphs(tmp_path, capfd):
    assert run(["cuda-flags"]) == 0
    flags = capfd.readouterr().out.split()
    source = tmp_path / "main.cu"
    source.write_text(VARIABLES)
    made = str(tmp_path / "main")
    subprocess.run([str(nvcc()), str(source), *flags, "-o", made], check=True)
    assert run(["run", made]) == 0
    shown = capfd.readouterr()
    assert shown.out == "24 10\n"
    assert shown.err == "titan: 7 launches computed: 7 verified\n"


COUNTER = """.version 8.7
.target sm_90a
.address_size 64
.const .align 4 .b8 steps[8] = {3, 0, 0, 0, 4, 0, 0, 0};
.global .align 4 .u32 counter = 5;
.global .align 8 .u64 where = counter;
.visible .entry count(.param .u64 unused)
{
    .reg .b32 %r<4>; .reg .b64 %d<2>;
    ld.global.u64 %d1, [where];
    ld.const.u32 %r1, [steps+4];
    ld.global.u32 %r2, [%d1];
    add.u32 %r2, %r2, %r1;
    st.global.u32 [%d1], %r2;
    ret;
}
"""


@pytest.mark.parametrize("check", list(CheckMode))
def test_variables_of_a_module_live_as_long_as_the_program(check):
    memory = OwnMemory()
    memory.allocate(100)
    queue = LaunchQueue.of(EmulationSettings(check=check))
    first, second = (made_resident(load(COUNTER), memory) for _ in range(2))
    shape = LaunchShape((1, 1, 1), (1, 1, 1))

    def value(loaded: LoadedModule, name: str) -> int:
        place = loaded.resident.named[name]
        return int.from_bytes(memory.read(place.address, place.size_bytes), "little")

    for loaded in (first, first, second):
        queue.run(loaded, loaded.entry(None), shape, [bytes(8)], {}, memory)
    assert (value(first, "counter"), value(second, "counter")) == (13, 9)
    assert value(first, "where") == first.resident.named["counter"].address
    memory.write(first.resident.named["steps"].address + 4, (100).to_bytes(4, "little"))
    queue.run(first, first.entry(None), shape, [bytes(8)], {}, memory)
    assert (value(first, "counter"), value(second, "counter")) == (113, 9)
    alone = load(COUNTER)
    assert alone.resident is None
    queue.run(alone, alone.entry(None), shape, [bytes(8)], {}, memory)
    assert (value(first, "counter"), value(second, "counter")) == (113, 9)
