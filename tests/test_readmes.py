"""The READMEs: their examples run, their links lead somewhere, and CI runs what they tell users to."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from memsim import disk_cache
from memsim.commands.cli import main, memsim
from tracegen.tools.cache import KIND

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
ALL = sorted(
    path
    for package in (".", "memsim", "tracegen", "calib", "experiments")
    for path in (ROOT / package).glob("README.md" if package == "." else "**/README.md")
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"(?:#|//|!) ([\w.]+\.(?:py|cl|cu|floopy|toml|csv))$")


def run_block(language: str, text: str, namespace: dict[str, object]) -> None:
    """A file is written, Python is executed, and `memsim` lines of a shell are run."""
    named = FILE_NAME.match(text.partition("\n")[0])
    if named:
        Path(named[1]).write_text(text, encoding="utf-8")
    elif language == "python":
        exec(compile(text, "README.md", "exec"), namespace)
    elif language == "sh":
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["memsim"]:
                errors = io.StringIO()
                with contextlib.redirect_stderr(errors):
                    code = main(words[1:])
                assert code == 0, f"{line}: {errors.getvalue()}"


@pytest.mark.parametrize("path", ALL, ids=[str(path.relative_to(ROOT).parent) for path in ALL])
def test_the_examples_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All blocks of a README run one after the other in one empty folder.

    What is kept between runs is a README's own, but for the compilers' output: its keys have all that it depends on.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    compiled = disk_cache.folder(KIND)
    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path / "cache"))
    if compiled is not None:
        (tmp_path / "cache").mkdir()
        (tmp_path / "cache" / KIND).symlink_to(compiled)
    modules = set(sys.modules)
    namespace: dict[str, object] = {"__name__": "example"}
    blocks = BLOCK.findall(path.read_text(encoding="utf-8"))
    try:
        for language, text in blocks:
            run_block(language, text, namespace)
    finally:
        for file in tmp_path.glob("*.py"):
            if file.stem not in modules:
                sys.modules.pop(file.stem, None)
    if path.parent == ROOT:
        assert {language for language, _ in blocks} == {"python", "c", "fortran", "sh"}
        assert "NVIDIA Tesla V100" in (tmp_path / "gather.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", ALL, ids=[str(path.relative_to(ROOT).parent) for path in ALL])
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w\- ]", "", line.lstrip("# ")).lower().replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in headings, target
        elif not target.startswith("http"):
            assert (path.parent / target.partition("#")[0]).exists(), target


def test_every_package_has_a_readme_and_users_need_only_the_first() -> None:
    assert len(README.splitlines()) <= 250
    for package in ("memsim", "tracegen", "calib", "experiments"):
        assert (ROOT / package / "README.md").is_file()
        assert f"]({package}/README.md)" in README


def commands() -> list[str]:
    """The shell lines of the README that install something."""
    return re.findall(r"^    (bash \.ci/install.*)$", README, re.MULTILINE)


def test_two_commands_do_everything_and_ci_runs_the_second() -> None:
    first, second = commands()
    assert "memsim profile" in first
    assert "pytest" in second
    assert second in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_first_command_is_one_that_memsim_understands() -> None:
    arguments = shlex.split(commands()[0].partition("memsim ")[2])
    with memsim.make_context("memsim", arguments, resilient_parsing=False) as ctx:
        name, command, rest = memsim.resolve_command(ctx, arguments)
        assert name == "profile"
        parsed = command.make_context(name, rest, parent=ctx)
    assert parsed.params["settings"] == [{"matrix": "fem"}]
    kernel_file = parsed.params["spec"].partition(":")[0]
    assert (ROOT / kernel_file).is_file()


def test_every_command_is_in_the_readme_and_the_other_way_round() -> None:
    cells = re.findall(r"^\| (`memsim .*?) \| ", README, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`memsim (\w+)", cell)}
    with memsim.make_context("memsim", [], resilient_parsing=True) as ctx:
        assert named == set(memsim.list_commands(ctx))


def test_the_screenshot_is_small() -> None:
    (picture,) = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    data = (ROOT / picture).read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) < 200_000
