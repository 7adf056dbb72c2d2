"""Work on a cluster of dask.distributed (extra `cluster`), for those who have one.

A worker that dies loses nothing: the scheduler gives its work to another one. Workers must run the
same TITAN, which is compared by a hash of its files before anything is sent; what they answer is
believed as an answer of a process on this machine is. Give each worker one thread: budgets of
processor time are those of a process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from titan.foundation.errors import UserError
from titan.foundation.extras import brought_by
from titan.foundation.kept import code_digest

Result = TypeVar("Result")
Run = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], Iterator[Any]]
CONNECT_SECONDS = 10


class ClusterRefused(UserError):
    """There is no such cluster, or its workers run another TITAN."""


@contextmanager
def cluster(address: str) -> Iterator[Run]:
    """A function that runs work on the cluster, results in order. Raises ClusterRefused."""
    try:
        from distributed import Client
    except ImportError:
        text = f"dask.distributed is not installed: {brought_by('cluster')}"
        raise ClusterRefused(text) from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ClusterRefused(f"{address}: {str(error) or 'no scheduler answers'}") from None
    try:
        _compare(client)
        yield lambda call, work: _run(client, call, work)
    finally:
        client.close(timeout=CONNECT_SECONDS)


def _compare(client: Any) -> None:
    """All workers run this TITAN. Raises ClusterRefused."""
    try:
        found = client.run(code_digest)
    except ImportError:
        raise ClusterRefused("its workers have no TITAN") from None
    if not found:
        raise ClusterRefused("it has no worker")
    other = [name for name, digest in found.items() if digest != code_digest()]
    if other:
        raise ClusterRefused(f"{len(other)} of its {len(found)} workers run another TITAN")


def _run(client: Any, call: Callable[..., Any], work: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    from distributed import KilledWorker

    futures = [client.submit(call, *arguments, pure=False) for arguments in work]
    try:
        for future in futures:
            try:
                yield future.result()
            except KilledWorker:
                raise ClusterRefused("several of its workers have died on the same work") from None
    finally:
        client.cancel(futures, force=True)
