"""The machine file of a survey; numbers that were not measured are the driver's, or marked as assumed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from calib.probes.capacity import MeasuredLevel
from calib.probes.outcome import Unclear
from calib.probes.survey import Survey
from memsim.machine import NO_SOURCE, SUBGROUP_SIZES, Dram, Level, Machine, Residency, keys

_DEFAULT_LINE = 64
_MOST_LINE = 256
_GRANULE_BYTES = 32
ASSUMED = "assumed: it could not be measured"


@dataclass
class _Sources:
    of: dict[str, str] = field(default_factory=dict)

    def __call__(self, key: str, value: Any, source: str) -> Any:
        self.of[key] = source
        return value


def machine_of(survey: Survey, name: str) -> Machine:
    """The machine. Raises Unclear where the pointer chase had no result."""
    if survey.hierarchy is None:
        raise Unclear("without a pointer chase there is no machine to write")
    put, book, facts = _Sources(), survey.book, survey.facts
    clock = book.findings.get("clock_hz")
    if clock is not None:
        clock_hz = put("clock_hz", clock.value, clock.source())
    else:
        megahertz = facts["clock, MHz"] or 1000
        clock_hz = put("clock_hz", megahertz * 1e6, "OpenCL: CL_DEVICE_MAX_CLOCK_FREQUENCY")
    to_cycles = clock_hz * 1e-9
    units = _cores(survey, put)
    lanes = 8 if survey.is_cpu else 32
    assert lanes in SUBGROUP_SIZES
    levels: list[Level] = []
    for number, measured_level in enumerate(survey.hierarchy.levels, 1):
        below = levels[-1].line_bytes if levels else _GRANULE_BYTES
        level = _level(survey, put, number, measured_level, units, to_cycles, below)
        if level is not None:
            levels.append(level)
    machine = Machine(
        name=name,
        title=" ".join(survey.device.split()) + ", as measured",
        vendor=survey.device.partition(":")[0] or "unknown",
        n_cores=units,
        clock_hz=clock_hz,
        subgroup_size=put(
            "subgroup_size",
            lanes,
            "assumed: eight lanes of a 256-bit vector"
            if survey.is_cpu
            else "assumed: 32 lanes; OpenCL 1.2 does not report them",
        ),
        coalesce_lanes=put("coalesce_lanes", lanes, "assumed: a whole sub-group"),
        cycles_per_turn=put(
            "cycles_per_turn", 1.0 if survey.is_cpu else 4.0, "assumed: not measured"
        ),
        n_schedulers=put("n_schedulers", 1 if survey.is_cpu else 4, "assumed: not measured"),
        compiler_target=put(
            "compiler_target", facts.get("compiler target", ""), "the device's OpenCL driver"
        ),
        levels=tuple(levels),
        dram=_dram(survey, put, to_cycles),
        residency=_residency(survey, put, lanes, units),
    )
    return machine.replace(sources={key: put.of.get(key, NO_SOURCE) for key in keys(machine)})


def comments_of(survey: Survey) -> list[str]:
    """The comments at the top of the file: the device, findings without a field, and failed probes."""
    lines = [f"Measured by 'memsim machines measure' on {survey.device}, seed {survey.seed}."]
    lines += [survey.busy] if survey.busy else []
    known = ("clock_hz", "levels.")
    for key, finding in survey.book.findings.items():
        if not key.startswith(known) or key.endswith(".bandwidth"):
            lines.append(f"{key}: {finding.value:.6g} {finding.unit}; {finding.source()}")
    lines += [f"{key}: {value} ({how})" for key, (value, how) in survey.book.words.items()]
    lines += [f"{probe}: {why}" for probe, why in survey.book.silent.items()]
    return lines


def _cores(survey: Survey, put: _Sources) -> int:
    """The cores that the driver reports; `source` states whether the measurement agrees."""
    driver = int(survey.facts["compute units"])
    finding = survey.book.findings.get("cores")
    source = "OpenCL: CL_DEVICE_MAX_COMPUTE_UNITS"
    if finding is not None:
        agrees = round(finding.value) == driver
        source = (
            f"{finding.source()}; CL_DEVICE_MAX_COMPUTE_UNITS is equal"
            if agrees
            else f"{source}; not confirmed: {finding.value:.0f} is {finding.how}"
        )
    return int(put("n_cores", driver, source))


class _Geometry(NamedTuple):
    """The geometry of a level, in bytes and ways."""

    line: int
    fill: int
    ways: int
    size: int
    size_source: str


def _geometry(
    survey: Survey, put: _Sources, prefix: str, measured_level: MeasuredLevel, above_line: int
) -> _Geometry | None:
    """Line, fill, ways and size of a level; None where it is smaller than a line."""
    findings = survey.book.findings

    def measured(key: str, default: int, source: str) -> int:
        finding = findings.get(prefix + key)
        if finding is None:
            return int(put(prefix + key, default, source))
        return int(put(prefix + key, int(finding.value), finding.source()))

    default = max(_DEFAULT_LINE, above_line)
    line = measured("line_bytes", default, ASSUMED)
    line = min(max(line, _GRANULE_BYTES), _MOST_LINE)
    fill = measured("fill_bytes", line, "assumed: a line; it could not be measured")
    if fill > line:
        how = findings[prefix + "fill_bytes"].source()
        put(
            prefix + "fill_bytes",
            line,
            f"assumed: a line; neighbouring lines are fetched too ({how})",
        )
    fill = min(max(fill, _GRANULE_BYTES), line)
    ways = measured("ways", 8, ASSUMED)
    if measured_level.size_bytes is not None:
        size, source = int(measured_level.size_bytes.value), measured_level.size_bytes.source()
    else:
        size = int(measured_level.edge_bytes)
        source = "assumed: where the latency begins to rise; the rise has no edge"
    if size < line:
        return None
    # A size is a whole number of sets: where the ways do not divide it, they are the uncertain number.
    most = ways
    while size // line % ways:
        ways -= 1
    if ways != most:
        put(prefix + "ways", ways, f"assumed: the most ways, at most {most}, that divide the size")
    return _Geometry(line, fill, ways, size // (line * ways) * line * ways, source)


def _level(
    survey: Survey,
    put: _Sources,
    number: int,
    measured_level: MeasuredLevel,
    units: int,
    to_cycles: float,
    above_line: int,
) -> Level | None:
    """A level of the machine; None where it is smaller than a line.

    above_line : line size of the level above
    """
    name = f"L{number}"
    prefix = f"levels.{name}."
    geometry = _geometry(survey, put, prefix, measured_level, above_line)
    if geometry is None:
        return None
    latency = measured_level.latency_ns
    speed = survey.book.findings.get(prefix + "bandwidth")
    cycles = f"; {latency.value:.4g} ns at {to_cycles:.4g} GHz"
    allocate, back = _stores(survey, put, prefix, name)
    chosen = survey.book.words.get(f"{name} replacement")
    return Level(
        name=name,
        size_bytes=put(prefix + "size_bytes", geometry.size, geometry.size_source),
        line_bytes=geometry.line,
        sector_bytes=put(
            prefix + "sector_bytes", geometry.fill, "assumed: the bytes that a miss fetches"
        ),
        fill_bytes=geometry.fill,
        ways=geometry.ways,
        replacement=put(
            prefix + "replacement",
            chosen[0] if chosen else "lru",
            f"measured: {chosen[1]}" if chosen else ASSUMED,
        ),
        latency_cycles=put(
            prefix + "latency_cycles", latency.value * to_cycles, latency.source() + cycles
        ),
        bandwidth_bytes_per_cycle=put(
            prefix + "bandwidth_bytes_per_cycle",
            (speed.value / (to_cycles * 1e9)) if speed else 32.0,
            f"{speed.source()}, one core" if speed else "assumed: not measured",
        ),
        cores_per_instance=_sharers(survey, put, number, units, latency.value),
        write_policy=back,
        write_allocate=allocate,
    )


def _sharers(survey: Survey, put: _Sources, number: int, units: int, latency_ns: float) -> int:
    """Cores that share one instance of a level."""
    assert survey.hierarchy is not None
    key = f"levels.L{number}.cores_per_instance"
    outermost = number == len(survey.hierarchy.levels)
    copies = survey.book.words.get("shared copies")
    met = survey.book.findings.get("shared_copies_ns")
    if number == 1:
        return int(put(key, 1, "assumed: each core has its own"))
    if copies is not None and copies[0].startswith("none"):
        return int(
            put(key, 1, f"measured: no core hits lines that another core loaded; {copies[1]}")
        )
    if copies is not None and met is not None and outermost and met.value < 2 * latency_ns:
        return int(
            put(key, units, f"measured: a core hits lines that another core loaded; {copies[1]}")
        )
    shared = (number > 1 and not survey.is_cpu) or number > 2
    how = "assumed: shared by all cores" if shared else "assumed: each core has its own"
    return int(put(key, units if shared else 1, how))


def _stores(survey: Survey, put: _Sources, prefix: str, name: str) -> tuple[Any, Any]:
    """(write_allocate, write_policy) of a level, as the machine file has them."""
    words = survey.book.words
    policy = words.get(f"{name} write_policy")
    back = put(
        prefix + "write_policy",
        policy[0] if policy else "write_back",
        f"measured: {policy[1]}" if policy else ASSUMED,
    )
    allocate = words.get(f"{name} write_allocate")
    if allocate is None:
        return put(prefix + "write_allocate", "fetch_on_write", ASSUMED), back
    value = "none" if allocate[0] == "none" else "fetch_on_write"
    how = "; whether the line is read first is assumed" if value != "none" else ""
    return put(prefix + "write_allocate", value, f"measured: {allocate[1]}{how}"), back


def _dram(survey: Survey, put: _Sources, to_cycles: float) -> Dram:
    assert survey.hierarchy is not None
    latency = survey.hierarchy.memory_ns
    speed = survey.book.findings.get("memory_bandwidth")
    return Dram(
        n_channels=put("dram.n_channels", 2 if survey.is_cpu else 8, ASSUMED),
        n_banks=put("dram.n_banks", 16, ASSUMED),
        row_bytes=put("dram.row_bytes", 8192 if survey.is_cpu else 2048, ASSUMED),
        interleave_bytes=put("dram.interleave_bytes", 256, ASSUMED),
        burst_bytes=put("dram.burst_bytes", 64, ASSUMED),
        latency_cycles=put(
            "dram.latency_cycles",
            latency.value * to_cycles,
            f"{latency.source()}; {latency.value:.4g} ns at {to_cycles:.4g} GHz, rows and address translation included",
        ),
        row_miss_cycles=put("dram.row_miss_cycles", 0.0, "assumed: part of the measured latency"),
        row_conflict_cycles=put(
            "dram.row_conflict_cycles", 0.0, "assumed: part of the measured latency"
        ),
        bandwidth_bytes_per_cycle=put(
            "dram.bandwidth_bytes_per_cycle",
            (speed.value / (to_cycles * 1e9)) if speed else 16.0,
            speed.source() if speed else "assumed: not measured",
        ),
    )


def _residency(survey: Survey, put: _Sources, lanes: int, units: int) -> Residency:
    facts = survey.facts
    items = int(facts["largest group, work-items"])
    groups, source = 1, "assumed: a core works on one group at a time"
    finding = survey.book.findings.get("groups_at_once")
    if finding is not None and not survey.is_cpu:
        groups = max(round(finding.value / units), 1)
        source = f"{finding.source()}, over the cores"
    full = survey.book.findings.get("full_groups_at_once")
    resident, items_source = items, "OpenCL: CL_DEVICE_MAX_WORK_GROUP_SIZE; assumed: one group"
    if full is not None and not survey.is_cpu:
        resident = max(round(full.value / units), 1) * items
        items_source = f"{full.source()}, over the cores"
    local = facts["local memory, bytes"] or 1
    return Residency(
        max_items=put(
            "residency.max_items",
            resident,
            items_source,
        ),
        max_subgroups=put(
            "residency.max_subgroups",
            max(resident // lanes, 1),
            f"{items_source}; over the lanes",
        ),
        max_groups=put("residency.max_groups", groups, source),
        max_group_items=put(
            "residency.max_group_items", items, "OpenCL: CL_DEVICE_MAX_WORK_GROUP_SIZE"
        ),
        registers=put("residency.registers", 65536 if not survey.is_cpu else 1 << 20, ASSUMED),
        max_registers_per_item=put("residency.max_registers_per_item", 255, ASSUMED),
        register_unit=put("residency.register_unit", 8, ASSUMED),
        local_memory_bytes=put(
            "residency.local_memory_bytes", local, "OpenCL: CL_DEVICE_LOCAL_MEM_SIZE"
        ),
        local_memory_unit_bytes=put("residency.local_memory_unit_bytes", 64, ASSUMED),
    )


def default_name(device: str) -> str:
    """A machine name from a device's title, such as `cpu-amd-epyc`."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", device.partition(":")[2] or device).strip("-").lower()
    return plain[:48].strip("-") or "measured"
