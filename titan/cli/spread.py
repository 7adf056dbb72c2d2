"""Runs independent pieces of work: in this process, in local processes, or on a cluster.

One function for all commands: results come in the order of the work, each as soon as it and its
predecessors are done, and do not depend on where they were computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import click

from titan.foundation.cores import cores

Command = TypeVar("Command", bound=Callable[..., object])
Result = TypeVar("Result")


def spread_options(what: str) -> Callable[[Command], Command]:
    """Adds `--jobs`, whose help begins with `what`, and `--cluster`."""
    options = (
        click.option(
            "-j",
            "--jobs",
            type=click.IntRange(1, 256),
            help=f"{what}; by default one per core, or TITAN_JOBS.",
        ),
        click.option(
            "--cluster",
            metavar="ADDRESS",
            help="Run on a dask.distributed cluster: the address of its scheduler.",
        ),
    )

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def spread(
    call: Callable[..., Result],
    work: Sequence[tuple[object, ...]],
    jobs: int | None = None,
    cluster: str | None = None,
) -> Iterator[Result]:
    """`call` with each of the arguments, in order. Raises click.UsageError for a bad cluster."""
    if cluster is not None:
        yield from _on_cluster(call, work, cluster)
        return
    count = min(cores() if jobs is None else jobs, len(work))
    if count <= 1:
        for arguments in work:
            yield call(*arguments)
        return
    from titan.foundation.workers import worker_pool

    with worker_pool(count) as pool:
        for future in [pool.submit(call, *arguments) for arguments in work]:
            yield future.result()


def _on_cluster(
    call: Callable[..., Result], work: Sequence[tuple[object, ...]], address: str
) -> Iterator[Result]:
    from titan.foundation.cluster import ClusterRefused, cluster

    try:
        with cluster(address) as run:
            yield from run(call, work)
    except ClusterRefused as refused:
        raise click.BadParameter(str(refused), param_hint="--cluster") from None
