"""A wheel has everything that Hermes needs, so that `pipx install .` and `uv tool install .` work."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "agent_core",
    "environments",
    "gateway",
    "hermes_cli",
    "hermes_config",
    "hooks",
    "playground",
    "skills",
    "tools",
)
MODULES = ("batch_runner.py", "toolset_distributions.py", "trajectory_compressor.py")
NEEDED = (
    "gateway/store/db/migrations/0001_initial.sql",
    "gateway/web/static/index.html",
    "gateway/web/static/app.js",
    "gateway/web/static/style.css",
    "hooks/builtin/boot/HOOK.yaml",
    "hooks/builtin/boot/handler.py",
    "playground/page/static/index.html",
    "skills/builtin/research/atropos-environments/SKILL.md",
    "skills/builtin/research/atropos-environments/references/running.md",
    "skills/builtin/research/atropos-environments/templates/environment.py",
    "tools/shell_guard/dangers.txt",
    *(f"{package}/py.typed" for package in PACKAGES),
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build from a copy, so that no build folder is left in the checkout; without a network."""
    checkout, built = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("built")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", *MODULES):
        shutil.copy(ROOT / name, checkout)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-index"]
    command = [*pip, "--no-build-isolation", "--no-deps", "--wheel-dir", str(built), str(checkout)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    [wheel] = built.iterdir()
    return wheel


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    packed = set(ZipFile(wheel).namelist())
    files = (file for name in PACKAGES for file in (ROOT / name).rglob("*") if file.is_file())
    wanted = {str(file.relative_to(ROOT)) for file in files if "__pycache__" not in file.parts}
    assert wanted >= set(NEEDED)
    assert not wanted - packed, "pyproject.toml must name them in package-data"
    top = {name.split("/")[0] for name in packed}
    assert {name for name in top if not name.endswith(".dist-info")} == {*PACKAGES, *MODULES}


def test_the_wheel_runs_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """Unpacked beside the dependencies, from an empty folder, with the modules of the checkout out of reach."""
    site, empty = tmp_path / "site", tmp_path / "empty"
    ZipFile(wheel).extractall(site)
    empty.mkdir()
    script = (
        f"import sys; sys.path = [{str(site)!r}] + [p for p in sys.path if p not in ('', {str(ROOT)!r})]; "
        "sys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f)]; "
        "from hermes_cli.main import hermes; import hermes_cli; "
        f"assert hermes_cli.__file__.startswith({str(site)!r}), hermes_cli.__file__; hermes.main(sys.argv[1:])"
    )
    for arguments, expected in {
        ("--help",): "gateway",
        ("chat", "-q", "what is 2+2?"): "4",
        ("hooks", "list"): "boot",
        ("skills", "show", "token-usage"): "## Trigger Conditions",
        ("gateway", "install", "--dry-run"): "ExecStart=",
    }.items():
        command = [sys.executable, "-c", script, *arguments]
        environment = {"HERMES_HOME": str(tmp_path / "home"), "HOME": str(empty), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60, cwd=empty, env=environment
        )
        assert done.returncode == 0, (arguments, done.stderr)
        assert expected in done.stdout, arguments
        assert str(ROOT) not in done.stdout.replace(sys.executable, ""), arguments


def test_the_installed_command_is_named(wheel: Path) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    [entry_points] = [name for name in ZipFile(wheel).namelist() if name.endswith("entry_points.txt")]
    assert f"hermes = {scripts['hermes']}" in ZipFile(wheel).read(entry_points).decode()
