"""Lines for machines and for people, without secrets in either."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from gateway import logs

TOKEN = "123456:AAbbCCdd-very.secret+token"
SHORT = "abc"


@pytest.fixture(autouse=True)
def _structlog_as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def lines(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    out, err = capfd.readouterr()
    assert out == ""
    return [json.loads(line) for line in err.splitlines()]


def configure(style: str = "json", level: str = "info") -> Any:
    logs.configure(level=level, style=style, secrets=[TOKEN, SHORT, ""])  # type: ignore[arg-type]
    return structlog.get_logger()


def test_a_line_is_one_json_object_with_its_fields(capfd: pytest.CaptureFixture[str]) -> None:
    log = configure()
    with structlog.contextvars.bound_contextvars(session="telegram:dm:1", turn="t1"):
        log.info("turn resumed", resumes=2, name="Zoë\nB")
    [line] = lines(capfd)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "turn resumed",
        "level": "info",
        "resumes": 2,
        "name": "Zoë\nB",
        "session": "telegram:dm:1",
        "turn": "t1",
    }


def test_without_a_terminal_auto_means_json(capfd: pytest.CaptureFixture[str]) -> None:
    configure("auto").info("hello")
    assert lines(capfd)[0]["event"] == "hello"


def test_less_important_lines_are_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    log = configure(level="warning")
    log.info("chatter")
    log.warning("trouble")
    assert [line["event"] for line in lines(capfd)] == ["trouble"]


class Odd:
    def __repr__(self) -> str:
        return f"Odd({TOKEN})"


@pytest.mark.parametrize(
    "value",
    [
        f"https://api.example/bot{TOKEN}/getMe",
        {"headers": {"Authorization": f"Bearer {TOKEN}"}},
        {TOKEN: "as a key"},
        [f"x{TOKEN}", (TOKEN,)],
        {TOKEN},
        RuntimeError(f"refused {TOKEN}"),
        Odd(),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("style", ["json", "pretty"])
def test_a_secret_in_a_field_is_hidden(style: str, value: object, capfd: pytest.CaptureFixture[str]) -> None:
    configure(style).info("request", value=value, count=3)
    err = capfd.readouterr().err
    assert TOKEN not in err
    assert "[hidden]" in err
    assert "3" in err


def test_a_secret_in_the_event_itself_is_hidden(capfd: pytest.CaptureFixture[str]) -> None:
    configure().info(f"token {TOKEN}")
    assert lines(capfd)[0]["event"] == "token [hidden]"


def test_what_is_too_short_for_a_secret_hides_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    configure().info("the abc of it")
    assert lines(capfd)[0]["event"] == "the abc of it"


def fail(password: str) -> None:
    local = f"local {password}"
    raise RuntimeError(f"refused {TOKEN} {len(local)}")


@pytest.mark.parametrize("style", ["json", "pretty"])
def test_tracebacks_show_neither_secrets_nor_local_variables(style: str, capfd: pytest.CaptureFixture[str]) -> None:
    log = configure(style)
    try:
        fail("".join(["hunt", "er2"]))
    except RuntimeError:
        log.exception("turn failed")
    err = capfd.readouterr().err
    assert "Traceback" in err
    assert "in fail" in err
    assert "refused [hidden]" in err
    assert TOKEN not in err
    assert "hunter2" not in err


def test_pretty_lines_are_for_people(capfd: pytest.CaptureFixture[str]) -> None:
    configure("pretty").warning("platform unavailable", account="socket")
    err = capfd.readouterr().err
    assert "platform unavailable" in err
    assert "socket" in err
    assert not err.lstrip().startswith("{")


def test_without_secrets_fields_stay_as_they_are(capfd: pytest.CaptureFixture[str]) -> None:
    logs.configure(level="debug", style="json", secrets=[])
    structlog.get_logger().debug("hello", fields={"a": [1, None, True, 1.5]})
    assert lines(capfd)[0]["fields"] == {"a": [1, None, True, 1.5]}


def test_what_libraries_log_passes_the_same_filter(capfd: pytest.CaptureFixture[str]) -> None:
    configure()
    try:
        raise ValueError(f"the key {TOKEN} is wrong")
    except ValueError:
        logging.getLogger("aiohttp.server").exception("no luck with %s", TOKEN)
    [line] = lines(capfd)
    assert (line["level"], line["logger"], line["event"]) == ("error", "aiohttp.server", "no luck with [hidden]")
    assert "the key [hidden] is wrong" in line["exception"]


def test_a_log_file_gets_the_lines_and_the_terminal_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "logs" / "hermes.log"
    logs.configure(level="warning", style="auto", secrets=[TOKEN], to=logs.LogFile(path, max_bytes=200))
    assert not path.parent.exists()
    for number in range(5):
        structlog.get_logger().warning("trouble", number=number, token=TOKEN)
    assert capfd.readouterr() == ("", "")
    older = path.with_suffix(".log.1").read_text().splitlines()
    newer = path.read_text().splitlines()
    kept = [json.loads(line)["number"] for line in (*older, *newer)]
    assert kept == list(range(kept[0], 5)), "the latest lines, in order"
    assert TOKEN not in "".join((*older, *newer))
    assert [file.stat().st_mode & 0o077 for file in (path.parent, path)] == [0, 0]


def test_a_line_that_no_file_takes_is_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").write_text("a file where the folder should be")
    logs.configure(level="warning", style="json", secrets=[], to=logs.LogFile(tmp_path / "logs" / "hermes.log"))
    structlog.get_logger().warning("trouble")
    assert lines(capfd)[0]["event"] == "trouble"


def test_a_library_that_repeats_itself_fills_no_disk(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(logs, "monotonic", lambda: now)
    configure()
    asyncio_log = logging.getLogger("asyncio")
    for number in range(5_000):
        asyncio_log.error("socket.accept() out of system resource\nsocket: %d", number)
    asyncio_log.error("something else")
    written = [line["event"].partition("\n")[0] for line in lines(capfd)]
    assert written == ["socket.accept() out of system resource"] * 10 + ["something else"]
    now += 60
    asyncio_log.error("socket.accept() out of system resource\nsocket: again")
    [line] = lines(capfd)
    assert line["not_logged"] == 4_990
    for number in range(5_000):
        logging.getLogger("library").error("always new: %d", number)
    assert len(lines(capfd)) <= 1_000
