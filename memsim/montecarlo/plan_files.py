"""Plans in a folder of flat files, from which worker processes map them.

A folder contains one `.npy` file for each array, in which the plans follow one another, and
`plans.json`. A trace is therefore in memory once for any number of workers, no part of it is pickled,
and ten thousand launches take as many maps as one.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.hierarchy.core_stage import Requests
from memsim.hierarchy.requests import DenseMap
from memsim.machine.file import machine_from_json, machine_to_json
from memsim.montecarlo.plan import Ordering, Plan
from memsim.montecarlo.schedule import Work


def save_plan(plan: Plan, folder: Path) -> None:
    """Write a plan into an existing folder."""
    save_plans([plan], folder)


def load_plan(folder: Path) -> Plan:
    """The plan of a folder that save_plan has written; its arrays are memory maps."""
    return load_plans(folder)[0]


def save_plans(plans: Sequence[Plan], folder: Path) -> None:
    """Write plans of one address space into an existing folder."""
    lengths = {}
    for name in _columns(plans[0]):
        parts = [_columns(plan)[name] for plan in plans]
        lengths[name] = [len(part) for part in parts]
        _save(folder / f"{name}.npy", parts)
    _save(folder / "chunk.npy", [plans[0].space.chunk])
    _save(folder / "array_of_chunk.npy", [plans[0].array_of_chunk])
    machines = {id(plan.machine): plan.machine for plan in plans}
    numbers = {key: number for number, key in enumerate(machines)}
    about = {
        "machines": [machine_to_json(machine) for machine in machines.values()],
        "lengths": lengths,
        "plans": [
            {
                "machine": numbers[id(plan.machine)],
                "resident": plan.resident,
                "n_sites": plan.n_sites,
                "ordering": dataclasses.asdict(plan.ordering),
            }
            for plan in plans
        ],
    }
    (folder / "plans.json").write_text(json.dumps(about), encoding="utf-8")


def load_plans(folder: Path) -> tuple[Plan, ...]:
    """The plans of a folder that save_plans has written; their arrays are memory maps."""
    about = json.loads((folder / "plans.json").read_text(encoding="utf-8"))
    machines = [machine_from_json(text) for text in about["machines"]]
    parts = {name: _parts(_mapped(folder, name), n) for name, n in about["lengths"].items()}
    space, array_of_chunk = DenseMap(_mapped(folder, "chunk")), _mapped(folder, "array_of_chunk")
    plans = []
    for one in about["plans"]:
        own = {name: next(part) for name, part in parts.items()}
        plans.append(
            Plan(
                requests=Requests(**{name: own[name] for name in Requests._fields}),
                space=space,
                machine=machines[one["machine"]],
                work=Work(**{name: own[name] for name in Work._fields}),
                resident=int(one["resident"]),
                n_sites=int(one["n_sites"]),
                ordering=Ordering(**one["ordering"]),
                array_of_chunk=array_of_chunk,
                weight=own["weight"],
                past=own["past"],
                warming=own["warming"],
                nontemporal=own["nontemporal"],
            )
        )
    return tuple(plans)


def _columns(plan: Plan) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a plan that it does not share with other launches."""
    return {
        **plan.requests._asdict(),
        **plan.work._asdict(),
        "weight": plan.weight,
        "past": plan.past,
        "warming": plan.warming,
        "nontemporal": plan.nontemporal,
    }


def _save(path: Path, parts: Sequence[npt.NDArray[Any]]) -> None:
    """Write arrays (n, ...) one after another into one file."""
    shape = (sum(map(len, parts)), *parts[0].shape[1:])
    with open(path, "wb") as file:
        header = {"descr": parts[0].dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            np.ascontiguousarray(part).tofile(file)


def _parts(column: npt.NDArray[Any], lengths: Sequence[int]) -> Iterator[npt.NDArray[Any]]:
    ends = np.cumsum(lengths)
    return (column[end - n : end] for n, end in zip(lengths, ends.tolist(), strict=True))


def _mapped(folder: Path, name: str) -> npt.NDArray[Any]:
    # Mapped copy-on-write: never written to, and of the same type for the compiler as an array in
    # memory, so that workers compile nothing anew.
    return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c", allow_pickle=False))
