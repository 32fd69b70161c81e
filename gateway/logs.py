"""Configure logs: an event and its fields, pretty on a terminal, one JSON object per line elsewhere; no secrets.

The gateway logs to stderr. Commands at a terminal log to a file, since their stderr is for people.
"""

import logging
import os
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Literal, TextIO, cast

import structlog

from hermes_config.places import make_private
from hermes_config.redaction import Redactor

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class LogFile:
    """A log file, created with the first line, readable by its owner alone; one older file is kept."""

    def __init__(self, path: Path, *, max_bytes: int = 1_000_000) -> None:
        self._path, self._max_bytes = path, max_bytes

    def write(self, text: str) -> None:
        try:
            make_private(self._path.parent)
            if self._path.exists() and self._path.stat().st_size > self._max_bytes:
                self._path.replace(self._path.with_suffix(".log.1"))
            with open(self._path, "a", encoding="utf-8", opener=_open_private) as file:
                file.write(text)
        except OSError:  # full or read-only disk: print it rather than lose it
            sys.stderr.write(text)

    def flush(self) -> None:
        """Nothing to do: each write opens and closes the file."""


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


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
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr if to is None else cast(TextIO, to)),
        cache_logger_on_first_use=False,
    )
    # Route the logs of libraries through the same filter.
    logging.basicConfig(level=logging.WARNING, handlers=[_StructlogHandler()], force=True)


class _StructlogHandler(logging.Handler):
    """Passes records of the standard library to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        getattr(structlog.get_logger(), level)(record.getMessage(), logger=record.name, exc_info=record.exc_info)


def _hide(secrets: Iterable[str]) -> structlog.typing.Processor:
    """Return a processor that hides secrets. It runs just before the renderer, so it turns all values to text."""
    redactor = Redactor(secrets)

    def processor(_: Any, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        return {key: redactor.clean_all(value) for key, value in event.items()}

    return processor
