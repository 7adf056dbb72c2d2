"""`launch.h`: how a C++ program launches an emitted kernel, written from its manifest.

The header checks sizes and arrays, encodes tensor maps and launches; it includes the header of the
CUDA driver, or of the HIP runtime, and no other. It decides nothing: each check is a constraint of
the manifest or a rule of cuTensorMapEncodeTiled, as in `titan/device/plan.py`, with which tests
compare it. Expressions are computed in a class that knows when 62 bits do not suffice.
Sources: CUDA driver API, cuTensorMapEncodeTiled, cuLaunchKernelEx; HIP, hipModuleLaunchKernel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import DTYPE_BYTES, identifier, single
from titan.codegen.tile.manifest import (
    COORDINATE_MOST,
    Manifest,
    ManifestArgument,
    ManifestTensor,
    address_multiples_bytes,
    name_space,
    signature,
)
from titan.foundation.resources import template
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    Not,
    names_of,
    parse_expression,
)
from titan.target.description import target_of

_OPERATORS = {"//": "/"}
_FUNCTIONS = {"min": "smaller", "max": "larger", "and": "both", "or": "either"}
_TYPES = {"f32": "FLOAT32", "bf16": "BFLOAT16", "f16": "FLOAT16", "e4m3": "UINT8", "e5m2": "UINT8",
          "ue8m0": "UINT8", "e2m1x2": "UINT8", "i32": "INT32", "u32": "UINT32"}  # fmt: skip
_CUDA = {"header": "cuda.h", "address": "CUdeviceptr", "result": "CUresult", "module": "CUmodule",
         "function": "CUfunction", "stream": "CUstream",
         "bad_value": "CUDA_ERROR_INVALID_VALUE"}  # fmt: skip
_HIP = {"header": "hip/hip_runtime_api.h", "address": "void*", "result": "hipError_t",
        "module": "hipModule_t", "function": "hipFunction_t", "stream": "hipStream_t",
        "bad_value": "hipErrorInvalidValue"}  # fmt: skip
# Words that a parameter or tensor may be called and a field of C++ may not.
_KEYWORDS = (
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t "
    "char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr "
    "constinit continue decltype default delete do double dynamic_cast else enum explicit export "
    "extern false float for friend goto if inline int long mutable namespace new noexcept not "
    "not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires "
    "return short signed sizeof static static_assert static_cast struct switch template this "
    "thread_local throw true try typedef typeid typename union unsigned using virtual void "
    "volatile wchar_t while xor xor_eq"
)
# Macros in lower case, of compilers and of headers that a program may include before.
_MACROS = (
    "alloca assert assert_perror errno far i386 issubnormal linux major makedev math_errhandling "
    "minor near offsetof sched_priority small stderr stdin stdout unix"
)
# Most others are in capitals, long or with an underscore; the rest begin like the vendors' names.
_LIKE_MACROS = re.compile(
    r"_[A-Z_].*|.*__.*|[A-Z][A-Z0-9]{2,}|[A-Z][A-Z0-9]*_.*|(cu|hip)[A-Z].*|pthread_.*|"
    r"[bl]e[0-9]+toh|hto[bl]e[0-9]+"
)
_Row: TypeAlias = dict[str, object]


def field(name: str) -> str:
    """The name of a parameter or tensor as a field of C++. Raises EmissionRefused."""
    plain = identifier(name, "a parameter or tensor")
    base = plain.rstrip("_") or plain
    taken = base in f"{_KEYWORDS} {_MACROS}".split() or _LIKE_MACROS.fullmatch(base) is not None
    return f"{plain}_" if taken or _LIKE_MACROS.fullmatch(plain) is not None else plain


def launch_header(manifest: Manifest) -> str:
    """The text of `launch.h`. Raises EmissionRefused for names that C++ does not take."""
    amd = target_of(manifest["target"]).amd
    sizes = [item["name"] for item in manifest["parameters"]]
    spelled = {name: f"Number(sizes.{field(name)})" for name in sizes}
    tensors = {item["name"]: item for item in manifest["tensors"]}
    arguments = manifest["arguments"]
    by_map = {item["tensor"] for item in arguments if item["kind"] == "tensor_map"}
    by_pointer = {item["tensor"] for item in arguments if item["kind"] == "pointer"}
    positive = {item["name"] for item in manifest["parameters"] if item["minimum"] >= 1}
    launch = manifest["launch"]
    return template("host", "launch.h.j2").render(
        field=field,
        api=_HIP if amd else _CUDA,
        amd=amd,
        space=identifier(name_space(manifest["kernel"], manifest["target"]), "the tile program"),
        kernel=manifest["kernel"],
        target=manifest["target"],
        entry=manifest["entry"],
        source=manifest["source"],
        signature=signature(manifest),
        scalars=[
            (item["name"], single(item["value"], f"the scalar {item['name']}"))
            for item in manifest.get("scalars", ())
        ],
        sizes=sizes,
        tensors=[{**item, "bytes": DTYPE_BYTES[item["dtype"]]} for item in tensors.values()],
        functions=_functions(manifest, spelled),
        minima=[(item["name"], item["minimum"]) for item in manifest["parameters"]],
        constraints=[(number(text, spelled), text) for text in manifest["constraints"]],
        empty=[
            (item["name"], number(f"min({least}, 1) >= 1", spelled))
            for item in tensors.values()
            if (least := _least(item["shape"], positive))
        ],
        multiples=address_multiples_bytes(manifest, DTYPE_BYTES),
        gapless=set(tensors) - (by_map - by_pointer),
        maps=[
            _map(item, tensors[item["tensor"]], spelled)
            for item in arguments
            if item["kind"] == "tensor_map"
        ],
        arguments=[_argument(item) for item in arguments],
        block=launch["block"],
        cluster=launch["cluster"],
        dependent=launch.get("dependent", False),
        shared_bytes=launch["dynamic_shared_bytes"],
    )


def number(text: str, spelled: Mapping[str, str]) -> str:
    """An expression of a manifest over the class `Number`. Raises EmissionRefused."""
    return _number(parse_expression(text), spelled)


def _number(expression: Expression, spelled: Mapping[str, str]) -> str:
    match expression:
        case Constant(value):
            return f"Number({int(value)})"
        case Name(name) if name in spelled:
            return spelled[name]
        case Not(operand):
            return f"(!{_number(operand, spelled)})"
        case Binary(operator, left, right):
            first, second = _number(left, spelled), _number(right, spelled)
            if operator in _FUNCTIONS:
                return f"{_FUNCTIONS[operator]}({first}, {second})"
            return f"({first} {_OPERATORS.get(operator, operator)} {second})"
    raise EmissionRefused("an expression of the manifest names what a launch does not know")


def _functions(manifest: Manifest, spelled: Mapping[str, str]) -> list[tuple[str, str]]:
    """The numbers that a launch and a table of packages ask for."""
    trips = manifest["trip_count"]
    coordinates = names_of(parse_expression(trips)) - set(spelled)
    most = {name: f"Number({COORDINATE_MOST})" for name in coordinates}
    device = {**spelled, "processors": "Number(processors)"}
    return [
        ("grid", number(manifest["launch"]["grid"], device)),
        ("work", number(manifest["work"], spelled)),
        ("trips", number(trips, {**spelled, **most})),
    ]  # fmt: skip


def _least(shape: Sequence[str], positive: set[str]) -> str:
    """The least extent of a tensor as an expression; empty where all are at least 1 anyway."""
    open_ones = [extent for extent in shape if not extent.isdecimal() and extent not in positive]
    made = ""
    for extent in open_ones:
        made = f"min({made}, {extent})" if made else extent
    return made


def _map(item: ManifestArgument, tensor: ManifestTensor, spelled: Mapping[str, str]) -> _Row:
    box = item["box"]
    swizzle = item["swizzle"].upper()
    return {
        "name": item["name"], "tensor": item["tensor"], "box": box, "rank": len(box),
        "bytes": DTYPE_BYTES[tensor["dtype"]],
        "extents": [number(extent, spelled) for extent in reversed(tensor["shape"])],
        "type": f"CU_TENSOR_MAP_DATA_TYPE_{_TYPES[tensor['dtype']]}",
        "swizzle": f"CU_TENSOR_MAP_SWIZZLE_{swizzle}",
    }  # fmt: skip


def _argument(item: ManifestArgument) -> _Row:
    """A local variable of the launch; its name differs from the names of its parameters."""
    if item["kind"] == "size":
        return {"kind": "size", "name": f"size_{item['name']}", "size": item["name"]}
    if item["kind"] == "scalar":
        return {"kind": "scalar", "name": f"scalar_{item['name']}", "scalar": item["name"]}
    return {"kind": item["kind"], "name": item["name"], "tensor": item["tensor"]}
