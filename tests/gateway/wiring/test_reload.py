"""SIGHUP: what of the settings takes effect in a running gateway, and what is told to need a restart."""

import asyncio
import signal
from pathlib import Path

from gateway.lock import read_state
from playground.telegram.server import TelegramServer
from tests.hermes_cli.running import hermes
from tests.journeys.gateway_process import gateway

TELEGRAM = "platforms:\n  web: {{enabled: false}}\naccess:\n  allowed_users: [{allowed}]\n"


async def test_a_person_who_is_put_on_the_list_is_answered_without_a_restart(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    file = home / "config.yaml"
    async with TelegramServer() as telegram:
        ada = telegram.people.make_user("Ada")["id"]
        variables = {"TELEGRAM_BOT_TOKEN": telegram.token, "TELEGRAM_API_URL": telegram.url}
        file.write_text(TELEGRAM.format(allowed=""))
        async with gateway(home, environment=variables) as running:
            telegram.people.send_text(ada, ada, "what is 2 + 2?")
            await telegram.wait_for_text(ada, "hermes pairing approve", seconds=30)
            file.write_text(TELEGRAM.format(allowed=f"telegram:{ada}") + "gateway:\n  max_turns: 7\n")
            done = await asyncio.to_thread(hermes, "gateway", "reload")
            assert done.returncode == 0, done.stderr
            assert done.stdout == (
                "Applied: access.allowed_users.\nAfter a restart (hermes gateway restart): gateway.max_turns.\n"
            )
            telegram.people.send_text(ada, ada, "what is 17 * 23?")
            await telegram.wait_for_text(ada, "391", seconds=30)

            file.write_text("access: {allowed_users: [ada]}\n")
            wrong = await asyncio.to_thread(hermes, "gateway", "reload")
            assert wrong.returncode == 1
            assert "looks like a user name" in wrong.stderr
            assert "goes on with the settings that it has" in wrong.stderr
            telegram.people.send_text(ada, ada, "what is 18 * 23?")
            await telegram.wait_for_text(ada, "414", seconds=30)

            file.write_text(TELEGRAM.format(allowed=""))
            again = await asyncio.to_thread(hermes, "gateway", "reload")
            assert again.stdout == "Applied: access.allowed_users.\n"
            running.signal(signal.SIGHUP)  # by hand: nobody waits for it, and nothing ends
            assert await running.stop() == 0
    assert read_state(home / "gateway.lock") is None
    assert "not running" in (await asyncio.to_thread(hermes, "gateway", "reload")).stderr
