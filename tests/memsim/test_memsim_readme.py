"""What memsim/README.md shows is what the code has: the table of options, the machine file."""

from __future__ import annotations

import re
from pathlib import Path

import memsim
from memsim.montecarlo.options import ReplayOptions
from tests.support.option_tables import markdown_table
from tests.support.traces import make_trace

README = Path(memsim.__file__).with_name("README.md").read_text(encoding="utf-8")


def test_the_table_of_options_is_that_of_the_declaration() -> None:
    match = re.search(r"<!-- options -->\n(.*?)\n<!-- end of options -->", README, re.DOTALL)
    assert match[1] == markdown_table(ReplayOptions)


def test_the_machine_file_can_be_loaded_and_replayed_on(tmp_path: Path) -> None:
    match = re.search(r"^```toml\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    path = tmp_path / "small.toml"
    path.write_text(match[1])
    machine = memsim.load_machine(path)
    assert machine.level_names == ("L1",)
    assert memsim.replay(make_trace([[[(0, [0])]]]), machine, trials=2).level_names == ("L1",)
