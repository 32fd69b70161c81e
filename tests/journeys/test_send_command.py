"""`hermes send`: text, files and pipes to all three platforms; exit 0 only with the platform's message id."""

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path

from tests.gateway.media.samples import png
from tests.journeys.stage import Home, until
from tests.journeys.telegram_stage import stage
from tests.journeys.test_three_platforms import SECONDS, three
from tests.warm.process import run_warm, start_warm

BUILD = b"compiled 12 files\n"


async def run(home: Home, *arguments: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "HERMES_HOME": str(home.path)}
    return await asyncio.to_thread(
        run_warm, "hermes_cli", "send", *arguments, typed=typed, warnings="error", environment=environment
    )


async def test_text_files_and_pipes_arrive_on_each_platform(tmp_path: Path) -> None:
    log, picture = tmp_path / "build.log", tmp_path / "chart.png"
    log.write_bytes(BUILD)
    picture.write_bytes(png(20, 10))
    owners = "telegram:100,discord:200,slack:U0OWNER001"
    async with three(tmp_path, HERMES_ACCESS__OWNER_USERS=owners) as all_three:
        home, telegram, discord, slack = all_three.first.home, all_three.first, all_three.discord, all_three.slack
        olga = telegram.person("Olga", id=100)
        discord.people.make_user("olga", id="200")
        slack.people.make_user("olga", id="U0OWNER001")
        discord_dm, slack_dm = discord.people.open_dm("200")["id"], slack.people.make_dm("U0OWNER001")["id"]
        async with home.gateway():
            for account in ("telegram", "discord", "slack"):
                await home.until_platform("connected", account=account, seconds=SECONDS)
            await telegram.ask(olga, "/sethome", "home")
            discord.people.send_text(discord_dm, "200", "hello")
            slack.people.send_text(slack_dm, "U0OWNER001", "hello")
            await discord.wait_for_text(discord_dm, "", seconds=SECONDS)
            await slack.wait_for_text(slack_dm, "", seconds=SECONDS)
            await home.until_idle()
            # A platform alone: its home, or where its owner last wrote.
            for account, chat in (("telegram", str(olga)), ("discord", discord_dm), ("slack", slack_dm)):
                for target in (account, f"{account}:{chat}"):
                    sent = await run(home, "--to", target, "--json", f"Hello from {target}")
                    assert sent.returncode == 0, sent.stderr
                    told = json.loads(sent.stdout)
                    assert told["message_id"]
                    assert told["to"].startswith(f"{account}:{chat}")
                    [row] = home.rows("SELECT state, receipt FROM outbox WHERE id = ?", told["outbox"])
                    assert row == ("sent", told["message_id"])
                piped = await run(
                    home, "--to", account, "-", "--file", str(log), typed=f"Build on {account}\nis done\n"
                )
                assert piped.returncode == 0, piped.stderr
                assert "message " in piped.stdout
                pictured = await run(home, "--to", account, "--file", str(picture))
                assert pictured.returncode == 0, pictured.stderr
            for texts in (telegram.telegram.texts(olga), discord.texts(discord_dm), slack.texts(slack_dm)):
                assert any("Hello from" in text for text in texts)
                assert any("is done" in text for text in texts)
            sent_files = home.rows("SELECT COUNT(*) FROM outbox WHERE parts LIKE '%\"sha256\"%' AND state = 'sent'")
            assert sent_files == [(6,)]

            wrong = {
                "telegramm": "Did you mean telegram?",
                "matrix:1": "Switched on:",
                "telegram:101": f"Did you mean telegram:{olga}",
                "telegram:Olga": f"Did you mean telegram:{olga}, a direct chat with Olga on Telegram?",
                "slack:zzz": f"(slack:{slack_dm}",
            }
            before = home.rows("SELECT COUNT(*) FROM outbox")
            for target, hint in wrong.items():
                refused = await run(home, "--to", target, "hello")
                assert refused.returncode == 2
                assert hint in refused.stderr, refused.stderr
                assert refused.stdout == ""
            for arguments, hint in (
                (("--to", "telegram", ""), "nothing to send"),
                (("--to", "telegram", "--file", str(tmp_path / "gone")), "there is no such file"),
                (("--to", "telegram", "--file", str(tmp_path)), "not a regular file"),
                (("hello",), "--to"),
            ):
                refused = await run(home, *arguments)
                assert refused.returncode == 2
                assert hint in refused.stderr, refused.stderr
            assert home.rows("SELECT COUNT(*) FROM outbox") == before

        stopped = await run(home, "--to", "telegram", "hello")
        assert stopped.returncode == 1
        assert "the gateway is not running" in stopped.stderr


async def test_what_cannot_be_sent_is_taken_back_and_the_exit_code_says_so(tmp_path: Path) -> None:
    wrong = {"HERMES_ACCESS__OWNER_USERS": "telegram:100"}
    async with stage(tmp_path, demo=True, environment=wrong) as on:
        olga = on.person("Olga", id=100)
        async with on.gateway():
            await on.ask(olga, "/sethome", "home")
            on.telegram.people.block(olga)
            rejected = await run(on.home, "--to", "telegram", "hello")
            assert rejected.returncode == 1
            assert "telegram rejected it" in rejected.stderr, rejected.stderr
        # A token that no longer works: the gateway runs, the platform does not.
        env = on.home.path / ".env"
        env.write_text(env.read_text().replace(on.telegram.token, "42:wrong"))
        async with on.home.gateway():
            await on.home.until_platform("needs operator", account="telegram")
            late = await run(on.home, "--to", "telegram", "--timeout", "0.5", "hello again")
            assert late.returncode == 1
            assert "telegram is not connected" in late.stderr
            assert on.home.rows("SELECT state FROM outbox WHERE parts LIKE '%hello again%'") == [("expired",)]
            # Nothing arrives after somebody has pressed Ctrl-C.
            environment = {**os.environ, "HERMES_HOME": str(on.home.path)}
            waiting = await start_warm("hermes_cli", "send", "--to", "telegram", "too late", environment=environment)
            states = "SELECT state FROM outbox WHERE parts LIKE '%too late%'"
            await until(lambda: on.home.rows(states))
            waiting.send_signal(signal.SIGINT)
            await waiting.communicate()
            assert waiting.returncode == 1
            assert on.home.rows(states) == [("expired",)]
