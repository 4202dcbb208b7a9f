"""What is missing, full or read-only around a command: it ends in a result or in one line, and nothing stays.

Each fault is made in a name space of its own, so that nothing outside it changes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.kernel_matrix import KERNELS, PROGRESS
from tests.test_kills import MEMSIM, MODEL, WHOLE

pytestmark = pytest.mark.skipif(
    not shutil.which("unshare"), reason="needs a name space for a broken file system"
)

NAIVE = [f"{KERNELS / 'matmul.py'}:naive"]
ON = ["-m", "v100"]
COMMANDS = {
    "trace": ["trace", *NAIVE, "--set", "n=32", *ON, "-o", "out/t.trace"],
    "replay": ["replay", "k.trace", *ON, "--trials", "4", "--jobs", "2", "--save", "out/r.nc"],
    "profile": [
        *("profile", *NAIVE, "--set", "n=32", *ON, "--trials", "2", "--jobs", "2"),
        *("--html", "out/p.html", "--json", "out/p.json", "--save", "out/p.nc"),
        *("--trace-out", "out/p.trace"),
    ],
    "predict": ["predict", *NAIVE, "--set", "n=32", *ON, "--trials", "2", "--html", "out/q.html"],
    "count": ["count", *NAIVE, "f_op_float32_madd", "--json", "out/c.json"],
    "compile": ["compile", *NAIVE, *ON, "-o", "out/k.ptx"],
    "blocks": ["blocks", *NAIVE, "--json", "out/b.json"],
    "export": ["export", *NAIVE, "--set", "n=32", *ON, "-o", "out/accel-sim"],
    "compare": ["compare", "k.nc", "k.nc", "--html", "out/change.html"],
    "sweep": ["sweep", *NAIVE, *ON, "--set", "n=16,32", "--jobs", "2", "--json", "out/s.json"],
    "tune": [
        *("tune", f"{KERNELS / 'matmul.py'}:tiled", *ON, "--set", "n=32", "--over", "tile=8,16"),
        *("--jobs", "2", "--store", "out/t.db", "--html", "out/t.html"),
    ],
    "calibrate": ["calibrate", "tiny.toml", "--trials", "5", "--trial", "0.005", "-o", "out/f.json"],
    "doctor": ["doctor"],
}  # fmt: skip
FILL = 'head -c 100000 /dev/zero > "{0}/fill" 2> /dev/null'
READ_ONLY = 'mount --bind "{0}" "{0}" && mount -o remount,ro,bind "{0}"'
PLACES = ("/tmp", "/var/tmp", "/usr/tmp", "$PWD")
"""Where Python looks for a folder for temporary files."""
STILL = ("$PWD/out", "$HOME", str(Path(__file__).parents[1]))
"""What can be written still, although it may lie in one of these."""
FAULTS = {
    "no HOME": "unset HOME",
    "a HOME that is not there": "export HOME=/nowhere/at/all",
    "a read-only HOME": READ_ONLY.format("$HOME"),
    "a full HOME": f'mount -t tmpfs -o size=64k none "$HOME" && {FILL.format("$HOME")}; true',
    "no /dev/shm": (
        "mkdir dev && for n in null zero urandom tty; do"
        " touch dev/$n && mount --bind /dev/$n dev/$n; done && mount --rbind dev /dev"
    ),
    "a full /dev/shm": f"mount -t tmpfs -o size=64k none /dev/shm && {FILL.format('/dev/shm')}; true",
    "a TMPDIR that is not there": "export TMPDIR=/nowhere/at/all",
    "nowhere for temporary files": " && ".join(
        [
            *(f"if test -d {one}; then {READ_ONLY.format(one)}; fi" for one in PLACES),
            *(f'mount --bind "{one}" "{one}" && mount -o remount,rw,bind "{one}"' for one in STILL),
            'cd "$PWD"',
        ]
    ),
    "a full folder": f"mount -t tmpfs -o size=16k none out && {FILL.format('out')}; true",
    "a read-only folder": READ_ONLY.format("$PWD/out"),
}
REFUSES = {"a full folder", "a read-only folder"}
"""Where a command that writes has to be refused."""
NO_OUTPUT = {"doctor"}


def make_inputs(folder: Path) -> None:
    folder.mkdir()
    (folder / "tiny.toml").write_text(MODEL)
    traced = ["trace", *NAIVE, "--set", "n=32", *ON, "-o", "k.trace"]
    for words in (traced, ["replay", "k.trace", *ON, "--trials", "2", "--save", "k.nc"]):
        subprocess.run([*MEMSIM, *words], cwd=folder, check=True, capture_output=True)


def check(fault: str, name: str, folder: Path, inputs: Path | None = None) -> None:
    """Runs a command under a fault. Raises AssertionError where it ends otherwise than it should.

    inputs : the folder of the files that it reads; None where it reads none
    """
    work, home, temporary = folder / "work", folder / "home", folder / "tmp"
    if inputs is None:
        work.mkdir()
    else:
        shutil.copytree(inputs, work)
    for place in (work / "out", home, temporary):
        place.mkdir()
    kept = {k: v for k, v in os.environ.items() if k not in ("XDG_CACHE_HOME", "MEMSIM_CACHE_DIR")}
    done = subprocess.run(
        [
            *("unshare", "--user", "--map-root-user", "--mount", "sh", "-c"),
            f'{{ {FAULTS[fault]}; }} || exit 77; "$@"; code=$?; ls -A out; exit $code',
            *("sh", *MEMSIM, *COMMANDS[name]),
        ],
        cwd=work,
        env={**kept, "HOME": str(home), "TMPDIR": str(temporary), "PYTHONSAFEPATH": "1",
             "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )  # fmt: skip
    if done.returncode == 77 or done.stderr.startswith("unshare: "):
        pytest.skip(f"this user may not make {fault} in a name space")
    errors = [line for line in done.stderr.splitlines() if not PROGRESS.fullmatch(line)]
    said = f"{name} with {fault}: {done.returncode}\n{done.stderr}"
    must_fail = fault in REFUSES and name not in NO_OUTPUT
    assert done.returncode == (2 if must_fail else 0), said
    assert len(errors) == must_fail, said
    if must_fail:
        assert "out/" in errors[0], said
        listed = done.stdout.splitlines()[-1:] if fault == "a full folder" else []
        assert listed in ([], ["fill"]), done.stdout
    for path in (work / "out").iterdir():
        assert not path.name.startswith("."), said
        if path.suffix in WHOLE:
            WHOLE[path.suffix](path)
    assert [path for path in temporary.iterdir() if path.name.startswith("mem")] == [], said


@pytest.mark.weekly(3)
@pytest.mark.parametrize(
    ("fault", "name"),
    [("no /dev/shm", "sweep"), ("nowhere for temporary files", "trace"), ("no HOME", "count")],
)
def test_a_fault(fault: str, name: str, tmp_path: Path) -> None:
    check(fault, name, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", FAULTS)
def test_every_command(fault: str, tmp_path: Path) -> None:
    make_inputs(tmp_path / "inputs")
    for name in COMMANDS:
        (tmp_path / name).mkdir()
        check(fault, name, tmp_path / name, tmp_path / "inputs")
