"""One signal for "something changed": whoever writes notifies a topic, whoever waits subscribes in the wiring.

A notification carries no data. The store holds what changed, so one too many costs a look and is never wrong.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Literal

Topic = Literal[
    "inbox",  # a message waits, or there may be room for another turn
    "outbox",  # there is something to send, on one account or on any
    "decisions",  # an approval request may have been answered
    "approvals",  # another set of approval requests is open
    "processes",  # somebody may have asked to end a background process
    "platform",  # a platform connected
    "schedule",  # a job was made or changed, or the clock was set
    "commands",  # a command was carried out, which may have asked for a restart
]


class Changes:
    """Subscriptions by topic. Subscribers are called at once, in the notifier's task, and must return at once."""

    def __init__(self) -> None:
        self._subscribers: defaultdict[Topic, list[tuple[str, Callable[[], None]]]] = defaultdict(list)

    def subscribe(self, topic: Topic, wake: Callable[[], None], *, account: str = "") -> None:
        """Call `wake` for each change of the topic; with an account, only for those that may concern it."""
        self._subscribers[topic].append((account, wake))

    def notify(self, *topics: Topic, account: str = "") -> None:
        """Wake the subscribers of the topics; with an account, not those of other accounts."""
        for topic in topics:
            for subscribed, wake in self._subscribers[topic]:
                if not account or subscribed in ("", account):
                    wake()
