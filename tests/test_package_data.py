"""What is installed: every file of the packages that is not a README."""

from __future__ import annotations

from pathlib import Path

import pytest
from setuptools import Distribution

PACKAGES = ("memsim", "tracegen", "calib", "experiments")


@pytest.mark.filterwarnings("ignore:Support for `\\[tool.setuptools\\]`")  # setuptools below 77
def test_a_wheel_contains_every_file_of_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stubs, templates, machine files, models, data and kernels; setuptools lists what it would copy."""
    root = Path(__file__).parents[1]
    monkeypatch.chdir(root)
    distribution = Distribution({"script_name": "setup.py"})
    distribution.parse_config_files()
    # With package data included by default, setuptools would write memsim.egg-info to list files.
    distribution.include_package_data = False
    build = distribution.get_command_obj("build_py")
    build.ensure_finalized()
    modules = {Path(path) for _, _, path in build.find_all_modules()}
    data = {Path(folder) / name for _, folder, _, names in build.data_files for name in names}
    expected = {
        path.relative_to(root)
        for package in PACKAGES
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".md"
    }
    assert {"machine/shipped/v100.toml", "report/base.html.j2", "__init__.pyi", "py.typed"} <= {
        str(path.relative_to("memsim")) for path in expected if path.parts[0] == "memsim"
    }
    assert expected - modules - data == set()
