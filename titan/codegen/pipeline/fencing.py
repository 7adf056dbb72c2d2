"""Pipelines with more fences than their form has, and with fewer: edits for comparisons.

Decides no correctness: what comes out is verified like any other pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from titan.codegen.pipeline.document import (
    Block,
    DocumentStatement,
    FenceStatement,
    ForStatement,
    IfStatement,
    IssueStatement,
    PipelineDocument,
    ReadStatement,
    ReleaseStatement,
    StoreStatement,
    WaitStatement,
)

BlockEdit = Callable[[Block], Block]


def conservative(document: PipelineDocument) -> PipelineDocument:
    """A fence at every place where a stage or a tile changes hands: after each wait, after each
    access of threads, before each multiplication and release.

    None right before a bulk store: there it would stand after the barrier of the threads that
    wrote, and the fence of one thread would have to serve all.
    """
    return _edited(document, _fenced)


def _fenced(block: Block) -> Block:
    """The statements of one block with a fence, under the same condition, before or after them."""
    made: list[DocumentStatement] = []
    for number, statement in enumerate(block):
        fence = FenceStatement(when=statement.when)
        begins = isinstance(statement, ReleaseStatement | IssueStatement)
        if begins and made[-1:] != [FenceStatement()]:
            made.append(fence)
        made.append(statement)
        if isinstance(statement, WaitStatement | StoreStatement | ReadStatement):
            following = block[number + 1 : number + 2]
            if not any(isinstance(one, FenceStatement) for one in following):
                made.append(fence)
    return tuple(made)


def fewest(
    document: PipelineDocument, verified: Callable[[PipelineDocument], bool]
) -> PipelineDocument:
    """Without each fence, from the last to the first, that the rest is verified without.

    A pipeline that is not verified as it is keeps all of them.
    """
    for number in reversed(range(count_fences(document))):
        less = without_fence(document, number)
        if verified(less):
            document = less
    return document


def count_fences(document: PipelineDocument) -> int:
    """How many fences the text of the pipeline has."""
    return sum(1 for _, body in document.program for _ in _fences(body))


def _fences(block: Block) -> Iterator[FenceStatement]:
    for statement in block:
        if isinstance(statement, FenceStatement):
            yield statement
        elif isinstance(statement, ForStatement):
            yield from _fences(statement.body)
        elif isinstance(statement, IfStatement):
            yield from _fences((*statement.then, *statement.otherwise))


def without_fence(document: PipelineDocument, number: int) -> PipelineDocument:
    """Without the fence of this number, counted from 0 in the order of the text."""
    seen = iter(range(count_fences(document)))

    def drop(block: Block) -> Block:
        made: list[DocumentStatement] = []
        for statement in block:
            if not isinstance(statement, FenceStatement) or next(seen) != number:
                made.append(_inside(statement, drop))
        return tuple(made)

    return _with_bodies(document, drop)


def _edited(document: PipelineDocument, edit: BlockEdit) -> PipelineDocument:
    """Every block edited, inner ones first."""

    def whole(block: Block) -> Block:
        return edit(tuple(_inside(statement, whole) for statement in block))

    return _with_bodies(document, whole)


def _with_bodies(document: PipelineDocument, edit: BlockEdit) -> PipelineDocument:
    return replace(document, program=tuple((role, edit(body)) for role, body in document.program))


def _inside(statement: DocumentStatement, edit: BlockEdit) -> DocumentStatement:
    """The statement with the block that it holds, if it holds one, edited."""
    if isinstance(statement, ForStatement):
        return replace(statement, body=edit(statement.body))
    if isinstance(statement, IfStatement):
        return replace(statement, then=edit(statement.then), otherwise=edit(statement.otherwise))
    return statement
