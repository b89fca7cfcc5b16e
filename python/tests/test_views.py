"""The typed views: their fields exist in the API, with the same types."""

from __future__ import annotations

import json
import typing
from pathlib import Path
from typing import Any, Dict, List

import pytest

from muster import states, views

SCHEMAS: Dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "docs" / "openapi.json").read_text()
)["components"]["schemas"]

VIEWS = [
    one
    for one in vars(views).values()
    if isinstance(one, type) and one.__module__ == views.__name__
]

#: Names that differ: here a view, there the model that it shows.
SCHEMA_NAMES = {"ExplanationView": "Explanation"}


def test_there_are_views() -> None:
    assert len(VIEWS) > 10


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__)
def test_every_field_is_in_the_api(view: type) -> None:
    schema = SCHEMAS[SCHEMA_NAMES.get(view.__name__, view.__name__)]
    for name, kind in typing.get_type_hints(view).items():
        found = [variant["properties"][name] for variant in _variants(schema) if name in variant["properties"]]
        assert found, f"{view.__name__}.{name} is not in the API"
        assert any(_fits(kind, one) for one in found), f"{view.__name__}.{name} is {found}"


def test_every_outcome_has_a_code_and_words() -> None:
    # By kind: a new one is told here whether it counts as success.
    codes = {
        "succeeded": 0,
        "failed": 3,
        "signaled": 137,
        "out_of_memory": 137,
        "timed_out": 124,
        "cancelled": 130,
        "lost": 125,
        "start_failed": 125,
        "dependency_failed": 125,
        "idle": 0,
        "stopped_early": 0,
        "native": 3,
        "idle_gpus": 125,
    }
    kinds = {variant["properties"]["kind"]["const"] for variant in _variants(SCHEMAS["Outcome"])}
    assert kinds == set(codes)
    for kind, code in codes.items():
        outcome: Any = {"kind": kind, "code": 3, "signal": 9, "says": "native says"}
        assert states.outcome_code(outcome) == code
        assert code == 0 or states.outcome_text(outcome) not in ("", kind)


def test_final_states_are_states() -> None:
    known = {word for one in SCHEMAS["JobState"]["oneOf"] for word in one.get("enum", [one.get("const")])}
    assert states.FINAL < known


def _variants(schema: Dict[str, Any]) -> List[Dict[str, Any]]:
    return schema.get("oneOf") or [schema]


def _fits(kind: Any, schema: Dict[str, Any]) -> bool:
    """Returns whether values of a schema are of a Python type."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        if isinstance(kind, type) and kind in VIEWS:
            return bool(SCHEMA_NAMES.get(kind.__name__, kind.__name__) == name)
        return _fits(kind, SCHEMAS[name])
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return all(_fits(kind, one) for one in options)
    types = schema.get("type", "string" if "const" in schema or "enum" in schema else None)
    if isinstance(types, list):
        return all(_fits(kind, {**schema, "type": one}) for one in types)
    if typing.get_origin(kind) is typing.Union:
        return any(_fits(one, schema) for one in typing.get_args(kind))
    names = {str: "string", int: "integer", bool: "boolean", type(None): "null"}
    if kind in names:
        return bool(types == names[kind])
    origin = typing.get_origin(kind)
    if origin is list:
        return bool(types == "array") and _fits(typing.get_args(kind)[0], schema["items"])
    if origin is dict:
        return bool(types == "object")
    return isinstance(kind, type) and kind in VIEWS and bool(types == "object")
