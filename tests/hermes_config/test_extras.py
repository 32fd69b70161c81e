from pathlib import Path

import pytest

from hermes_config.extras import install_line


@pytest.mark.parametrize(
    ("marker", "line"),
    [
        ("pipx_metadata.json", "pipx runpip hermes-gateway install 'hermes-gateway[web]'"),
        ("uv-receipt.toml", "uv pip install --python {python} 'hermes-gateway[web]'"),
        ("", "{python} -m pip install 'hermes-gateway[web]'"),
    ],
)
def test_the_line_fits_how_hermes_was_installed(marker: str, line: str, tmp_path: Path) -> None:
    if marker:
        (tmp_path / marker).touch()
    assert install_line("web", tmp_path) == line.format(python=tmp_path / "bin" / "python")
