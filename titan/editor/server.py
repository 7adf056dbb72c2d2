"""The language server: titan/editor/features.py spoken over the Language Server Protocol (pygls).

While a file is typed its form is checked; when it is opened or saved, kernels are verified within a
budget of states, too. Hover, definitions, references, completion and formatting follow the text as
it is in the editor. A file without the key `titan` in it is left alone. Columns of the protocol
count in the units that client and server have agreed on (UTF-16), those of TITAN characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote, urlparse

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from titan.editor import features
from titan.foundation.diagnostics.model import Diagnostic, Severity
from titan.foundation.source.span import Span
from titan.foundation.version import __version__

STATES_MAX = 200_000
_SEVERITY = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
}
_KINDS = {
    "key": types.CompletionItemKind.Property,
    "word": types.CompletionItemKind.EnumMember,
    "sizes": types.CompletionItemKind.Constant,
}


class TitanServer(LanguageServer):
    """Keeps the diagnostics of each open document, for hover."""

    def __init__(self) -> None:
        super().__init__("titan", __version__)
        self.found: dict[str, list[Diagnostic]] = {}

    def document(self, uri: str) -> TextDocument:
        """The open document with this URI."""
        return self.workspace.get_text_document(uri)

    def place(self, uri: str, at: types.Position) -> tuple[int, int]:
        """Line and character of a position in an open document."""
        if not 0 <= at.line < len(self.document(uri).lines):
            return at.line, at.character
        codec = self.workspace.position_codec
        found = codec.position_from_client_units(self.document(uri).lines, at)
        return found.line, found.character

    def range(self, uri: str, start: tuple[int, int], end: tuple[int, int]) -> types.Range:
        """A range of the protocol from places in an open document."""
        codec, lines = self.workspace.position_codec, self.document(uri).lines
        given = types.Range(types.Position(*start), types.Position(*end))
        return codec.range_to_client_units(lines, given)

    def spanned(self, uri: str, span: Span) -> types.Range:
        """The range of a span of an open document."""
        start = span.start_line - 1, span.start_column - 1
        return self.range(uri, start, (span.end_line - 1, span.end_column - 1))

    def publish(self, uri: str, found: list[Diagnostic], version: int | None) -> None:
        """Show these diagnostics, and no others, in a document."""
        self.found[uri] = found
        items = [_diagnostic(self, item, uri) for item in found]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, items, version))

    def check(self, uri: str, whole: bool) -> None:
        """Check a document: its form, or with `whole` also its verdict."""
        document = self.document(uri)
        text = document.source
        if re.search(r"(?m)^['\"]?titan['\"]?\s*:", text) is None:
            self.publish(uri, [], document.version)
            return
        path = document.path or uri
        found = features.verdict(text, path, STATES_MAX) if whole else features.faults(text, path)
        self.publish(uri, found, document.version)


def server() -> TitanServer:
    """A server with all its features."""
    made = TitanServer()

    @made.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(given: types.DidOpenTextDocumentParams) -> None:
        made.check(given.text_document.uri, True)

    @made.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(given: types.DidChangeTextDocumentParams) -> None:
        made.check(given.text_document.uri, False)

    @made.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(given: types.DidSaveTextDocumentParams) -> None:
        made.check(given.text_document.uri, True)

    @made.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(given: types.DidCloseTextDocumentParams) -> None:
        made.found.pop(given.text_document.uri, None)
        empty = types.PublishDiagnosticsParams(given.text_document.uri, [])
        made.text_document_publish_diagnostics(empty)

    @made.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(given: types.HoverParams) -> types.Hover | None:
        uri = given.text_document.uri
        found = made.found.get(uri, [])
        place = made.place(uri, given.position)
        text = features.hover(made.document(uri).source, *place, found)
        content = types.MarkupContent(types.MarkupKind.Markdown, text)
        return types.Hover(content) if text else None

    @made.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(given: types.DefinitionParams) -> types.Location | None:
        uri = given.text_document.uri
        place = made.place(uri, given.position)
        span = features.definition(made.document(uri).source, *place)
        return types.Location(uri, made.spanned(uri, span)) if span is not None else None

    @made.feature(types.TEXT_DOCUMENT_REFERENCES)
    def references(given: types.ReferenceParams) -> list[types.Location]:
        uri = given.text_document.uri
        place = made.place(uri, given.position)
        found = features.references(made.document(uri).source, *place)
        return [types.Location(uri, made.range(uri, (n, a), (n, b))) for n, a, b in found]

    _completion_and_formatting(made)
    return made


def _completion_and_formatting(made: TitanServer) -> None:
    options = types.CompletionOptions(trigger_characters=[" ", "{", ":"])

    @made.feature(types.TEXT_DOCUMENT_COMPLETION, options)
    def completion(given: types.CompletionParams) -> types.CompletionList:
        uri = given.text_document.uri
        place = made.place(uri, given.position)
        offers = features.completion(made.document(uri).source, *place)
        return types.CompletionList(False, _items(offers))

    @made.feature(types.TEXT_DOCUMENT_FORMATTING)
    def formatting(given: types.DocumentFormattingParams) -> list[types.TextEdit]:
        from titan.language.kernel.standard import standard_form

        text = made.document(given.text_document.uri).source
        new, errors = standard_form(text)
        if errors or new == text:
            return []
        end = types.Position(text.count("\n") + 1, 0)
        return [types.TextEdit(types.Range(types.Position(0, 0), end), new)]


def _items(offers: Iterable[features.Offer]) -> list[types.CompletionItem]:
    return [
        types.CompletionItem(
            offer.text,
            kind=_KINDS.get(offer.kind, types.CompletionItemKind.Variable),
            detail=offer.about,
        )
        for offer in offers
    ]


def _diagnostic(made: TitanServer, item: Diagnostic, uri: str) -> types.Diagnostic:
    """A diagnostic at its span in this document; at the beginning if it points elsewhere."""
    here = unquote(urlparse(uri).path)
    span = item.span if item.span is not None and item.span.path in (here, uri) else None
    start = types.Position(0, 0)
    related = [
        types.DiagnosticRelatedInformation(
            types.Location(uri, made.spanned(uri, mark.span)), mark.label
        )
        for mark in item.annotations
        if not mark.primary and mark.label and mark.span.path in (here, uri)
    ]
    text = "\n".join([item.headline, *item.notes, *(f"help: {text}" for text in item.helps)])
    return types.Diagnostic(
        range=made.spanned(uri, span) if span is not None else types.Range(start, start),
        message=text,
        severity=_SEVERITY[item.severity],
        code=item.code,
        source="titan",
        related_information=related or None,
    )
