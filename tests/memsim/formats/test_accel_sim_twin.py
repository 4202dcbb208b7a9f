"""The compiled reader of Accel-Sim's text against a slow one, on random traces of every version."""

from __future__ import annotations

from pathlib import Path
from random import Random

from memsim.formats import read_one
from memsim.trace.model import Trace
from tests.support import accel_sim_twin
from tests.support.accel_sim_twin import Seen

SHARED, LOCAL, GLOBAL = 0x7F0000000000, 0x7F0002000000, 0x7FB000000000
OPCODES = (
    *("LDG.E", "LDG.E.64", "LDG.E.128.CONSTANT.SYS", "LDG.E.U8", "LDG.E.S16", "LD.E", "LDG.E.STRONG.GPU"),
    *("STG.E", "STG.E.128", "ST.E.64", "ATOM.E.ADD", "ATOMG.E.ADD.F64.RN", "RED.E.ADD.F32.FTZ.RN"),
    *("LDS", "STS.64", "LDL", "LDC.64", "LDGSTS.E.BYPASS.128", "ATOMS.ADD", "TEX"),
)  # fmt: skip
OTHERS = ("IMAD.WIDE", "BAR.SYNC.DEFER_BLOCKING", "BAR.ARV", "EXIT", "R2UR", "SHFL.IDX")


def text_of(rng: Random) -> str:
    version = rng.choice((3, 4, 5, 6))
    lines = version > 3 and rng.random() < 0.5
    grid = (rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 2))
    items = rng.choice((1, 32, 33, 96))
    text = [
        "-kernel name = _Z6randomv",
        f"-grid dim = ({grid[0]},{grid[1]},{grid[2]})",
        f"-block dim = ({items},1,1)",
        f"-nregs = {rng.choice((16, 255, 256, 21955))}",
        f"-shmem base_addr = 0x{SHARED:016x}",
        f"-local mem base_addr = 0x{LOCAL:016x}",
        f"-accelsim tracer version = {version}",
        *(["-enable lineinfo = 1"] if lines else []),
        "",
    ]
    blocks = [(x, y, z) for x in range(grid[0]) for y in range(grid[1]) for z in range(grid[2])]
    for x, y, z in rng.sample(blocks, rng.randint(1, len(blocks))):
        text += ["#BEGIN_TB", "", f"thread block = {x},{y},{z}", ""]
        if version >= 5:
            text += ["cluster id = 0,0,0", "cluster rank = 0"]
        warps = range(-(-items // 32))
        for warp in rng.sample(warps, rng.randint(1, len(warps))):
            body = [_line(rng, version, lines) for _ in range(rng.randint(0, 12))]
            text += ["", f"warp = {warp}", f"insts = {len(body)}", *body]
        text += ["", "#END_TB", ""]
    return "\n".join(text)


def _line(rng: Random, version: int, lines: bool) -> str:
    mask = rng.choice((0, 1, 0xFFFFFFFF, 0xFFFF0000, rng.getrandbits(32)))
    opcode = rng.choice(OPCODES if rng.random() < 0.7 else OTHERS)
    to = [f"R{rng.randrange(256)}" for _ in range(rng.randint(0, 2))]
    of = [rng.choice((f"R{rng.randrange(256)}", "UR4")) for _ in range(rng.randint(0, 3))]
    words = [str(rng.randint(1, 999))] if lines else []
    words += [f"{16 * rng.randrange(64):04x}", f"{mask:08x}"]
    words += [str(len(to)), *to, opcode, str(len(of)), *of]
    words += _addresses(rng, mask) if opcode in OPCODES else ["0"]
    if version >= 5:
        words.append(str(rng.randint(-9, 9)))
    if version == 6:
        words += ["0", rng.choice(("NoVal", "Val 1 12 1 7"))]
    return " ".join(words) + rng.choice(("", " "))


def _addresses(rng: Random, mask: int) -> list[str]:
    """Width, mode and addresses."""
    n = mask.bit_count()
    if n == 0:
        return ["4", "1", "0x0", "0"]
    base = rng.choice((GLOBAL, GLOBAL, SHARED, LOCAL)) + rng.randrange(1 << 16)
    mode = rng.randrange(3)
    if mode == 0:
        values = [f"0x{base + rng.randrange(1 << 14):016x}" for _ in range(n)]
    elif mode == 1:
        values = [f"0x{base:x}", str(rng.choice((-64, -4, 0, 1, 4, 8, 16, 36, 512)))]
    else:
        values = [f"0x{base:x}", *(str(rng.randint(-300, 300)) for _ in range(n - 1))]
    return ["4", str(mode), *values]


def seen_in(trace: Trace) -> list[list[Seen | None]]:
    """Of each sub-group, what the twin says of an access; None is a barrier."""
    found = []
    for s in range(trace.n_subgroup):
        own: list[Seen | None] = []
        for i in range(*trace.subgroup_offset[s : s + 2]):
            part = slice(*trace.granule_offset[i : i + 2])
            masks = zip(trace.granule[part].tolist(), trace.byte_mask[part].tolist(), strict=True)
            name = "" if trace.site[i] < 0 else trace.sites[trace.site[i]].name
            own.append(Seen(name, int(trace.lanes[i]), tuple(masks)) if name else None)
        found.append(own)
    return found


def test_random_traces_are_read_as_the_twin_reads_them(tmp_path: Path) -> None:
    path, seen = tmp_path / "kernel-1.traceg", []
    for seed in range(60):
        text = text_of(Random(seed))
        path.write_text(text)
        trace, wanted = read_one(path), accel_sim_twin.read(text)
        assert trace.workgroup.tolist() == [group for group, _ in sorted(wanted)], seed
        assert seen_in(trace) == [wanted[key] for key in sorted(wanted)], seed
        seen += [one for own in wanted.values() for one in own]
    # They hold something: accesses, barriers, and all kinds of memory.
    assert sum(one is not None for one in seen) > 500
    assert sum(one is None for one in seen) > 50
    assert len({one.name.split()[1] for one in seen if one}) > 12
