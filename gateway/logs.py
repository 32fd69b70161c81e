"""Configure logs: an event and its fields, pretty on a terminal, one JSON object per line elsewhere; no secrets.

The gateway logs to stderr. Commands at a terminal log to a file, since their stderr is for people.
"""

import logging
import os
import sys
from collections import Counter, deque
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from time import monotonic
from typing import Any, Literal, TextIO, cast

import structlog

from hermes_config.places import make_private
from hermes_config.redaction import Redactor

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

# Libraries repeat themselves fast: asyncio reports each connection for which there is no descriptor left.
_REPEAT_SECONDS = 60.0
_MAX_OF_A_KIND = 10
_MAX_KINDS = 200
_RECENT_LINES = 500

RECENT: deque[str] = deque(maxlen=_RECENT_LINES)
"""The newest lines of this process, without secrets, for the page."""


class LogFile:
    """A log file, created with the first line, readable by its owner alone; one older file is kept."""

    def __init__(self, path: Path, *, max_bytes: int = 1_000_000) -> None:
        self._path, self._max_bytes = path, max_bytes

    def write(self, text: str) -> None:
        try:
            make_private(self._path.parent)
            if self._path.exists() and self._path.stat().st_size > self._max_bytes:
                self._path.replace(self._path.with_suffix(".log.1"))
            with open(
                self._path, "a", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)
            ) as file:
                file.write(text)
        except OSError:  # full or read-only disk: print it rather than lose it
            sys.stderr.write(text)

    def flush(self) -> None:
        """Nothing to do: each write opens and closes the file."""


def configure(
    *, level: str, style: Literal["auto", "pretty", "json"], secrets: Iterable[str], to: LogFile | None = None
) -> None:
    """Configure logging to stderr, or to the file `to`."""
    pretty = style == "pretty" or (style == "auto" and to is None and sys.stderr.isatty())
    renderer: structlog.typing.Processor
    if pretty:
        # structlog's default console tracebacks print local variables, tokens among them.
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    else:
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S" if pretty else "iso", utc=not pretty),
            structlog.processors.format_exc_info,
            _hide(secrets),
            _keep_recent,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr if to is None else cast(TextIO, to)),
        cache_logger_on_first_use=False,
    )
    # Route the logs of libraries through the same filter.
    logging.basicConfig(level=logging.WARNING, handlers=[_StructlogHandler()], force=True)


class _StructlogHandler(logging.Handler):
    """Passes records of the standard library to structlog: a few of each kind in a minute, so that no disk fills."""

    def __init__(self) -> None:
        super().__init__()
        self._since = monotonic()
        self._counts: Counter[str] = Counter()  # by logger and first line, since then
        self._counts_before: Counter[str] = Counter()  # in the minute before

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        kind = f"{record.name}: {text.partition(chr(10))[0]}"
        if monotonic() - self._since >= _REPEAT_SECONDS:
            self._since, self._counts_before, self._counts = monotonic(), self._counts, Counter()
        if kind not in self._counts and len(self._counts) >= _MAX_KINDS:
            kind = "others"
        self._counts[kind] += 1
        if self._counts[kind] > _MAX_OF_A_KIND:
            return
        not_logged = max(0, self._counts_before.pop(kind, 0) - _MAX_OF_A_KIND)
        fields = {"not_logged": not_logged} if not_logged else {}
        level = "error" if record.levelno >= logging.ERROR else "warning"
        getattr(structlog.get_logger(), level)(text, logger=record.name, exc_info=record.exc_info, **fields)


def _keep_recent(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    rest = " ".join(f"{key}={value}" for key, value in event.items() if key not in ("timestamp", "level", "event"))
    RECENT.append(f"{event.get('timestamp', '')} {event.get('level', '')}: {event.get('event', '')} {rest}".rstrip())
    return event


def _hide(secrets: Iterable[str]) -> structlog.typing.Processor:
    """Return a processor that hides secrets. It runs just before the renderer, so it turns all values to text."""
    redactor = Redactor(secrets)

    def processor(_: Any, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        return {key: redactor.clean_all(value) for key, value in event.items()}

    return processor
