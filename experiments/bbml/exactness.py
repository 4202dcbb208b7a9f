"""The exact path: closed forms against runs that count, for all sixteen; and their time at any size."""

from __future__ import annotations

import time
from pathlib import Path

from calib.counting import sizes_of
from experiments.bbml.applications import APPLICATIONS, counter, forms, paper
from experiments.reproduction import Case, Figure


def exact_path(out: Path, quick: bool) -> Figure:
    """Counts per work-item and per sub-group of every block, at a size that runs."""
    cases, wrong, exact, all_blocks, slowest = [], 0, 0, 0, 0.0
    learned = []
    for name, application in APPLICATIONS.items():
        baked = None if application.baked is None else application.small[application.baked[0]]
        workload = application.make(**application.small)
        counts, outputs = counter(name, baked).count(workload, 32)
        assert workload.check is not None
        workload.check(outputs)
        sizes = sizes_of(workload)
        found = forms(name, baked)
        differ = 0
        for form, items, groups in zip(found, counts.by_items, counts.by_subgroups, strict=True):
            if form.by_items is None or form.by_subgroups is None:
                learned.append(f"{name}: '{form.block.text}', because {form.reason}")
                continue
            differ += (form.by_items.at(sizes), form.by_subgroups.at(sizes)) != (items, groups)
        n_exact = sum(form.is_exact for form in found)
        start = time.perf_counter()
        large = dict.fromkeys(sizes, 1 << 20)
        for form in found:
            if form.by_subgroups is not None and application.baked is None:
                form.by_subgroups.at(large)
        slowest = max(slowest, time.perf_counter() - start)
        wrong, exact, all_blocks = wrong + differ, exact + n_exact, all_blocks + len(found)
        cases += [
            Case(
                figure="exact",
                case=name,
                unit="blocks",
                quantity="blocks",
                reference=paper()[name].blocks,
                ours=len(found),
            ),
            Case(
                figure="exact",
                case=name,
                unit="blocks",
                quantity="exact",
                reference=None,
                ours=n_exact,
            ),
            Case(
                figure="exact",
                case=name,
                unit="blocks",
                quantity="differ from a run",
                reference=None,
                ours=differ,
            ),
        ]
    return Figure(
        name="exact",
        title="Closed forms against counting runs",
        source="Table 1 (its blocks are of compiled CUDA, ours of the text that Loopy generates)",
        cases=cases,
        findings=[
            f"{exact} of {all_blocks} blocks have a closed form; {wrong} of them differ from a run,"
            " work-items and sub-groups, all launches added up.",
            f"All blocks of an application at sizes of 2^20: {slowest * 1e3:.1f} ms at most.",
            *(f"Left to learning: {text}." for text in learned),
        ],
    )
