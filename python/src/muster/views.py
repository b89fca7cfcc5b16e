"""Shapes of the answers that this client reads, as in docs/openapi.json.

Only fields that the client uses or that programs commonly need are named; the dictionaries hold all that
Muster sends. A test compares these classes with the API.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict


class Submitted(TypedDict):
    """Accepted job of a submission."""

    job: int
    name: str
    elements: int


class SubmitResponse(TypedDict):
    """Response to a submission."""

    jobs: List[Submitted]
    warnings: List[str]


class ElementId(TypedDict):
    """Number of a job, and index of the element within its array."""

    job: int
    index: int


class TaskView(TypedDict):
    """Task of an element: one process."""

    rank: int
    group: str
    node: str
    devices: List[int]
    stage: str


class Outcome(TypedDict, total=False):
    """End of an element; `kind` says which other fields are there."""

    kind: str
    rank: int
    code: int
    signal: int
    by: str
    reason: str
    on: int
    after: int
    step: int
    why: str
    state: str
    says: str
    queue: str
    gpus: int
    below_percent: int


class ElementView(TypedDict):
    """Element of a job. Times are milliseconds since the Unix epoch."""

    element: ElementId
    state: str
    attempt: int
    started: Optional[int]
    ended: Optional[int]
    outcome: Optional[Outcome]
    last_end: Optional[Outcome]
    tasks: List[TaskView]


class ArrayView(TypedDict):
    """Numbers of elements of an array, by state."""

    total: int
    waiting: int
    active: int
    succeeded: int
    failed: int


class JobView(TypedDict):
    """Job as in a list of jobs. `gpus` are thousandths, times are milliseconds since the Unix epoch."""

    job: int
    name: str
    user: str
    queue: str
    priority: int
    state: str
    tasks: int
    gpus: int
    time_limit: Optional[int]
    submitted: int
    started: Optional[int]
    ended: Optional[int]
    array: Optional[ArrayView]
    elements: List[ElementView]
    waiting_for: Optional[Dict[str, Any]]
    eta: Optional[int]


class JobList(TypedDict):
    """Jobs at an instant; `revision` grows with every change."""

    now: int
    revision: int
    jobs: List[JobView]


class JobDetail(TypedDict):
    """Job with all details."""

    job: JobView
    now: int
    commands: Optional[Dict[str, str]]
    workdir: Optional[str]
    logs: List[str]


class Eta(TypedDict, total=False):
    """Expected start; it cannot become later if it is `reserved` and not `predicted`, which is there only if true."""

    reserved: bool
    start: int
    predicted: bool


class ExplanationView(TypedDict):
    """Explanation of an element: why it is pending, when it starts, what would start it now."""

    element: ElementId
    name: str
    state: str
    queue: str
    reasons: List[Dict[str, Any]]
    eta: Optional[Eta]
    sooner: List[Dict[str, Any]]
    holders: List[Dict[str, Any]]


class ExplainResponse(TypedDict):
    """Explanation, with the clock that its instants refer to."""

    now: int
    explanation: ExplanationView


class ActionResponse(TypedDict):
    """Response to an action that was taken."""

    message: str


class BulkResult(TypedDict):
    """Result of an action for one job."""

    job: int
    index: Optional[int]
    done: bool
    message: str
    code: Optional[str]
    hints: List[str]
