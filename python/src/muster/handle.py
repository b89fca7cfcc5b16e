"""Identity of a job in a client: number, index, name. Asks for nothing."""

from __future__ import annotations

from typing import Generic, Iterator, Optional, TypeVar

from muster.connection import Connection
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

    def __iter__(self) -> Iterator[None]:
        # Otherwise Python would take `job[0]`, `job[1]`, ... for its parts, without end.
        raise TypeError("a job cannot be iterated; job[3] is the element with index 3 of an array")

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
