"""`hermes webhooks`: added with a secret and a prompt, listed, tested against a running gateway, removed."""

import json
import stat
from pathlib import Path

import pytest

from tests.gateway.platforms.client import connect
from tests.hermes_cli.running import hermes
from tests.journeys.gateway_process import gateway


@pytest.fixture(autouse=True)
def _in_home(home: Path, made: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(home))


def test_a_webhook_is_added_listed_and_removed(home: Path) -> None:
    added = hermes("webhooks", "add", "deploys", "--signature", "github", "--prompt", "Tell me about {commits}.")
    assert added.returncode == 0, added.stderr
    assert "http://127.0.0.1:8642/hooks/deploys" in added.stdout
    assert "http.enabled true" in added.stdout
    [secret] = [line.rpartition(" ")[2] for line in added.stdout.splitlines() if line.startswith("Secret")]
    assert f"HERMES_WEBHOOK_SECRET_DEPLOYS={secret}" in (home / ".env").read_text().replace("'", "")
    assert (home / "webhooks" / "deploys.md").read_text() == "Tell me about {commits}."
    assert stat.S_IMODE((home / "webhooks").stat().st_mode) == 0o700
    hermes("webhooks", "add", "alerts", "--signature", "bearer", "--secret", "-", typed="a secret of the service\n")
    listed = json.loads(hermes("webhooks", "list", "--json").stdout)
    assert [(one["name"], one["signature"], one["has_secret"], one["has_prompt"]) for one in listed] == [
        ("deploys", "github", True, True),
        ("alerts", "bearer", True, False),
    ]
    assert secret not in hermes("webhooks", "list").stdout
    assert secret not in hermes("config", "show").stdout
    removed = hermes("webhooks", "remove", "deploys", "--yes")
    assert removed.returncode == 0, removed.stderr
    assert "deploys" not in hermes("webhooks", "list").stdout
    assert secret not in (home / ".env").read_text()
    assert not (home / "webhooks" / "deploys.md").exists()


def test_wrong_input_is_refused_with_the_way_out_and_changes_nothing(home: Path) -> None:
    hermes("webhooks", "add", "deploys", "--signature", "github")
    before = (home / "config.yaml").read_text(), (home / ".env").read_text()
    for arguments, told in (
        (("add", "deploys", "--signature", "github"), "already"),
        (("add", "Two Words", "--signature", "github"), "such as deploys"),
        (("add", "other", "--signature", "md5"), "'github'"),
        (("add", "other", "--signature", "github", "--secret", "short"), "16 characters"),
        (("add", "other", "--signature", "github", "--deliver", "matrix"), "There is no platform 'matrix'"),
        (("add", "other", "--signature", "github", "--deliver", "web:nobody"), "There is no known chat 'nobody'"),
        (("remove", "deploy", "--yes"), "Did you mean deploys?"),
        (("test", "deploy"), "Did you mean deploys?"),
    ):
        refused = hermes("webhooks", *arguments)
        assert refused.returncode == 2, (arguments, refused.stdout)
        assert told in refused.stderr, refused.stderr
    stopped = hermes("webhooks", "test", "deploys")
    assert (stopped.returncode, "not running" in stopped.stderr) == (1, True)
    assert ((home / "config.yaml").read_text(), (home / ".env").read_text()) == before


async def test_a_sample_reaches_the_running_gateway_and_its_answer_the_owner(home: Path) -> None:
    (home / "config.yaml").write_text(
        "http: {enabled: true}\nplatforms: {web: {port: 0}, socket: {enabled: true}}\nmodel: {demo_pace_ms: 0}\n"
    )
    for kind in ("github", "gitlab", "slack", "hmac", "standard", "bearer"):
        assert hermes("webhooks", "add", kind, "--signature", kind).returncode == 0
    async with gateway(home):
        lost = hermes("webhooks", "test", "github")
        assert (lost.returncode, "no chat" in lost.stderr) == (1, True), lost.stderr
        async with connect(home / "hermes.sock") as client:
            await client.say("hello", message_id="1", chat="main")
            await client.hear()
            for kind in ("github", "gitlab", "slack", "hmac", "standard", "bearer"):
                sent = hermes("webhooks", "test", kind)
                assert sent.returncode == 0, (kind, sent.stderr)
                assert f"Webhook {kind}" in (await client.hear())["text"]
            # One that is added while the gateway runs is known after a reload.
            assert "gateway reload" in hermes("webhooks", "add", "late", "--signature", "bearer").stdout
            assert "gateway reload" in hermes("webhooks", "test", "late").stderr
            assert hermes("gateway", "reload").returncode == 0
            assert hermes("webhooks", "test", "late").returncode == 0
            assert "Webhook late" in (await client.hear())["text"]
