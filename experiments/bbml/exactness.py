"""Closed forms of the counts compared with runs that count, for all sixteen applications."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from calib.block_counts import BlockForm
from calib.counting import sizes_of
from experiments.bbml.applications import APPLICATIONS, counter, forms, paper
from experiments.reproduction import Case, Figure

LARGE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Exactness:
    """Numbers of basic blocks of one application.

    different : blocks whose closed form differs from the run, in work-items or sub-groups
    learned : the text of each block without a closed form, and the reason
    large_s : seconds for evaluating all closed forms at sizes of LARGE
    """

    blocks: int
    exact: int
    different: int
    learned: list[str]
    large_s: float


def exact_path(out: Path, quick: bool) -> Figure:
    """Counts per work-item and per sub-group of every block, at a size that is run."""
    results = {name: _examine(name) for name in APPLICATIONS}
    blocks, exact, different = (
        sum(getattr(result, key) for result in results.values())
        for key in ("blocks", "exact", "different")
    )
    slowest_s = max(result.large_s for result in results.values())
    return Figure(
        name="exact",
        title="Closed forms compared with counting runs",
        source="BB-ML, Table 1. Its blocks are those of compiled CUDA, ours of the text that Loopy generates.",
        cases=[case for name, result in results.items() for case in _cases(name, result)],
        findings=[
            f"{exact} of {blocks} blocks have a closed form; {different} of them differ from a run, in"
            " work-items or sub-groups, over all launches.",
            f"All blocks of an application at sizes of 2^20: {slowest_s * 1e3:.1f} ms at most.",
            *(f"Must be learned: {text}." for of in results.values() for text in of.learned),
        ],
    )


def _examine(name: str) -> Exactness:
    application = APPLICATIONS[name]
    baked = None if application.baked is None else application.small[application.baked[0]]
    workload = application.make(**application.small)
    counts, outputs = counter(name, baked).count(workload, 32)
    assert workload.check is not None
    workload.check(outputs)
    sizes = sizes_of(workload)
    block_forms = forms(name, baked)
    different = 0
    learned = []
    for form, items, groups in zip(block_forms, counts.by_items, counts.by_subgroups, strict=True):
        if form.by_items is None or form.by_subgroups is None:
            learned.append(f"{name}: '{form.block.text}', because {form.reason}")
        else:
            different += (form.by_items.at(sizes), form.by_subgroups.at(sizes)) != (items, groups)
    return Exactness(
        blocks=len(block_forms),
        exact=sum(form.is_exact for form in block_forms),
        different=different,
        learned=learned,
        large_s=0.0 if application.baked is not None else _seconds_at_large(block_forms, sizes),
    )


def _seconds_at_large(block_forms: tuple[BlockForm, ...], sizes: Mapping[str, int]) -> float:
    start = time.perf_counter()
    large = dict.fromkeys(sizes, LARGE)
    for form in block_forms:
        if form.by_subgroups is not None:
            form.by_subgroups.at(large)
    return time.perf_counter() - start


def _cases(name: str, result: Exactness) -> list[Case]:
    values = {
        "blocks": (paper()[name].blocks, result.blocks),
        "exact": (None, result.exact),
        "different from a run": (None, result.different),
    }
    return [
        Case(
            figure="exact",
            case=name,
            unit="blocks",
            quantity=quantity,
            reference=reference,
            ours=ours,
        )
        for quantity, (reference, ours) in values.items()
    ]
