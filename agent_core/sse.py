"""Server-sent events from bytes, cut anywhere, to the data of each event. Knows nothing about models."""

MAX_EVENT_BYTES = 16_000_000


class EventTooLarge(ValueError):
    pass


class EventReader:
    """Comments and all fields but `data` are left out: nobody who speaks to us uses them."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, received: bytes) -> list[bytes]:
        """The events that are complete with these bytes."""
        *lines, self._rest = (self._rest + received).split(b"\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            raise EventTooLarge
        return [event for line in lines if (event := self._take(line.removesuffix(b"\r")))]

    def end(self) -> list[bytes]:
        """What was left when the stream ended; some servers do not end the last event."""
        last = [self._take(self._rest.removesuffix(b"\r")), self._take(b"")]
        self._rest = b""
        return [event for event in last if event]

    def _take(self, line: bytes) -> bytes:
        if not line:
            event, self._data = b"\n".join(self._data), []
            return event
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            if sum(map(len, self._data)) > MAX_EVENT_BYTES:
                raise EventTooLarge
        return b""
