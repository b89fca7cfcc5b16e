"""Jobs as they are named: by number, or by number and index in an array."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional

# `3`, `3[7]`, and `3_7` as in Slurm.
_FORMS = re.compile(r"(\d+)(?:\[(\d+)\]|_(\d+))?$")


@dataclass(frozen=True)
class Target:
    """Job, or one element of an array."""

    job: int
    index: Optional[int] = None

    def __str__(self) -> str:
        return str(self.job) if self.index is None else f"{self.job}[{self.index}]"


def parse(text: str) -> Optional[Target]:
    """Returns the target that a text names by number; `None` for the name of a job."""
    found = _FORMS.match(text)
    if found is None:
        return None
    index = found.group(2) or found.group(3)
    return Target(int(found.group(1)), None if index is None else int(index))
