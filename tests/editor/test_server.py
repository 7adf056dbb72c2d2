"""The language server over its own protocol, as an editor starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.editor.test_features import TEXT, at

pytest.importorskip("pygls")


class Client:
    """Speaks JSON-RPC with headers over the pipes of a process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "titan", "lsp"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.number = 0
        self.told: list[dict[str, Any]] = []

    def send(self, method: str, params: object, number: int | None = None) -> None:
        message: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params}
        if number is not None:
            message["id"] = number
        data = json.dumps(message).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        stream = self.process.stdout
        assert stream is not None
        length = 0
        while line := stream.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        found = json.loads(stream.read(length))
        assert isinstance(found, dict)
        return found

    def ask(self, method: str, params: object) -> Any:
        self.number += 1
        self.send(method, params, self.number)
        while True:
            message = self.receive()
            if message.get("id") == self.number and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            self.told.append(message)

    def diagnostics(self) -> list[dict[str, Any]]:
        """Those that the server publishes next."""
        while True:
            message = self.told.pop(0) if self.told else self.receive()
            if message.get("method") == "textDocument/publishDiagnostics":
                found = message["params"]["diagnostics"]
                assert isinstance(found, list)
                return found


@pytest.fixture
def client() -> Iterator[Client]:
    made = Client()
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()


def test_a_session(client: Client, tmp_path: Path):
    uri = (tmp_path / "k.yaml").as_uri()
    document = {"uri": uri}

    def position(needle: str, nth: int = 0, into: int = 0) -> dict[str, object]:
        line, column = at(needle, nth, into)
        return {"textDocument": document, "position": {"line": line, "character": column}}

    known = client.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    assert known["capabilities"]["hoverProvider"]
    client.send("initialized", {})
    opened = {"uri": uri, "languageId": "yaml", "version": 1, "text": TEXT}
    client.send("textDocument/didOpen", {"textDocument": opened})
    found = client.diagnostics()
    assert found and all(item["source"] == "titan" for item in found)  # nobody gives the last back
    hover = client.ask("textDocument/hover", position("acquire", 0, 1))
    assert "wait until a stage is free" in hover["contents"]["value"]
    place = client.ask("textDocument/definition", position("operands[t]", 1))
    assert place["range"]["start"]["line"] == 10
    context = {"context": {"includeDeclaration": True}}
    places = client.ask("textDocument/references", position("operands:") | context)
    assert len(places) == 5
    offers = client.ask("textDocument/completion", position("- drain", 0, 2))
    assert {"drain", "release"} <= {item["label"] for item in offers["items"]}

    broken = TEXT.replace("- acquire: operands[t]", "- {acquire: operand[t], when: t >= 0}")
    change = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": broken}]}
    client.send("textDocument/didChange", change)
    (item,) = client.diagnostics()
    assert item["code"] == "TTN011" and "did you mean `operands`" in item["message"]
    assert item["range"]["start"]["line"] == 18
    options = {"textDocument": document, "options": {"tabSize": 2, "insertSpaces": True}}
    (edit,) = client.ask("textDocument/formatting", options)
    assert "        - acquire: operand[t]\n          when: t >= 0\n" in edit["newText"]

    other = {"textDocument": {"uri": uri, "version": 3}, "contentChanges": [{"text": "a: 1\n"}]}
    client.send("textDocument/didChange", other)
    assert client.diagnostics() == []
    assert client.ask("shutdown", None) is None
    client.send("exit", None)
    assert client.process.wait(20) == 0


def test_columns_count_as_the_protocol_does(client: Client, tmp_path: Path):
    """In UTF-16 a sign beyond the first 65,536 has two units; TITAN counts characters."""
    uri = (tmp_path / "k.yaml").as_uri()
    text = TEXT.replace("- acquire: operands[t]", '- {"🚀🚀": 1, acquire: operand[t]}', 1)
    row = next(row for row in text.split("\n") if "🚀" in row)
    line, before = text.split("\n").index(row), row[: row.index("operand[")]
    units = len(before.encode("utf-16-le")) // 2
    client.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    client.send("initialized", {})
    opened = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
    client.send("textDocument/didOpen", {"textDocument": opened})
    named = next(item for item in client.diagnostics() if "`operand`" in item["message"])
    start = {"line": line, "character": units}
    assert named["range"] == {"start": start, "end": {"line": line, "character": units + 7}}
    shown = client.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": start})
    assert named["code"] in shown["contents"]["value"]
    behind = {"line": line, "character": units - 3}
    shown = client.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": behind})
    assert named["code"] not in json.dumps(shown)
    for place in ((10**6, 0), (line, 10**6), (0, 10**6)):
        at_it = {"line": place[0], "character": place[1]}
        client.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": at_it})


def test_a_closed_document_has_no_diagnostics(client: Client, tmp_path: Path):
    uri = (tmp_path / "k.yaml").as_uri()
    client.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    client.send("initialized", {})
    opened = {"uri": uri, "languageId": "yaml", "version": 1, "text": "titan: 1\n"}
    client.send("textDocument/didOpen", {"textDocument": opened})
    assert client.diagnostics()
    client.send("textDocument/didClose", {"textDocument": {"uri": uri}})
    assert not client.diagnostics()
