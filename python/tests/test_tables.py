"""Tables of `muster simulate` in Parquet, as pyarrow and DuckDB read them: the same as in CSV."""

from __future__ import annotations

import csv
import subprocess
from pathlib import Path
from typing import Any, Dict, List

import duckdb
import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest

CLUSTER = "nodes: [{name: n1, gpu: a100, gpus: 4, cpus: 64, memory: 512GiB}]\n"

#: Columns that are no doubles.
TYPES = {
    "trace": pyarrow.string(),
    "cluster": pyarrow.string(),
    "queues": pyarrow.string(),
    "variant": pyarrow.string(),
    "limits": pyarrow.string(),
    "scheduler": pyarrow.string(),
    "model_of": pyarrow.string(),
    "seeds": pyarrow.int64(),
    "jobs": pyarrow.int64(),
    "is_partial": pyarrow.bool_(),
}


@pytest.fixture(scope="module", params=["1", "2"], ids=["one seed", "two seeds"])
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the tables of one sweep: with one seed, figures have no margins."""
    folder = tmp_path_factory.mktemp("tables")
    (folder / "größe, \"a\".yaml").write_text(CLUSTER)
    jobs = [f"{job},{job * 600},{1000 + job},9000,1,{1 + job % 4},ann" for job in range(40)]
    (folder / "jobs.csv").write_text("\n".join(["id,submit,runtime,requested,tasks,gpus,user", *jobs]))
    for name in ("sweep.csv", "sweep.parquet"):
        words = ["--trace", "jobs.csv", "--scheduler", "muster,kube-gang", "--load", "1,1.5,2", "--seeds", request.param]
        words += ["--cluster", "größe, \"a\".yaml", "--add-nodes", "1", "--estimates", "requested,predicted"]
        done = subprocess.run(
            ["muster", "simulate", *words, "--table-out", name], cwd=folder, capture_output=True, text=True
        )
        assert done.returncode == 0 and f"wrote the table to {name}\n" in done.stderr, done.stderr
    return folder


def test_pyarrow_reads_the_values_of_the_csv(tables: Path) -> None:
    table = pyarrow.parquet.read_table(tables / "sweep.parquet")
    expected = _rows(tables / "sweep.csv")
    assert len(expected) == 24
    assert table.column_names == list(expected[0])
    for name, kind in zip(table.schema.names, table.schema.types):
        assert kind == TYPES.get(name, pyarrow.float64()), name
    assert table.to_pylist() == expected


def test_duckdb_reads_the_values_of_the_csv(tables: Path) -> None:
    found = duckdb.execute("select * from read_parquet(?)", [str(tables / "sweep.parquet")])
    names = [column[0] for column in found.description]
    assert [dict(zip(names, row)) for row in found.fetchall()] == _rows(tables / "sweep.csv")


def test_values_that_are_missing_are_null(tables: Path) -> None:
    counts = "count(*), count(queues), count(model_of), count(\"waited_secs.mean.margin\"), max(seeds)"
    found = duckdb.execute(f"select {counts} from read_parquet(?)", [str(tables / "sweep.parquet")])
    [(rows, queues, models, margins, seeds)] = found.fetchall()
    assert (rows, queues, models, margins) == (24, 0, 12, 24 if seeds > 1 else 0)


def _rows(path: Path) -> List[Dict[str, Any]]:
    """Rows of a table in CSV, with the types of the columns."""
    with path.open(newline="", encoding="utf-8") as text:
        return [{name: _value(name, field) for name, field in row.items()} for row in csv.DictReader(text)]


def _value(name: str, field: str) -> Any:
    kind = TYPES.get(name, pyarrow.float64())
    if field == "":
        return None
    if kind == pyarrow.string():
        return field
    if kind == pyarrow.bool_():
        return {"true": True, "false": False}[field]
    return int(field) if kind == pyarrow.int64() else float(field)
