"""Occupancy against NVIDIA's occupancy calculator and hand counts, on both sides of every limit."""

from __future__ import annotations

import dataclasses

import pytest

from memsim.errors import MachineError, ReplayError
from memsim.machine.file import load_machine
from memsim.machine.model import Machine
from memsim.montecarlo.besides import other_groups
from memsim.montecarlo.occupancy import (
    Occupancy,
    levels_for,
    local_memory_carveout,
    resident_groups,
)
from memsim.trace.model import Launch

KIB = 1024


def launch(items: int, registers: int | None = None, local: int = 0) -> Launch:
    sizes = {"n_groups": 1000, "group_items": items, "local_memory_bytes": local}
    return Launch(kernel="k", registers_per_item=registers, **sizes)


def occupancy_of(
    machine: str, items: int, registers: int | None = None, local: int = 0
) -> Occupancy:
    return resident_groups(load_machine(machine), launch(items, registers, local))


@pytest.mark.parametrize(
    ("machine", "items", "registers", "local", "groups", "limited_by"),
    [
        # cc 1.3: 16 registers x 32 lanes x 8 warps = 4096 of 16384 a group: 4. 4096 + 16 bytes of
        # shared memory round up to 4608 of 16384: 3.
        ("c1060", 256, 16, 0, 4, "items"),
        ("c1060", 256, 17, 0, 3, "registers"),  # 4352 -> 4608 of 16384
        ("c1060", 256, 16, 4096, 3, "local memory"),
        # cc 1.3 rounds 3 warps up to 4: 20 x 32 x 4 = 2560, 6 groups.
        ("c1060", 96, 20, 0, 6, "registers"),
        # cc 2.0: 20 registers x 32 = 640 a warp, 25 in each half of 16384: 50 warps, above the 48
        # that fit: 6 groups of 8, full. 21 -> 672 -> 704 a warp, 23 in each half: 46, 5 groups.
        ("c2050", 256, 20, 0, 6, "items"),
        ("c2050", 256, 21, 0, 5, "registers"),
        ("c2050", 256, 63, 0, 2, "registers"),  # 2016 -> 2048 a warp, 8 in each half: 16 warps
        ("c2050", 256, 20, 16 * KIB, 3, "local memory"),
        ("c2050", 256, 20, 16 * KIB + 1, 2, "local memory"),
        # cc 3.5: 32 registers fill it; 33 -> 1056 -> 1280 a warp, 12 in each quarter: 48 warps.
        ("k40c", 256, 32, 0, 8, "items"),
        ("k40c", 256, 33, 0, 6, "registers"),
        ("k40c", 64, 32, 0, 16, "groups"),
        # cc 5.2
        ("titan_x", 128, 128, 0, 4, "registers"),  # 4096 a warp, 4 in each quarter
        # cc 7.0: 64 registers -> 2048 a warp, 8 in each quarter: 32 warps.
        ("v100", 128, 64, 0, 8, "registers"),
        ("v100", 96, 40, 0, 16, "registers"),  # 1280 a warp, 12 in each quarter: 48 warps, not 51
        ("v100", 32, 32, 0, 32, "groups"),
        ("v100", 160, 32, 0, 12, "items"),  # 5 warps: 64 // 5
        ("v100", 256, 255, 0, 1, "registers"),  # 8160 -> 8192 a warp, 2 in each quarter: 8 warps
        ("v100", 256, 32, 33 * KIB, 2, "local memory"),
        ("v100", 256, 32, 96 * KIB, 1, "local memory"),
        # cc 8.0 reserves 1 KiB a group: 49 KiB of 164.
        ("a100", 256, 32, 48 * KIB, 3, "local memory"),
        ("a100", 256, 32, 163 * KIB, 1, "local memory"),
        ("h100", 256, 32, 227 * KIB, 1, "local memory"),
        # CDNA 2: 64 registers, 8 wavefronts a SIMD unit; 65 -> 72 of 512: 7, so 28 wavefronts.
        ("mi210", 256, 64, 0, 8, "items"),
        ("mi210", 256, 65, 0, 7, "registers"),
        ("mi210", 64, 32, 0, 32, "items"),
        # GCN 3: 40 wavefronts; groups of two are bound by the 16 barriers.
        ("r9_fury", 64, 24, 0, 40, "items"),
        ("r9_fury", 128, 24, 0, 16, "groups"),
        ("r9_fury", 256, 25, 0, 9, "registers"),  # 28 of 256: 9 wavefronts a SIMD unit
    ],
)
def test_groups_per_core(
    machine: str, items: int, registers: int, local: int, groups: int, limited_by: str
) -> None:
    result = occupancy_of(machine, items, registers, local)
    assert result.groups_per_core == groups
    assert result.limited_by == limited_by
    assert result.feasible == (groups,)
    lanes = load_machine(machine).subgroup_size
    assert result.subgroups_per_core == groups * -(-items // lanes)
    assert result.limits[limited_by] == groups
    document = result.to_json()
    assert document["groups_per_core"] == document["limits"][limited_by] == groups
    assert document["feasible"] == [groups]


def test_occupancy_ratio() -> None:
    assert occupancy_of("c2050", 256, 21).occupancy == pytest.approx(40 / 48)
    assert occupancy_of("v100", 256, 32).occupancy == 1.0


def test_unknown_registers_leave_it_open() -> None:
    result = occupancy_of("v100", 256)
    assert result.groups_per_core == 8
    assert "registers" not in result.limits
    # A quarter of 16384 registers holds 16, 12, 10, 9, 8, 7, 6, ... warps of 1024, 1280, 1536, ...
    # registers: 64, 48, 40, 36, 32, 28, ... in all, and a group is 8.
    assert result.feasible == (1, 2, 3, 4, 5, 6, 8)


def test_registers_given_replace_the_launchs() -> None:
    machine = load_machine("v100")
    assert resident_groups(machine, launch(256, 32), registers_per_item=64).groups_per_core == 4


def test_groups_given() -> None:
    machine = load_machine("v100")
    result = resident_groups(machine, launch(256), groups_per_core=3)
    assert (result.groups_per_core, result.limited_by, result.feasible) == (3, "given", (3,))
    with pytest.raises(ReplayError, match=r"between 1 and 8 \(limited by items .*, got 9"):
        resident_groups(machine, launch(256), groups_per_core=9)
    with pytest.raises(ReplayError, match="got 0"):
        resident_groups(machine, launch(256), groups_per_core=0)


@pytest.mark.parametrize(
    ("machine", "items", "registers", "local", "message"),
    [
        ("v100", 1025, 32, 0, "a group of 1025 work-items exceeds the 1024 .* by 1$"),
        ("v100", 0, 32, 0, "group_items must be positive, got 0"),
        ("v100", 32, 256, 0, "registers_per_item must be between 1 and 255 on v100, got 256"),
        ("v100", 32, 0, 0, "registers_per_item must be between 1 and 255 on v100, got 0"),
        # 65 -> 2080 -> 2304 a warp, 7 in each quarter: 28 of 32 warps; 73728 of 65536.
        ("v100", 1024, 65, 0, "registers needed 73728, there are 65536, 8192 too few"),
        ("v100", 32, 32, 96 * KIB + 1, "local memory needed 98560 bytes, there are 98304, 256 too"),
        ("a100", 32, 32, 163 * KIB + 1, "local memory needed 168064 bytes, .* 128 too few"),
        ("c1060", 512, 64, 0, "registers needed 32768, there are 16384, 16384 too few"),
    ],
)
def test_no_group_fits(machine: str, items: int, registers: int, local: int, message: str) -> None:
    with pytest.raises(ReplayError, match=message):
        occupancy_of(machine, items, registers, local)


@pytest.mark.parametrize(
    ("machine", "local", "groups", "carveout", "l1"),
    [
        ("v100", 0, 8, 0, 128),
        ("v100", 1, 8, 8, 120),  # 8 x 256 bytes
        ("v100", 8 * KIB, 1, 8, 120),
        ("v100", 8 * KIB + 1, 1, 16, 112),
        ("v100", 32 * KIB, 2, 64, 64),
        ("a100", 0, 8, 8, 184),  # 1 KiB reserved for each group
        ("a100", 163 * KIB, 1, 164, 28),
        ("h100", 0, 8, 8, 240),
        ("c2050", 0, 6, 48, 16),
        ("titan_x", 48 * KIB, 2, 0, 48),  # local memory apart
        ("c1060", 0, 4, 0, 0),  # no cache
    ],
)
def test_carveout(machine: str, local: int, groups: int, carveout: int, l1: int) -> None:
    description = load_machine(machine)
    shape = launch(64, 16, local)
    assert local_memory_carveout(description, shape, groups) == carveout * KIB
    levels = levels_for(description, shape, groups)
    assert len(levels) == len(description.levels)
    assert bool(levels) == bool(l1)
    if levels:
        assert levels[0].size_bytes == l1 * KIB
        kept = "n_ways" if levels[0].carveout_takes == "sets" else "n_sets"
        assert getattr(levels[0], kept) == getattr(description.levels[0], kept)
        assert levels[1:] == description.levels[1:]


def test_carveout_of_accelsim_is_its_cache_string() -> None:
    """S:4:128:64 is what 96 KB of shared memory leave."""
    level = levels_for(load_machine("v100-accelsim"), launch(64, 16, 96 * KIB), 1)[0]
    assert (level.n_sets, level.line_bytes, level.n_ways) == (4, 128, 64)


def test_too_much_for_any_carveout() -> None:
    with pytest.raises(ReplayError, match="local memory of 3 groups takes 147456 bytes"):
        local_memory_carveout(load_machine("v100"), launch(64, 16, 48 * KIB), 3)


def test_registers_that_hold_no_group_at_all() -> None:
    machine = load_machine("v100")
    residency = dataclasses.replace(machine.residency, registers=1024)
    small: Machine = machine.replace(residency=residency)
    with pytest.raises(MachineError, match="registers of v100 do not suffice for a group of 1024"):
        resident_groups(small, launch(1024))


@pytest.mark.parametrize(
    ("registers", "groups", "n_trials", "expected"),
    [
        (None, None, 1, {"over_feasible": [1, 3, 5]}),
        (32, None, 7, {}),
        (32, None, 8, {"over_groups": [1, 3]}),
        (32, None, 32, {"over_groups": [1, 2, 4]}),
        (32, 4, 32, {}),
        (255, None, 32, {"over_groups": []}),
    ],
)
def test_other_numbers_of_groups_are_replayed_where_they_cost_little(
    registers: int | None, groups: int | None, n_trials: int, expected: dict[str, list[int]]
) -> None:
    found = resident_groups(load_machine("v100"), launch(256, registers), groups_per_core=groups)
    others = other_groups(found, n_trials)
    assert others == expected
    assert other_groups(found, n_trials, found.groups_per_core) == expected
    if "over_groups" in expected:
        assert other_groups(found, n_trials, found.groups_per_core - 1) == {}
    assert len(others.get("over_groups", ())) <= n_trials / 4


def test_columns_of_tensor_memory() -> None:
    """A core of a B200 has 512; a V100 has none, so what a launch asks for limits nothing there."""
    asking = [dataclasses.replace(launch(128, 32), tensor_columns=n) for n in (32, 64, 256, 512)]
    found = [resident_groups(load_machine("b200"), one) for one in asking]
    assert [one.groups_per_core for one in found] == [16, 8, 2, 1]
    assert [one.limited_by for one in found] == ["items", *["tensor memory"] * 3]
    assert resident_groups(load_machine("v100"), asking[-1]).limited_by == "items"
    with pytest.raises(
        ReplayError, match="tensor memory needed 544 columns, there are 512, 32 too"
    ):
        resident_groups(load_machine("b200"), dataclasses.replace(asking[0], tensor_columns=544))
