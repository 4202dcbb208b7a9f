"""A cache's option of gpgpusim.config as a Level, and what a Level cannot express of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memsim.formats.gpgpusim.config import CacheLine, Option, parse_cache
from memsim.formats.gpgpusim.coverage import OptionUse

Note = Callable[[Option, str], None]
"""Called for what is not modelled as the option says."""
Sourced = dict[str, tuple[Any, str]]
"""Field -> (value, source)."""

_REPLACEMENT = {"L": "lru", "F": "fifo"}
_ALLOCATE = {
    "N": "none",
    "W": "update_memory_and_fetch",
    "F": "fetch_on_write",
    "L": "lazy_fetch_on_read",
}
_INDEX = {"L": "modulo", "P": "ipoly", "X": "xor_next", "H": "fermi", "C": "modulo"}
# -gpgpu_memory_partition_indexing
_PARTITION: Mapping[int, tuple[str, str]] = {
    0: ("modulo", ""),
    1: ("xor_next", ""),
    2: ("ipoly", ""),
    3: ("xor_next", "PAE (3)"),
    4: ("ipoly", "random (4)"),
    5: ("modulo", "custom (5)"),
}


def policies(cache: CacheLine, option: Option, note: Note) -> Sourced:
    """Line, sectors, replacement, writing, index and MSHRs of a cache."""
    source = option.source
    if cache.index == "C":
        note(option, "set index custom (C); modulo in its place")
    fields: Sourced = {
        "line_bytes": (cache.line_bytes, source),
        "sector_bytes": (cache.sector_bytes, source),
        "fill_bytes": (cache.sector_bytes, source),
        "replacement": (_REPLACEMENT[cache.replacement], source),
        "write_policy": ("write_back" if cache.write == "B" else "write_through", source),
        "write_allocate": (_ALLOCATE[cache.write_allocate], source),
        "write_hit": ("evict" if cache.write in "EL" else "update", source),
        "set_index": (_INDEX[cache.index], source),
    }
    if cache.write == "R":
        note(option, "read only (R): stores pass by, as written through without allocation")
        fields["write_allocate"] = ("none", source)
    if cache.write == "L":
        note(
            option,
            "write-back of local memory (L): local memory is not traced; global stores evict",
        )
    if cache.write_allocate == "W":
        note(option, "a store's fetched line (W) is clean here; that simulator marks it modified")
    if cache.allocate in "fs":
        _allocate_on_fill(fields, cache, option, note)
    if cache.mshr in "FT":
        note(option, f"FIFO of a texture cache ({cache.mshr}); the model has associative MSHRs")
    note(
        option,
        f"merging of at most {cache.mshr_merge} requests in an MSHR; the model merges any number",
    )
    if cache.miss_queue:
        note(option, f"miss queue of {cache.miss_queue}; the model has no separate bound")
    return fields


def _allocate_on_fill(fields: Sourced, cache: CacheLine, option: Option, note: Note) -> None:
    """Sets allocation on fill. The simulator refuses it where stores dirty the cache, because it would
    deadlock, and with F and L; the model does not have it together with W."""
    if cache.write == "B" or cache.write_allocate in "FL":
        option.fail("allocate on miss (m) where it writes back, or fetches for stores (F, L)")
    if fields["write_allocate"][0] != "none":
        note(option, f"allocation on fill ({cache.allocate}) with W; the model allocates on a miss")
        return
    fields["allocate"] = ("on_fill", option.source)


def partition_index(option: Option | None, note: Note) -> tuple[str, str]:
    """(index function of slices and channels, its source)."""
    if option is None:
        return "modulo", "GPGPU-Sim's default: consecutive partitions"
    name, missing = _PARTITION[option.integer(0, 5)]
    if missing:
        note(option, f"partition indexing {missing}; {name} in its place")
    return name, option.source


def first_level(options: OptionUse) -> Sourced | None:
    option = options.get("gpgpu_cache:dl1")
    cache = parse_cache(option) if option is not None else None
    if option is None or cache is None:
        options.used |= {"gpgpu_l1_banks", "gpgpu_l1_latency"} & set(options.options)
        return None
    fields = policies(cache, option, options.note)
    fields["latency_cycles"] = _l1_latency(options)
    banks = options.integer("gpgpu_l1_banks", 1, 1, 1 << 10)
    port = cache.port_bytes or cache.line_bytes
    port_source = options.sources("gpgpu_l1_banks", "gpgpu_cache:dl1")
    fields["bandwidth_bytes_per_cycle"] = (
        float(banks * port),
        f"{port_source}: the data ports of the banks",
    )
    fields["tags_per_cycle"] = (float(banks), f"{port_source}: a look-up a bank and cycle")
    lines = cache.n_sets * cache.ways if cache.allocate == "s" else cache.mshr_entries
    fields["pending_requests"] = (lines, option.source)
    fields["cores_per_instance"] = (1, "GPGPU-Sim: every core has its own")
    skips = options.get("gpgpu_gmem_skip_L1D", "gmem_skip_L1D")
    if skips is not None:
        fields["caches_loads"] = (skips.integer(0, 1) == 0, skips.source)
    fields["size_bytes"] = (cache.size_bytes, option.source)
    fields["ways"] = (cache.ways, option.source)
    adaptive = options.get("gpgpu_adaptive_cache_config")
    if adaptive is not None and adaptive.integer(0, 1):
        _adapt(options, fields, cache, option)
    return fields


def _l1_latency(options: OptionUse) -> tuple[float, str]:
    option = options.get("gpgpu_l1_latency")
    if option is None:
        return 1.0, "assumed: GPGPU-Sim's default, one cycle"
    return float(option.integer(1, 1 << 20)), option.source


def _adapt(options: OptionUse, fields: Sourced, cache: CacheLine, option: Option) -> None:
    """An L1 that gets what local memory leaves of their common storage, in ways."""
    unified = options.get("gpgpu_unified_l1d_size")
    shares = options.get("gpgpu_shmem_option")
    if unified is None or shares is None:
        options.note(
            option, "adaptive carve-out without -gpgpu_unified_l1d_size and -gpgpu_shmem_option"
        )
        return
    storage = unified.integer(1, 1 << 20) * 1024
    unit = cache.n_sets * cache.line_bytes
    if storage % unit:
        unified.fail(f"be a multiple of one way of -gpgpu_cache:dl1, {unit} bytes")
    takes = sorted({int(kb) * 1024 for kb in shares.numbers(",")})
    fits = [taken for taken in takes if taken < storage and (storage - taken) % unit == 0]
    for taken in takes:
        if taken not in fits:
            options.note(shares, f"{taken // 1024} KB, which leaves the L1 no whole number of ways")
    if not fits:
        return
    source = options.sources(
        "gpgpu_adaptive_cache_config", "gpgpu_unified_l1d_size", "gpgpu_shmem_option"
    )
    size = storage - fits[0]
    fields["size_bytes"] = (size, f"{source}, -{option.name} {option.value}")
    fields["ways"] = (size // unit, f"{source}, -{option.name} {option.value}")
    fields["storage_bytes"] = (storage, unified.source)
    fields["bank_bytes"] = (4, "GPGPU-Sim: local memory has banks of 32-bit words")
    fields["local_carveouts_bytes"] = (tuple(fits), shares.source)
    fields["carveout_takes"] = ("ways", "GPGPU-Sim: the number of sets stays")


def second_level(
    options: OptionUse, n_cores: int, clock_ratio: float, hit_cycles: float
) -> Sourced | None:
    option = options.get("gpgpu_cache:dl2")
    cache = parse_cache(option) if option is not None else None
    texture = options.get("gpgpu_cache:dl2_texture_only")
    n_mem = options.need("gpgpu_n_mem").integer(1, 1 << 16)
    n_slices = n_mem * options.integer("gpgpu_n_sub_partition_per_mchannel", 1, 1, 1 << 10)
    if option is None or cache is None:
        return None
    if texture is not None and texture.integer(0, 1):
        options.note(texture, "an L2 for textures alone: global memory has none here")
        return None
    fields = policies(cache, option, options.note)
    slices = options.sources("gpgpu_n_mem", "gpgpu_n_sub_partition_per_mchannel")
    sized = f"{slices}, -{option.name} {option.value}"
    fields["size_bytes"] = (cache.size_bytes * n_slices, sized)
    fields["ways"] = (cache.ways, option.source)
    fields["n_slices"] = (n_slices, slices)
    fields["slice_index"] = partition_index(
        options.get("gpgpu_memory_partition_indexing"), options.note
    )
    fields["cores_per_instance"] = (n_cores, "GPGPU-Sim: one L2 for all")
    rop = options.get("gpgpu_l2_rop_latency", "rop_latency")
    if rop is None:
        fields["latency_cycles"] = (
            hit_cycles + 85.0,
            "assumed: L1 latency and GPGPU-Sim's default of 85, the network unloaded",
        )
    else:
        fields["latency_cycles"] = (
            hit_cycles + rop.integer(0, 1 << 20),
            f"assumed: L1 latency and {rop.source}, the network unloaded",
        )
    port = cache.port_bytes or cache.line_bytes
    fields["bandwidth_bytes_per_cycle"] = (
        n_slices * port * clock_ratio,
        f"{sized}: a data port a slice and cycle of the L2",
    )
    fields["tags_per_cycle"] = (
        n_slices * clock_ratio,
        "assumed: one look-up a slice and cycle",
    )
    fields["pending_requests"] = (n_slices * cache.mshr_entries, sized)
    fields["line_atomic_cycles"] = (
        1.494,
        "assumed: in cycles as the H200: atomic additions of integers to one word, "
        "1.325 in a nanosecond",
    )
    fields["line_float_atomic_cycles"] = (3.595, "assumed: in cycles as the V100")
    return fields
