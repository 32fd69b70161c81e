"""A stand-in for systemd, which tests do not have."""

from pathlib import Path

UNIT = "systemd/user/hermes-gateway.service"
STAND_IN = """\
#!/bin/sh
echo "$(basename $0) $*" >> {calls}
case "$*" in
    *"{failing}"*) echo "no bus" >&2; exit 1;;
    *is-active*) echo {active};;
    *is-enabled*) echo enabled;;
    --version) echo "systemd {version} ({version}.1)";;
esac
"""


class StandIn:
    """Programs of systemd that note how they are called."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._calls = folder / "calls"
        folder.mkdir()
        self.answer()

    def answer(self, *, active: str = "inactive", failing: str = "(nothing)", version: int = 252) -> None:
        for name in ("systemctl", "loginctl", "journalctl"):
            program = self._folder / name
            program.write_text(STAND_IN.format(calls=self._calls, active=active, failing=failing, version=version))
            program.chmod(0o755)

    def take_calls(self) -> list[str]:
        """Return the calls since the last time, without the questions."""
        calls = self._calls.read_text().splitlines() if self._calls.exists() else []
        self._calls.unlink(missing_ok=True)
        return [call for call in calls if " is-" not in call and "--version" not in call]
