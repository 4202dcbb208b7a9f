"""Table 1 against the shipped machines, and occupancies that others published."""

from __future__ import annotations

import pytest

from calib.prediction.latency_hiding_limits import TABLE_1, with_limits
from calib.prediction.time_model import residents
from memsim.errors import MachineError
from memsim.machine.file import load_machine
from memsim.montecarlo.occupancy import resident_groups
from memsim.trace.model import Launch


def test_machines_have_the_limits_of_their_compute_capability() -> None:
    """Both were written down apart, from the paper and from NVIDIA's calculator."""
    assert load_machine("c1060").residency == TABLE_1["1.3"]
    assert load_machine("c2050").residency == TABLE_1["2.0"]


@pytest.mark.parametrize(
    ("capability", "items", "registers", "local", "groups", "subgroups"),
    [
        # Ryoo et al., PPoPP 2008, section 3: 256 threads of 10 registers give three blocks on a
        # GeForce 8800; one register more, and only two fit.
        ("1.0", 256, 10, 0, 3, 24),
        ("1.0", 256, 11, 0, 2, 16),
        # NVIDIA CUDA C Best Practices Guide 4.0, 4.2: 12 registers on 1.0 and 1.1 give five blocks of
        # 128 (83 % of 24 warps), but two of 256 (66 %).
        ("1.0", 128, 12, 0, 5, 20),
        ("1.1", 128, 12, 0, 5, 20),
        ("1.1", 256, 12, 0, 2, 16),
        # Table 3 of the paper, with its kernels' 10 and 13 registers and shared memory.
        ("1.3", 64, 10, 32, 8, 16),
        ("1.3", 256, 10, 32, 4, 32),
        ("1.3", 64, 13, 544, 8, 16),
        ("1.3", 256, 13, 2080, 4, 32),
    ],
)
def test_published_occupancies(
    capability: str, items: int, registers: int, local: int, groups: int, subgroups: int
) -> None:
    machine = with_limits(load_machine("c1060"), capability)
    launch = Launch(
        kernel="k",
        n_groups=10_000,
        group_items=items,
        registers_per_item=registers,
        local_memory_bytes=local,
    )
    found = resident_groups(machine, launch)
    assert (found.groups_per_core, found.subgroups_per_core) == (groups, subgroups)
    resident = residents(machine, launch, found)
    assert resident.subgroups == subgroups
    assert resident.rounds == 10_000 / (groups * machine.n_cores)


@pytest.mark.parametrize(("items", "groups", "percent"), [(128, 12, 75), (320, 4, 62.5)])
def test_a_published_occupancy_of_today(items: int, groups: int, percent: float) -> None:
    """NVIDIA CUDA C++ Best Practices Guide, 11.1: 37 registers on compute capability 7.0."""
    launch = Launch(kernel="k", n_groups=10_000, group_items=items, registers_per_item=37)
    found = resident_groups(load_machine("v100"), launch)
    assert found.groups_per_core == groups
    assert 100 * found.occupancy == percent


def test_another_compute_capability_is_refused() -> None:
    with pytest.raises(MachineError, match=r"must be one of 1\.0, 1\.1, 1\.2, 1\.3, 2\.0, got 9"):
        with_limits(load_machine("c1060"), "9.0")
