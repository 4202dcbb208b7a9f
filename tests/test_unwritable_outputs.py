"""An output that cannot be written is refused in one line before the work starts, and nothing is left behind.

The kernels and inputs of these command lines do not exist, so a command that began with them would say so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import RunMemsim

KERNEL = ("nowhere.py:k", "-m", "v100")
COMMANDS = {
    ("profile", *KERNEL): ("--html", "--json", "--save", "--trace-out"),
    ("predict", *KERNEL): ("--html", "--json", "--plot"),
    ("tune", *KERNEL, "--over", "n=1,2"): ("--html", "--json", "--csv", "--store", "--kernel-tuner", "--t4"),
    ("sweep", *KERNEL, "--set", "n=1,2"): ("--html", "--json", "--csv"),
    ("advise", *KERNEL): ("--html", "--json"),
    ("machines", "measure"): ("--out", "--html"),
    ("machines",): ("--json",),
    ("compile", *KERNEL): ("--out", "--json"),
    ("doctor",): ("--json",),
    ("history", "list", "--store", "nowhere.db"): ("--json",),
    ("history", "ask", "nowhere.py:k"): ("--json",),
    ("replay", "nowhere.trace", "-m", "v100"): ("--html", "--json", "--save"),
    ("trace", *KERNEL): ("--out",),
    ("calibrate", "nowhere.toml"): ("--out",),
    ("count", "nowhere.py:k"): ("--json",),
    ("blocks", "nowhere.py:k"): ("--json", "--plot"),
}  # fmt: skip
CASES = [(command, option) for command, options in COMMANDS.items() for option in options]


@pytest.mark.parametrize(
    ("command", "option"), CASES, ids=[f"{' '.join(c[:1])} {o}" for c, o in CASES]
)
def test_an_output_is_checked_first(
    run_memsim: RunMemsim, tmp_path: Path, command: tuple[str, ...], option: str
) -> None:
    needed = () if option == "--out" or "measure" not in command else ("--out", str(tmp_path / "m"))
    (tmp_path / "folder.png").mkdir()
    for place, rule in (("missing/out.png", "there is no folder"), ("folder.png", "folder")):
        error = run_memsim.refused(*command, *needed, option, str(tmp_path / place))
        assert option in error
        assert rule in error


@pytest.mark.parametrize("option", ["--html", "--json"])
def test_compare_checks_its_outputs_first(
    run_memsim: RunMemsim, tmp_path: Path, option: str
) -> None:
    for name in "ab":
        (tmp_path / f"{name}.nc").write_bytes(b"no netCDF")
    inputs = (str(tmp_path / "a.nc"), str(tmp_path / "b.nc"))
    error = run_memsim.refused("compare", *inputs, option, str(tmp_path / "missing" / "out"))
    assert f"{option} {tmp_path / 'missing' / 'out'} cannot be written: there is no" in error
