"""Explanations of jobs: the text of `muster explain`, and its parts for programs."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from muster.views import ExplainResponse, ExplanationView


@dataclass(frozen=True)
class Explanation:
    """Answer to why a job is pending, when it starts, and what would start it now.

    `str()` of it is what `muster explain` prints.
    """

    #: What `muster explain` prints.
    text: str
    #: State of the job: `pending`, `running`, ...
    state: str
    #: Results of the checks that keep it from starting. Each has `reason`, such as `capacity` or `quota`, and
    #: numbers that depend on it. Empty for a job that runs or has ended.
    reasons: List[Dict[str, Any]]
    #: Expected start; `None` if it is not known.
    starts: Optional[datetime.datetime]
    #: True if the start is reserved: it may become earlier, not later.
    is_reserved: bool
    #: Changes of the job that would start it now. Each has `kind`, such as `time_limit` or `tasks`.
    sooner: List[Dict[str, Any]]
    #: Everything, as in docs/openapi.json.
    view: ExplanationView

    def __str__(self) -> str:
        return self.text


def explanation(response: ExplainResponse, text: str) -> Explanation:
    """Makes an explanation of its two forms."""
    view = response["explanation"]
    eta = view["eta"]
    return Explanation(
        text=text.rstrip("\n"),
        state=view["state"],
        reasons=view["reasons"],
        starts=None if eta is None else instant(eta["start"]),
        is_reserved=eta is not None and eta["reserved"] and not eta.get("predicted", False),
        sooner=view["sooner"],
        view=view,
    )


def instant(millis: int) -> datetime.datetime:
    """Returns an instant of the API, in the local time zone."""
    return datetime.datetime.fromtimestamp(millis / 1000, datetime.timezone.utc).astimezone()
