"""Logs: an event and its fields; pretty on a terminal, one JSON object a line elsewhere; no secrets."""

import logging
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Literal

import structlog

from hermes_config.redaction import Redactor

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(*, level: str, style: Literal["auto", "pretty", "json"], secrets: Iterable[str]) -> None:
    pretty = style == "pretty" or (style == "auto" and sys.stderr.isatty())
    renderer: structlog.typing.Processor
    if pretty:
        # The default tracebacks of structlog's console print local variables, tokens among them.
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
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    # What libraries log goes the same way, and so past the same filter.
    logging.basicConfig(level=logging.WARNING, handlers=[_Forwarding()], force=True)


class _Forwarding(logging.Handler):
    """Hands a record of the standard library to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        getattr(structlog.get_logger(), level)(record.getMessage(), logger=record.name, exc_info=record.exc_info)


def _hide(secrets: Iterable[str]) -> structlog.typing.Processor:
    """The last but one: whatever is not text yet becomes text here, since the renderer would do it after us."""
    redactor = Redactor(secrets)

    def processor(_: Any, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        return {key: redactor.clean_all(value) for key, value in event.items()}

    return processor
