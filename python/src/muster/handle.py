"""Identity of a job in a client: number, index, name. Does no I/O."""

from __future__ import annotations

import operator
from typing import Any, Generic, Iterable, List, Optional, SupportsIndex, TypeVar

from muster.connection import Connection
from muster.errors import UsageError
from muster.place import Place
from muster.target import Target
from muster.views import JobView

C = TypeVar("C", bound=Connection)


class Handle(Generic[C]):
    """Base of the jobs of both clients. It may be pickled."""

    def __init__(self, client: C, target: Target, name: str, view: Optional[JobView] = None) -> None:
        self.client = client
        self.target = target
        self.name = name
        self._view = view

    @property
    def id(self) -> int:
        """Number of the job."""
        return self.target.job

    @property
    def index(self) -> Optional[int]:
        """Index of the element of an array; `None` for a whole job."""
        return self.target.index

    # Otherwise Python would take `job[0]`, `job[1]`, ... for its parts, without end.
    __iter__ = None

    def _element(self, index: SupportsIndex) -> Target:
        """Returns the target of an element of this array."""
        number = operator.index(index)
        if self.index is not None:
            raise UsageError(f"{self} is an element of an array, which has no elements", code="usage")
        if number < 0:
            raise UsageError(
                f"the index of an element cannot be negative: {number}",
                hints=["an index is one of those in `array`, not a position in a list"],
                code="usage",
            )
        return Target(self.id, number)

    def __str__(self) -> str:
        return str(self.target)

    def __repr__(self) -> str:
        return f"<Job {self} {self.name}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Handle):
            return NotImplemented
        return self.target == other.target and self.client.place == other.client.place

    def __hash__(self) -> int:
        return hash((self.target, self.client.place))


def targets_in(place: Place, jobs: Iterable[Handle[Any]]) -> List[Target]:
    """Returns the targets of jobs; raises `UsageError` for a job that is not in this place."""
    found = list(jobs)
    if any(job.client.place.cluster != place.cluster for job in found):
        raise UsageError(
            "all jobs must be of one cluster",
            hints=["wait for the jobs of each client separately"],
            code="usage",
        )
    return [job.target for job in found]
