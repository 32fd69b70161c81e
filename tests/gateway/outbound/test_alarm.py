"""An owner is told, through another platform, that one has gone deaf."""

import pytest

from gateway.outbound.alarm import Alarm
from gateway.store import inbox, people
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.supervisor import ConnectionStatus
from tests.gateway.scene import rows
from tests.gateway.store.conftest import Clock
from tests.gateway.store.rows import inbound, key_of

TOLD = "SELECT account, json_extract(parts, '$[0].text'), notify FROM outbox ORDER BY id"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("gateway.clock._process_clock", clock)
    return clock


class Watch:
    """Two platforms, telegram and discord, both of which can be heard at first."""

    def __init__(self, db: Database) -> None:
        self.wakes = 0
        self.telegram, self.discord = (ConnectionStatus(account=name) for name in ("telegram", "discord"))
        for status in (self.telegram, self.discord):
            status.report_alive()
        self.alarm = Alarm(db, [self.telegram, self.discord], after_seconds=300, steady_seconds=0)
        self.alarm.changes.subscribe("outbox", self._wake)

    def _wake(self) -> None:
        self.wakes += 1

    def lose(self, status: ConnectionStatus, problem: str = "no network") -> None:
        status.state, status.problem = "waiting", problem

    async def check_for(self, seconds: int, clock: Clock) -> None:
        """Check now, and again after that time."""
        await self.alarm.check()
        clock.forward(seconds=seconds)
        await self.alarm.check()


async def owner_spoke(db: Database, account: str) -> None:
    def unit(tx: Transaction) -> None:
        message = inbound("hello", key=key_of(account))
        person_id = people.recognise(tx, account, message.sender, role="owner")
        inbox.insert(tx, message, person_id=person_id, role="owner")

    await db.write(unit)


async def test_nobody_is_told_of_a_short_absence(db: Database, clock: Clock) -> None:
    watch = Watch(db)
    await owner_spoke(db, "discord")
    for _ in range(3):
        watch.lose(watch.telegram)
        await watch.check_for(299, clock)
        watch.telegram.report_alive()
        await watch.alarm.check()
    assert await rows(db, TOLD) == []
    assert watch.wakes == 0


async def test_a_long_one_is_told_once_and_so_is_its_end(db: Database, clock: Clock) -> None:
    watch = Watch(db)
    await owner_spoke(db, "discord")
    watch.lose(watch.telegram)
    await watch.alarm.check()
    for _ in range(5):
        clock.forward(seconds=300)
        await watch.alarm.check()
    lost = "I cannot reach telegram: no network. Run `hermes status` to see its state."
    assert await rows(db, TOLD) == [("discord", lost, 1)]
    assert watch.wakes == 1
    watch.telegram.report_alive()
    for _ in range(3):
        await watch.alarm.check()
    assert (await rows(db, TOLD))[1:] == [("discord", "telegram is connected again.", 1)]
    watch.lose(watch.telegram)
    await watch.check_for(300, clock)
    assert len(await rows(db, TOLD)) == 3  # another absence is told anew


async def test_it_is_never_told_through_the_platform_that_is_away(db: Database, clock: Clock) -> None:
    watch = Watch(db)
    await owner_spoke(db, "discord")
    await owner_spoke(db, "telegram")  # the last time
    watch.lose(watch.telegram)
    await watch.check_for(300, clock)
    assert [account for account, *_ in await rows(db, TOLD)] == ["discord"]


async def test_when_no_owner_can_be_reached_it_is_told_later(db: Database, clock: Clock) -> None:
    watch = Watch(db)
    await owner_spoke(db, "discord")
    watch.lose(watch.telegram)
    watch.lose(watch.discord)
    await watch.check_for(300, clock)
    assert await rows(db, TOLD) == []
    watch.discord.report_alive()
    await watch.alarm.check()
    assert [account for account, *_ in await rows(db, TOLD)] == ["discord"]


async def test_a_platform_that_is_back_before_anybody_could_be_told_is_not_worth_a_word(
    db: Database, clock: Clock
) -> None:
    watch = Watch(db)
    watch.lose(watch.telegram)
    await watch.check_for(300, clock)
    watch.telegram.report_alive()
    await owner_spoke(db, "discord")
    await watch.alarm.check()
    assert await rows(db, TOLD) == []


async def test_a_wrong_key_is_told_at_once(db: Database, clock: Clock) -> None:
    watch = Watch(db)
    await owner_spoke(db, "discord")
    watch.telegram.state, watch.telegram.problem = "needs operator", "the token was refused"
    await watch.alarm.check()
    [(_, text, _)] = await rows(db, TOLD)
    assert "the token was refused" in text


async def test_one_that_never_connected_is_told_too(db: Database, clock: Clock) -> None:
    watch = Watch(db)
    await owner_spoke(db, "discord")
    watch.telegram.state = "connecting"
    await watch.check_for(300, clock)
    [(_, text, _)] = await rows(db, TOLD)
    assert text.startswith("I cannot reach telegram: it does not connect.")


async def test_a_platform_that_comes_and_goes_is_told_of(db: Database, clock: Clock) -> None:
    """As with two programs that take each other's place."""
    watch = Watch(db)
    watch.alarm.steady_seconds = 60
    await owner_spoke(db, "discord")
    for _ in range(7):
        watch.lose(watch.telegram, "another program polls with this token")
        await watch.alarm.check()
        clock.forward(seconds=30)
        watch.telegram.report_alive()
        await watch.alarm.check()
        clock.forward(seconds=30)
    assert len(await rows(db, TOLD)) == 1


async def notice_damage(db: Database, at_ms: int, text: str = "state.db was damaged.") -> None:
    await db.write(lambda tx: tx.execute("INSERT INTO notices (at_ms, text) VALUES (?, ?)", at_ms, text))


async def test_damage_to_the_store_is_told_once_as_soon_as_an_owner_can_be_reached(db: Database, clock: Clock) -> None:
    watch = Watch(db)
    await notice_damage(db, clock.ms)
    await watch.alarm.check()
    assert await rows(db, TOLD) == []
    await owner_spoke(db, "discord")
    for _ in range(2):
        await watch.alarm.check()
    await Watch(db).alarm.check()  # after a restart
    assert await rows(db, TOLD) == [("discord", "state.db was damaged.", 1)]
    assert watch.wakes == 1
    await notice_damage(db, clock.ms, "The search index was damaged.")
    await watch.alarm.check()
    assert [text for _, text, _ in await rows(db, TOLD)] == ["state.db was damaged.", "The search index was damaged."]


async def test_damage_of_long_ago_is_no_news(db: Database, clock: Clock) -> None:
    watch = Watch(db)
    await owner_spoke(db, "discord")
    await notice_damage(db, clock.ms)
    clock.forward(hours=25)
    await watch.alarm.check()
    assert await rows(db, TOLD) == []
