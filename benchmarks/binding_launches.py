"""Launch files for generated CUDA kernels, from the host code that launches them.

The host code (`*_binding.cu` in the sources of FlashInfer) encodes a tensor map for each tensor and
names the arguments of the kernel in order. What it computes from the shape of a tensor is computed
here from a shape that the caller gives or from a large one; sizes and data come from the caller.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Shape = tuple[int, ...]
LARGE: Shape = (4, 4, 4, 1024, 1024)  # of a tensor whose shape does not matter: its last dimensions
TYPES = {
    "UINT8": "u8", "UINT16": "u16", "UINT32": "u32", "INT32": "s32", "UINT64": "u64",
    "INT64": "s64", "FLOAT16": "f16", "FLOAT32": "f32", "BFLOAT16": "bf16",
    "16U4_ALIGN8B": "16u4_align8b", "16U4_ALIGN16B": "16u4_align16b",
    "16U6_ALIGN16B": "16u6_align16b",
}  # fmt: skip
_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Gt: operator.gt,
    ast.Lt: operator.lt, ast.GtE: operator.ge, ast.LtE: operator.le, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip


class NoLaunchError(Exception):
    """The host code is of another form, or needs what was not given."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the caller knows. `sizes`: scalar arguments by name; `data`: 32-bit integers that a
    pointer leads to; `shapes`: of tensors; `default`: a scalar that is not among them, from its
    name and C type, or None.
    """

    sizes: Mapping[str, int | float | str] = field(default_factory=dict)
    data: Callable[[str], list[int] | None] = lambda _: None
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    default: Callable[[str, str], int | float | None] = lambda _, __: None


def launch_text(binding: str, given: Given, clusters: int = 2) -> str:
    """The launch file, for a grid of `clusters` clusters. Raises NoLaunchError."""
    run = binding[max(binding.find("void Run("), 0) :]
    arguments = re.search(r"kargs\[\] = \{(.*?)\}", run, re.DOTALL)
    block = re.search(r"dim3 block\((.*?)\)", run)
    if arguments is None or block is None:
        raise NoLaunchError("no arguments")
    cluster = [
        int(found[1]) if (found := re.search(rf"clusterDim\.{axis} = (\d+)", run)) else 1
        for axis in "xyz"
    ]
    lines = [f"grid: {[clusters * cluster[0], *cluster[1:]]}"]
    threads = [int(number) for number in re.findall(r"\d+", block[1])]
    lines.append(f"block: {threads}")
    if shared := re.search(r"dynamicSmemBytes = (\d+)", run):
        lines.append(f"dynamic_shared: {shared[1]}")
    if math.prod(cluster) > 1:
        lines.append(f"cluster: {cluster}")
    lines.append("parameters:")
    encoders = dict(
        re.findall(r"inline CUtensorMap EncodeTma_(\w+)\([^)]*\) \{(.*?)\n\}", binding, re.DOTALL)
    )
    for argument in re.findall(r"&(\w+)", arguments[1]):
        lines.append(f"  - {_parameter(argument, run, encoders, given)}")
    return "\n".join(lines) + "\n"


def _parameter(argument: str, run: str, encoders: Mapping[str, str], given: Given) -> str:
    name = argument[2:]
    if name in encoders:
        body = encoders[name]
        return f"map: {{{_map(body, given.shapes.get(name) or _large(body))}}}"
    if re.search(rf"\*\s*{argument} =", run):
        data = given.data(name)
        return "pointer" if data is None else f"pointer: {{s32: {data}}}"
    declared = re.search(rf"(\w+) {argument}\b", run)
    if name in given.sizes:
        return str(given.sizes[name])
    value = given.default(name, declared[1]) if declared is not None else None
    if value is None:
        raise NoLaunchError(f"no value of {name}")
    return str(value)


def _large(body: str) -> Shape:
    ranks = re.findall(r"ndim\(\) (?:>=|==|-) (\d)", body)
    return LARGE[-max([2, *map(int, ranks)]) :]


def _map(body: str, shape: Shape) -> str:
    names: dict[str, int] = {}
    for name, text in re.findall(r"int64_t (\w+) = ([^;]+);", body):
        names[name] = _value(text, names, shape)

    def listed(what: str) -> list[int]:
        found = re.search(rf"{what}\[\d+\] = \{{(.*?)\}};", body, re.DOTALL)
        items = [] if found is None else _split(found[1])
        return [_value(item, names, shape) for item in items]

    dimensions, strides = listed("global_dim"), listed("global_strides")
    kind = re.search(r"CU_TENSOR_MAP_DATA_TYPE_(\w+)", body)
    swizzle = re.search(r"CU_TENSOR_MAP_SWIZZLE_(\w+)", body)
    if kind is None or kind[1] not in TYPES or not dimensions:
        raise NoLaunchError("a tensor map of another form")
    text = f"data_type: {TYPES[kind[1]]}, dimensions: {dimensions}, box: {listed('box_dim')}"
    if swizzle is not None and swizzle[1] != "NONE":
        text += f", swizzle: {swizzle[1].replace('ATOM', 'atom').replace('FLIP', 'flip')}"
    return text + (f", stride_bytes: {strides[: len(dimensions) - 1]}" if strides else "")


def _split(text: str) -> list[str]:
    """The items of a list in C, split at the commas outside of brackets."""
    items, depth, item = [], 0, ""
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            items.append(item.strip())
            item = ""
        else:
            item += letter
    return [*items, item.strip()] if item.strip() else items


def _value(text: str, names: Mapping[str, int], shape: Shape) -> int:
    """An integer expression of C over names and the shape of the tensor `t`."""
    text = re.sub(r"\((?:u?int(?:32|64)_t|int)\)", "", text)
    text = re.sub(r"\b(\d+)(?:[uU]?[lL]{0,2})\b", r"\1", text).replace("/", "//")
    text = text.replace("(t.ndim() - ", "(-")
    text = re.sub(r"t\.size\((-?\d+)\)", lambda m: str(shape[int(m[1])]), text)
    text = re.sub(
        r"t\.stride\((-?\d+)\)",
        lambda m: str(math.prod(shape[int(m[1]) % len(shape) + 1 :])),
        text,
    )
    text = text.replace("t.numel()", str(math.prod(shape))).replace("t.ndim()", str(len(shape)))
    choice = re.fullmatch(r"\(?(.+?)\?(.+?):(.+?)\)?", text.strip())
    if choice is not None:
        taken = choice[2] if _value(choice[1], names, shape) else choice[3]
        return _value(taken, names, shape)
    try:
        return _computed(ast.parse(text.strip(), mode="eval").body, names)
    except SyntaxError:
        raise NoLaunchError(f"an expression of another form: {text}") from None


def _computed(node: ast.expr, names: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_computed(left, names), _computed(right, names))
        case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_computed(left, names), _computed(right, names))
    raise NoLaunchError(f"an expression of another form: {ast.unparse(node)}")
