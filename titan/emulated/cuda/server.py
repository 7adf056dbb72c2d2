"""Answers the library in a CUDA program (`native/client.h`): memory, modules, launches.

One request at a time, over a socket that the program inherits. The memory of the device is here, so
that a pointer of the device means nothing to the program, as on a GPU.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from titan.emulated.cuda.fatbin import ptx_of
from titan.emulated.driver_status import DriverStatus
from titan.emulated.machine import LaunchQueue
from titan.emulated.memory import ALIGNMENT_BYTES, OwnMemory
from titan.emulated.modules import LoadedModule, load, made_resident, shape_of
from titan.emulated.parameters import Maps, name_map
from titan.foundation.errors import TitanError, UserError
from titan.isa.numbers.device import LaunchError
from titan.isa.ptx.module import Function
from titan.isa.simt.launch import LaunchTensorMap

_HEADER = struct.Struct("<IIQ")


class DriverRequest(IntEnum):
    """Requests of the library, in the order of client.h."""

    LOAD = 1
    KERNEL = 2
    LAUNCH = 3
    ALLOCATE = 4
    FREE = 5
    WRITE = 6
    READ = 7
    COPY = 8
    SET = 9
    ATTRIBUTE = 10
    TENSOR_MAP = 11
    FUNCTION = 12
    NAME = 13
    UNSUPPORTED = 14
    VARIABLE = 15


Answer = tuple[Sequence[int], bytes]
_NOTHING: Answer = ((), b"")


class _Refused(TitanError):
    """An error for the program."""

    def __init__(self, status: DriverStatus) -> None:
        super().__init__(status.name)
        self.status = status


@dataclass(slots=True)
class DeviceServer:
    """The device of one program. `fault`: what ended it. `remarks`: unsupported requests."""

    queue: LaunchQueue
    memory: OwnMemory = field(default_factory=OwnMemory)
    modules: list[LoadedModule] = field(default_factory=list)
    kernels: list[tuple[LoadedModule, Function]] = field(default_factory=list)
    maps: Maps = field(default_factory=dict)
    fault: LaunchError | None = None
    remarks: list[str] = field(default_factory=list)
    requests: int = 0

    def serve(self, connection: socket.socket) -> None:
        """Answer until the program closes its end, or a launch is wrong."""
        while (header := _received(connection, _HEADER.size)) is not None:
            operation, count, size = _HEADER.unpack(header)
            words = struct.unpack(f"<{count}Q", _received(connection, 8 * count) or b"")
            data = _received(connection, size) or b""
            self.requests += 1
            status, answer = DriverStatus.SUCCESS, _NOTHING
            try:
                answer = self._answered(DriverRequest(operation), words, data)
            except _Refused as error:
                status = error.status
            except LaunchError as error:
                self.fault = error
                return
            except UserError as error:
                self.remarks.append(str(error))
                status = DriverStatus.NO_KERNEL_IMAGE
            out, more = answer
            packed = struct.pack(f"<{len(out)}Q", *out)
            connection.sendall(_HEADER.pack(status, len(out), len(more)) + packed + more)

    def _answered(self, operation: DriverRequest, words: Sequence[int], data: bytes) -> Answer:
        answers: dict[DriverRequest, Callable[[Sequence[int], bytes], Answer]] = {
            DriverRequest.LOAD: self._load, DriverRequest.KERNEL: self._kernel,
            DriverRequest.LAUNCH: self._launch, DriverRequest.ALLOCATE: self._allocate,
            DriverRequest.FREE: self._free, DriverRequest.WRITE: self._write,
            DriverRequest.READ: self._read, DriverRequest.COPY: self._copy,
            DriverRequest.SET: self._set,
            DriverRequest.ATTRIBUTE: self._attribute, DriverRequest.TENSOR_MAP: self._tensor_map,
            DriverRequest.NAME: self._name, DriverRequest.UNSUPPORTED: self._unsupported,
            DriverRequest.VARIABLE: self._variable,
        }  # fmt: skip
        found = answers.get(operation)
        if found is None:
            raise _Refused(DriverStatus.NOT_SUPPORTED)
        return found(words, data)

    # ------------------------------------------------------------------- modules, launches

    def _load(self, words: Sequence[int], data: bytes) -> Answer:
        text = ptx_of(data, self.queue.settings.model.architecture)
        loaded = load(text, f"module{len(self.modules)}.ptx")
        self.modules.append(made_resident(loaded, self.memory))
        return (len(self.modules),), b""

    def _module(self, number: int) -> LoadedModule:
        if not 1 <= number <= len(self.modules):
            raise _Refused(DriverStatus.INVALID_IMAGE)
        return self.modules[number - 1]

    def _variable(self, words: Sequence[int], data: bytes) -> Answer:
        resident = self._module(words[0]).resident
        name = data.decode("utf-8", "replace")
        if resident is None or name not in resident.named:
            raise _Refused(DriverStatus.NOT_FOUND)
        found = resident.named[name]
        return (found.address, found.size_bytes), b""

    def _kernel(self, words: Sequence[int], data: bytes) -> Answer:
        loaded, name = self._module(words[0]), data.decode("utf-8", "replace")
        function = loaded.defined(name)
        if function is None:
            raise _Refused(DriverStatus.NOT_FOUND)
        self.kernels.append((loaded, function))
        sizes = [parameter.size_bytes for parameter in function.parameters]
        return (len(self.kernels),), struct.pack(f"<{len(sizes)}I", *sizes)

    def _launch(self, words: Sequence[int], data: bytes) -> Answer:
        loaded, function = self.kernels[words[0] - 1]
        shape = shape_of(function, words[1:4], words[4:7], words[8:11], words[7])
        parameters, at = [], 0
        for parameter in function.parameters:
            parameters.append(data[at : at + parameter.size_bytes])
            at += parameter.size_bytes
        blocks = self.memory.blocks.values()
        used = {
            name: map_
            for name, map_ in self.maps.items()
            if name in data or any(name in block for block in blocks)
        }
        self.queue.run(loaded, function, shape, parameters, used, self.memory)
        return (), b""

    # -------------------------------------------------------------------------------- memory

    def _allocate(self, words: Sequence[int], data: bytes) -> Answer:
        held = sum(map(len, self.memory.blocks.values()))
        if held + words[0] > self.queue.settings.model.memory_bytes:
            raise _Refused(DriverStatus.OUT_OF_MEMORY)
        try:
            alignment = max((ALIGNMENT_BYTES, *words[1:]))
            return (self.memory.allocate(words[0], None, alignment),), b""
        except MemoryError:
            raise _Refused(DriverStatus.OUT_OF_MEMORY) from None

    def _free(self, words: Sequence[int], data: bytes) -> Answer:
        if not self.memory.free(words[0]):
            raise _Refused(DriverStatus.INVALID_VALUE)
        return (), b""

    def _write(self, words: Sequence[int], data: bytes) -> Answer:
        try:
            self.memory.write(words[0], data)
        except KeyError:
            raise _Refused(DriverStatus.INVALID_VALUE) from None
        return (), b""

    def _read(self, words: Sequence[int], data: bytes) -> Answer:
        try:
            return (), self.memory.read(words[0], words[1])
        except KeyError:
            raise _Refused(DriverStatus.INVALID_VALUE) from None

    def _copy(self, words: Sequence[int], data: bytes) -> Answer:
        _, held = self._read(words[1:], b"")
        return self._write(words, held)

    def _set(self, words: Sequence[int], data: bytes) -> Answer:
        address, value, count, width = words
        return self._write((address,), value.to_bytes(8, "little")[:width] * count)

    # -------------------------------------------------------------------------------- device

    def _attribute(self, words: Sequence[int], data: bytes) -> Answer:
        return (self.queue.settings.model.attribute(words[0]),), b""

    def _tensor_map(self, words: Sequence[int], data: bytes) -> Answer:
        data_type, base, interleave, swizzle, fill, rank = words[:6]
        at, lists = 6, []
        for count in (rank, rank - 1, rank, rank):
            lists.append(tuple(words[at : at + count]))
            at += count
        extents, strides, box, steps = lists
        map_ = LaunchTensorMap(
            data_type, base, extents, strides, box, steps, interleave, swizzle, fill
        )
        return (), name_map(map_, self.maps)

    def _name(self, words: Sequence[int], data: bytes) -> Answer:
        try:
            name = DriverStatus(words[0]).name
        except ValueError:
            name = f"error {words[0]}"
        text = name.lower().replace("_", " ") if words[1] else f"CUDA_{name}"
        return (), text.encode()

    def _unsupported(self, words: Sequence[int], data: bytes) -> Answer:
        self.remarks.append(f"{data.decode('utf-8', 'replace')} is not a function of this device")
        raise _Refused(DriverStatus.NOT_SUPPORTED)


def _received(connection: socket.socket, count: int) -> bytes | None:
    """The next `count` bytes; None if the other end is closed."""
    parts: list[bytes] = []
    while count:
        try:
            part = connection.recv(min(count, 1 << 20))
        except ConnectionError:
            return None
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
