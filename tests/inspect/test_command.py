"""`titan inspect` on listings, and on what the installed toolchain makes of a kernel."""

from __future__ import annotations

import json

import pytest

from tests.inspect.test_listing import MAIN_LOOP
from titan.cli.main import run
from titan.inspect import tools
from titan.validate.compare.compile import nvcc

needs_toolchain = pytest.mark.skipif(
    nvcc() is None or tools.nvdisasm() is None, reason="nvcc and nvdisasm are not installed"
)


def test_text_and_exit_code(tmp_path, capsys):
    path = tmp_path / "kernel.sass"
    path.write_text(MAIN_LOOP)
    assert run(["inspect", str(path)]) == 1
    text = capsys.readouterr().out
    assert "2 of the tensor cores (6.5 for each)" in text
    assert "finding   1 MEMBAR.ALL.GPU in the loop at 0x0010 of kernel" in text
    path.write_text(MAIN_LOOP.replace("MEMBAR.ALL.GPU", "MEMBAR.ALL.CTA").replace("STL", "STS"))
    assert run(["inspect", str(path)]) == 0


def test_json_holds_the_same(tmp_path, capsys):
    path = tmp_path / "kernel.sass"
    path.write_text(MAIN_LOOP)
    run(["inspect", str(path), "--format", "json"])
    (document,) = json.loads(capsys.readouterr().out)
    (kernel,) = document["kernels"]
    assert kernel["loops"][0]["per_tensor"] == 6.5
    assert kernel["local"] == 1


def test_bad_input(tmp_path, capsys):
    path = tmp_path / "kernel.sass"
    path.write_text("nothing")
    assert run(["inspect", str(path)]) == 2
    assert run(["inspect", str(tmp_path)]) == 2
    path.write_text(MAIN_LOOP)
    assert run(["inspect", str(path), "--entry", "other"]) == 2
    assert "no kernel" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ('{"a": ', "manifest.json: 1:7: the file is not JSON: expecting value"),
        ('{"a": 1, "a": 1}', "the key `a` is given twice"),
        ("[]", "manifest.json lacks its target, its source or its header"),
        ('{"target": "sm_90a"}', "manifest.json lacks its target, its source or its header"),
        ('{"target": "sm_1", "source": "k", "header": "h"}', "an unknown target: `sm_1`"),
        ('{"target": "sm_90a", "source": "../k", "header": "h"}', "`k`: the file cannot be read"),
    ],
)
def test_a_damaged_manifest_is_bad_input(manifest, words, tmp_path, capsys):
    (tmp_path / "manifest.json").write_text(manifest)
    (tmp_path / "certificate.json").write_text("{}")
    assert run(["inspect", str(tmp_path)]) == 2
    shown = capsys.readouterr().err
    assert "not a package: " in shown and words in shown


def test_a_missing_tool_is_undecided(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tools, "nvdisasm", lambda: None)
    path = tmp_path / "kernel.cubin"
    path.write_bytes(b"")
    assert run(["inspect", str(path)]) == 3
    assert "nvdisasm is not installed" in capsys.readouterr().err


@pytest.mark.skipif(tools.ptxas() is None, reason="ptxas is not installed")
def test_what_cannot_be_assembled_is_bad_input(tmp_path, capsys):
    path = tmp_path / "kernel.ptx"
    head = ".version 8.0\n.target sm_90\n.address_size 64\n"
    path.write_text(f"{head}.visible .entry k() {{ frob; ret; }}\n")
    assert run(["inspect", str(path)]) == 2
    shown = capsys.readouterr().err
    assert "line 4" in shown and shown.count("/kernel.ptx") == 1  # no file of ours


@needs_toolchain
def test_a_compiled_kernel(tmp_path):
    """A fence in a loop and a local array that no register can hold: both are in the SASS."""
    from titan.inspect.counts import count
    from titan.inspect.listing import read_listing
    from titan.validate.compare.compile import compile_cuda

    source = tmp_path / "kernel.cu"
    source.write_text(
        'extern "C" __global__ void kernel(float* data, int n) {\n'
        "  float held[64];\n"
        "  for (int i = 0; i < 64; ++i) held[i] = data[i];\n"
        '  _Pragma("unroll 1")\n'
        "  for (int i = 0; i < n; ++i) {\n"
        "    held[(i * n) % 64] += data[i];\n"
        "    __threadfence();\n"
        "  }\n"
        "  data[n] = held[n % 64];\n"
        "}\n"
    )
    compiled = compile_cuda(source, "sm_90a")
    (function,) = read_listing(tools.disassembled(compiled.code))
    kernel = count(function)
    (loop,) = [loop for loop in kernel.loops if loop.fences]
    assert any(name.startswith("MEMBAR") for name in loop.fences)
    assert loop.by_class["local"] >= 2
    assert kernel.local >= 16
