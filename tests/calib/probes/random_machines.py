"""Machines drawn at random for the simulated device, and what a survey says of them against the truth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from probes.simulated_device import Hidden

from calib.probes.survey import Survey
from memsim.machine import Dram, Level, Machine, Residency

KB, MB = 1024, 1 << 20


def cpu(seed: int) -> tuple[Machine, Hidden]:
    """Two or three write-back levels of 64-byte lines; pages scattered in every other one."""
    rng = np.random.default_rng([seed, 11])
    ways = int(rng.choice([4, 8, 12, 16]))
    replacement = str(rng.choice(["lru", "plru", "random"] if ways & (ways - 1) == 0 else ["lru"]))
    first = _level(
        "L1",
        size_bytes=4096 * ways,  # a way is a page, as on CPUs
        ways=ways,
        replacement=replacement,
        latency_cycles=float(rng.integers(3, 6)),
        bandwidth_bytes_per_cycle=64.0,
        write_policy="write_back",
        write_allocate=str(rng.choice(["fetch_on_write", "none"])),
    )
    second = _level(
        "L2",
        size_bytes=int(rng.choice([128, 256, 512])) * KB,
        ways=int(rng.choice([8, 16])),
        latency_cycles=float(rng.integers(12, 18)),
        bandwidth_bytes_per_cycle=32.0,
        write_policy="write_back",
        write_allocate="fetch_on_write",
    )
    levels = [first, second]
    if rng.random() < 0.5:
        levels.append(
            _level(
                "L3",
                size_bytes=2 * MB,
                ways=16,
                latency_cycles=float(rng.integers(45, 60)),
                bandwidth_bytes_per_cycle=16.0,
                cores_per_instance=2,
                write_policy="write_back",
                write_allocate="fetch_on_write",
            )
        )
    machine = _machine(f"cpu {seed}", levels, n_cores=2, clock_hz=3e9, memory=300.0, max_groups=1)
    return machine, Hidden(
        is_cpu=True,
        scattered=bool(rng.random() < 0.5),
        translation_pages=int(rng.choice([64, 96])),
        translation_ns=float(rng.choice([0.0, 1.5])),
        prefetch_lines=int(rng.choice([0, 4])),
    )


def gpu(seed: int) -> tuple[Machine, Hidden]:
    """A write-through L1 of sectors that each launch finds empty, and an L2 common to all cores."""
    rng = np.random.default_rng([seed, 12])
    first = _level(
        "L1",
        size_bytes=int(rng.choice([16, 24, 48, 96])) * KB,
        line_bytes=128,
        sector_bytes=32,
        fill_bytes=32,
        ways=4,
        set_index=str(rng.choice(["modulo", "xor"])),
        latency_cycles=float(rng.integers(28, 40)),
        bandwidth_bytes_per_cycle=128.0,
    )
    second = _level(
        "L2",
        size_bytes=int(rng.choice([384, 512, 768])) * KB,
        line_bytes=128,
        sector_bytes=32,
        fill_bytes=int(rng.choice([32, 64])),
        ways=16,
        latency_cycles=float(rng.integers(190, 240)),
        bandwidth_bytes_per_cycle=512.0,
        cores_per_instance=4,
        write_policy="write_back",
        write_allocate="lazy_fetch_on_read",
    )
    machine = _machine(
        f"gpu {seed}", [first, second], n_cores=4, clock_hz=1.4e9, memory=500.0, max_groups=16
    )
    return machine, Hidden(is_cpu=False)


def _level(name: str, **values: object) -> Level:
    given: dict[str, object] = {"line_bytes": 64, "sector_bytes": 64, "fill_bytes": 64, **values}
    return Level(name=name, **given)  # type: ignore[arg-type]


def _machine(
    name: str, levels: list[Level], *, n_cores: int, clock_hz: float, memory: float, max_groups: int
) -> Machine:
    return Machine(
        name=name,
        title=name,
        vendor="none",
        n_cores=n_cores,
        clock_hz=clock_hz,
        subgroup_size=8,
        coalesce_lanes=8,
        cycles_per_turn=1.0,
        levels=tuple(levels),
        dram=Dram(
            n_channels=8,
            n_banks=16,
            row_bytes=2048,
            interleave_bytes=256,
            burst_bytes=64,
            latency_cycles=memory,
            row_miss_cycles=0.0,
            row_conflict_cycles=0.0,
            bandwidth_bytes_per_cycle=16.0,
        ),
        residency=Residency(
            max_items=2048,
            max_subgroups=256,
            max_groups=max_groups,
            max_group_items=1024,
            registers=65536,
            max_registers_per_item=255,
            register_unit=8,
            local_memory_bytes=48 * KB,
            local_memory_unit_bytes=64,
        ),
    )


RIGHT, WRONG, SILENT = "right", "wrong", "silent"


def verdicts(survey: Survey, machine: Machine, hidden: Hidden) -> dict[str, str]:
    """What is asked -> right, wrong, or silent where the survey did not tell."""
    return dict(_verdicts(survey, machine, hidden))


def _verdicts(survey: Survey, machine: Machine, hidden: Hidden) -> Iterator[tuple[str, str]]:
    book = survey.book
    found = survey.hierarchy
    levels = found.levels if found else ()
    yield "number of levels", RIGHT if len(levels) == len(machine.levels) else WRONG
    ns = 1e9 / machine.clock_hz
    for k, (told, true) in enumerate(zip(levels, machine.levels, strict=False), 1):
        name = f"L{k}"
        size = told.size_bytes
        yield f"{name} size", SILENT if size is None else _is(size.value == true.size_bytes)
        near = abs(told.latency_ns.value / (true.latency_cycles * ns) - 1) < 0.1
        yield f"{name} latency", _is(near)
        for key in ("line_bytes", "fill_bytes", "ways"):
            finding = book.findings.get(f"levels.{name}.{key}")
            same = finding is not None and finding.value == getattr(true, key)
            yield f"{name} {key}", SILENT if finding is None else _is(same)
        word = book.words.get(f"{name} replacement")
        yield f"{name} replacement", SILENT if word is None else _is(word[0] == true.replacement)
    if found is not None:
        true_ns = machine.dram.latency_cycles * ns + hidden.translation_ns
        yield "memory latency", _is(abs(found.memory_ns.value / true_ns - 1) < 0.1)
    first = machine.levels[0]
    word = book.words.get("L1 write_allocate")
    expected = "none" if first.write_allocate == "none" else "allocates"
    yield "L1 write_allocate", SILENT if word is None else _is(word[0] == expected)
    word = book.words.get("L1 write_policy")
    yield "L1 write_policy", SILENT if word is None else _is(word[0] == first.write_policy)
    word = book.words.get("prefetching")
    yes = word is not None and word[0].startswith("yes")
    yield "prefetching", SILENT if word is None else _is(yes == (hidden.prefetch_lines > 0))
    shared = machine.levels[-1].cores_per_instance > 1
    word = book.words.get("shared copies")
    kept = word is not None and word[0].startswith("kept")
    yield "shared copies", SILENT if word is None else _is(kept == shared)
    cores = book.findings.get("cores")
    yield "cores", SILENT if cores is None else _is(cores.value == machine.n_cores)
    at_once = book.findings.get("groups_at_once")
    true_groups = machine.n_cores * machine.residency.max_groups
    yield "groups at once", SILENT if at_once is None else _is(at_once.value == true_groups)


def _is(right: bool) -> str:
    return RIGHT if right else WRONG
