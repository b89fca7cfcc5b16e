"""Writes job files from Python values.

A job file is one field a line, each value as JSON, which is also YAML: errors of Muster's parser then show
the line of the field. No value is checked here: the parser does that, and knows the hints.
"""

from __future__ import annotations

import datetime
import json
import numbers
import os
import re
from typing import Any, Callable, Dict, Mapping, Sequence, Union

from muster.errors import UsageError

#: Text for the shell, program and arguments, or all fields of a job file.
Work = Union[str, Sequence[str], Mapping[str, Any]]

# Characters that JSON leaves as they are and YAML does not accept in text.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")

# JSON is YAML, but a field name is easier to read without quotes.
_PLAIN = re.compile(r"^[A-Za-z][A-Za-z0-9_-]*$")


def write(work: Work, fields: Mapping[str, Any]) -> str:
    """Returns the job file of a command or of fields, with further fields that override them.

    Names of `fields` are those of docs/jobs.md, with `_` for `-`; `None` leaves a field out.
    """
    job: Dict[str, Any] = {}
    if isinstance(work, Mapping):
        job.update(work)
    elif isinstance(work, str):
        job["run"] = work
    elif isinstance(work, Sequence) and not isinstance(work, (bytes, bytearray)):
        job["run"] = list(work)
    else:
        raise UsageError(
            f"a job is a command or the fields of a job file, not {type(work).__name__}",
            hints=[
                "a str is a command for the shell, a list is a program and its arguments, a dict is a job file",
                "to run a function, use submitit: AutoExecutor(folder, cluster='muster')",
            ],
        )
    job.update((name.replace("_", "-"), value) for name, value in fields.items() if value is not None)
    return "".join(_line(name, value) for name, value in job.items())


def _line(name: object, value: object) -> str:
    """Returns the line of a field."""
    adjusted = value if value is None else _ADJUST.get(name, _same)(value)
    line = f"{_key(name)}: {_text(adjusted)}\n"
    try:
        line.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the field {name!r} is not valid Unicode text: {error.object[error.start : error.end]!r}",
            hints=["Python reads bytes that are not UTF-8 like this, as in names of files; a job file is UTF-8"],
            code="usage",
        ) from None
    return line


def _key(name: object) -> str:
    text = str(name)
    return text if _PLAIN.match(text) else _text(text)


def _text(value: object) -> str:
    written = json.dumps(_plain(value), ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", written)


def _plain(value: object) -> object:
    """Returns a value in terms of JSON."""
    if value is None or isinstance(value, (str, bool)):
        return value
    # Numbers of numpy, too.
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, datetime.timedelta):
        return duration(value)
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [_plain(one) for one in value]
    raise UsageError(
        f"a field of a job cannot be {type(value).__name__}: {value!r}",
        hints=["use text, numbers, lists and dicts; timedelta, datetime and paths are written as text"],
    )


def duration(length: datetime.timedelta) -> str:
    """Returns a length of time as in a job file."""
    millis = round(length / datetime.timedelta(milliseconds=1))
    return f"{millis}ms" if millis % 1000 else f"{millis // 1000}s"


def _same(value: object) -> object:
    return value


def _array(value: object) -> object:
    """Returns indices in the notation of arrays: a range or a list of numbers, too."""
    if isinstance(value, range):
        if not value:
            raise UsageError("an array needs at least one index", hints=["for example: array=range(10)"])
        ordered = value if value.step > 0 else value[::-1]
        step = f":{ordered.step}" if ordered.step > 1 else ""
        return f"{ordered[0]}-{ordered[-1]}{step}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(str(index) for index in value)
    return value


def _after(value: object) -> object:
    """Returns dependencies as text; jobs stand for their numbers."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [str(one) for one in value]
    return value if isinstance(value, Mapping) else str(value)


_ADJUST: Dict[object, Callable[[object], object]] = {"array": _array, "after": _after}
