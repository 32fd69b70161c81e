"""Who is woken by a change, and who is left alone."""

from gateway.changes import Changes


def test_a_change_wakes_the_subscribers_of_its_topic_only() -> None:
    changes, woken = Changes(), list[str]()
    changes.subscribe("inbox", lambda: woken.append("lanes"))
    changes.subscribe("processes", lambda: woken.append("watchers"))

    changes.notify("inbox")
    assert woken == ["lanes"]
    changes.notify("processes", "inbox")
    assert woken == ["lanes", "watchers", "lanes"]


def test_a_change_on_one_account_leaves_the_other_accounts_asleep() -> None:
    changes, woken = Changes(), list[str]()
    for account in ("telegram", "telegram@work"):
        changes.subscribe("outbox", lambda account=account: woken.append(account), account=account)  # type: ignore[misc]
    changes.subscribe("outbox", lambda: woken.append("any"))

    changes.notify("outbox", account="telegram@work")
    assert woken == ["telegram@work", "any"]
    woken.clear()
    changes.notify("outbox")
    assert woken == ["telegram", "telegram@work", "any"]


def test_a_change_that_nobody_waits_for_is_no_error() -> None:
    Changes().notify("platform", account="discord")
