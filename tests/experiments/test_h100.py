"""Measurements on an H100: counters that agree with each other, and READMEs that quote the tables."""

from __future__ import annotations

import math
from pathlib import Path

import experiments
from experiments.data_files import rows, source
from experiments.hardware.h100_stencil import SECTOR_BYTES, TABLE, UPDATES, measured


def test_counters_agree_with_each_other() -> None:
    for row in rows(TABLE):
        loads, hits = int(row["l1_load_sectors"]), int(row["l1_load_hit_sectors"])
        # A load that misses L1 is a read of L2, or is merged with another core's (at most 9 % are).
        assert math.isclose(loads - hits, int(row["l2_read_sectors"]), rel_tol=0.09)
        assert int(row["l2_read_hit_sectors"]) <= int(row["l2_read_sectors"])
        # Every point is stored once, with whole sectors or more.
        assert int(row["l1_store_sectors"]) * SECTOR_BYTES >= 8 * UPDATES
        assert int(row["dram_read_bytes"]) >= 8 * UPDATES


def test_one_point_variants_have_a_shape_each() -> None:
    assert len(measured()) == 59
    assert "Nsight Compute" in source(TABLE)


def test_the_readme_quotes_the_errors_of_the_calibrated_models() -> None:
    readme = (Path(experiments.__file__).parent / "README.md").read_text("utf-8")
    table = {(row["figure"], row["case"]): row for row in rows("h100_perflex_ours.csv")}
    for figure, application in (
        ("figure-7", "matrix product"),
        ("figure-8", "DG differentiation"),
        ("figure-9", "finite differences"),
    ):
        linear, overlap = (float(table[figure, case]["ours"]) for case in ("linear", "overlap"))
        assert f"| {application} | {linear:.1f} | {overlap:.1f} | " in readme
