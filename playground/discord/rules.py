"""What Discord refuses, in its own words and codes."""

from collections.abc import Mapping

from playground import wire
from playground.wire import Wire

MAX_CONTENT = 2000
MAX_NONCE = 25
MAX_EMBEDS = 10
MAX_EMBED_TEXT = 6000
MAX_FILES = 10
MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_ROWS = 5
MAX_COMMANDS = 100

_WORDS: Mapping[int, tuple[int, str]] = {
    10003: (404, "Unknown Channel"),
    10004: (404, "Unknown Guild"),
    10007: (404, "Unknown Member"),
    10008: (404, "Unknown Message"),
    10013: (404, "Unknown User"),
    10015: (404, "Unknown Webhook"),
    10062: (404, "Unknown interaction"),
    10063: (404, "Unknown application command"),
    40005: (413, "Request entity too large"),
    40060: (400, "Interaction has already been acknowledged."),
    50001: (403, "Missing Access"),
    50005: (403, "Cannot edit a message authored by another user"),
    50006: (400, "Cannot send an empty message"),
    50007: (403, "Cannot send messages to this user"),
    50013: (403, "Missing Permissions"),
    50021: (403, "Cannot execute action on a system message"),
    50024: (400, "Cannot execute action on this channel type"),
    50027: (401, "Invalid Webhook Token"),
    50083: (400, "Thread is archived"),
    50109: (400, "The request body contains invalid JSON."),
    160004: (400, "A thread has already been created for this message"),
    160005: (403, "Thread is locked"),
    10014: (400, "Unknown Emoji"),
}


class Refused(wire.Refused):
    """An answer in the shape `{message, code, errors}`; `extra` are further fields of a rate limit."""

    def __init__(self, status: int, code: int, message: str, errors: Wire | None = None, **extra: object) -> None:
        super().__init__(f"{code} {message}" if code else message)
        self.status = status
        self.body: Wire = {"message": message, "code": code, **extra}
        if errors:
            self.body["errors"] = errors

    @property
    def message(self) -> str:
        message: str = self.body["message"]
        return message


def refused(code: int) -> Refused:
    """One of the errors that have a number, with the words and status it always has."""
    status, message = _WORDS[code]
    return Refused(status, code, message)


def unauthorized() -> Refused:
    return Refused(401, 0, "401: Unauthorized")


def not_found() -> Refused:
    return Refused(404, 0, "404: Not Found")


def too_many_requests(retry_after: float, *, everywhere: bool = False) -> Refused:
    refusal = Refused(429, 0, "You are being rate limited.", retry_after=retry_after)
    refusal.body = {"message": refusal.message, "retry_after": retry_after, "global": everywhere}
    return refusal


def invalid(path: str, code: str, message: str) -> Refused:
    """Invalid Form Body, with the one mistake at its place: `embeds.0.description`."""
    errors: Wire = {"_errors": [{"code": code, "message": message}]}
    for part in reversed(path.split(".")):
        errors = {part: errors}
    return Refused(400, 50035, "Invalid Form Body", errors)


def check_text(path: str, value: object, longest: int, *, required: bool = False) -> str:
    if value is None and not required:
        return ""
    if not isinstance(value, str):
        raise invalid(path, "STRING_TYPE_CONVERT", "Could not interpret value as string.")
    if len(value) > longest:
        raise invalid(path, "BASE_TYPE_MAX_LENGTH", f"Must be {longest} or fewer in length.")
    if required and not value:
        raise invalid(path, "BASE_TYPE_REQUIRED", "This field is required")
    return value


def check_list(path: str, value: object, longest: int) -> list[Wire]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise invalid(path, "LIST_TYPE_CONVERT", "Only iterables may be used in a ListType")
    if len(value) > longest:
        raise invalid(path, "BASE_TYPE_BAD_LENGTH", f"Must be {longest} or fewer in length.")
    return value


def check_content(value: object) -> str:
    """Without the white space around it, as it is kept."""
    return check_text("content", value, MAX_CONTENT).strip()


def check_nonce(value: object) -> str | int | None:
    if value is None or isinstance(value, int):
        return value
    return check_text("nonce", value, MAX_NONCE)


def check_embeds(value: object) -> list[Wire]:
    embeds, total = check_list("embeds", value, MAX_EMBEDS), 0
    for index, embed in enumerate(embeds):
        place = f"embeds.{index}"
        total += len(check_text(f"{place}.title", embed.get("title"), 256))
        total += len(check_text(f"{place}.description", embed.get("description"), 4096))
        for number, field in enumerate(check_list(f"{place}.fields", embed.get("fields"), 25)):
            total += len(check_text(f"{place}.fields.{number}.name", field.get("name"), 256, required=True))
            total += len(check_text(f"{place}.fields.{number}.value", field.get("value"), 1024, required=True))
        total += len(check_text(f"{place}.footer.text", embed.get("footer", {}).get("text"), 2048))
    if total > MAX_EMBED_TEXT:
        raise invalid("embeds", "MAX_EMBED_SIZE_EXCEEDED", f"Embed size exceeds maximum size of {MAX_EMBED_TEXT}")
    return [{"type": "rich", **embed} for embed in embeds]


def check_components(value: object) -> list[Wire]:
    """Rows of buttons and menus; other kinds of components are kept unread."""
    rows = check_list("components", value, MAX_ROWS)
    seen: set[str] = set()
    for index, row in enumerate(rows):
        if row.get("type") != 1:
            continue
        place = f"components.{index}.components"
        inner = check_list(place, row.get("components"), 5)
        if not inner:
            raise invalid(place, "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
        for number, component in enumerate(inner):
            _check_component(f"{place}.{number}", component, seen)
    return rows


def _check_component(place: str, component: Wire, seen: set[str]) -> None:
    if component.get("type") == 2:
        check_text(f"{place}.label", component.get("label"), 80)
        if component.get("style") == 5:
            check_text(f"{place}.url", component.get("url"), 512, required=True)
            return
        if not component.get("label") and not component.get("emoji"):
            raise invalid(f"{place}.label", "BUTTON_COMPONENT_LABEL_REQUIRED", "A label or emoji is required")
    name = check_text(f"{place}.custom_id", component.get("custom_id"), 100, required=True)
    if name in seen:
        message = "Component custom id cannot be duplicated"
        raise invalid(f"{place}.custom_id", "COMPONENT_CUSTOM_ID_DUPLICATED", message)
    seen.add(name)


def check_allowed_mentions(value: object) -> Wire | None:
    """None means that everything mentioned counts."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise invalid("allowed_mentions", "DICT_TYPE_CONVERT", "Only dictionaries may be used in a DictType")
    parse = value.get("parse") or []
    for kind in ("users", "roles"):
        if kind in parse and value.get(kind):
            message = f"parse:{kind!r} and {kind}: [ids...] are mutually exclusive."
            raise invalid("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", message)
    return value


def check_commands(value: object) -> list[Wire]:
    if not isinstance(value, list):
        raise invalid("_root", "LIST_TYPE_CONVERT", "Only iterables may be used in a ListType")
    if sum(command.get("type", 1) == 1 for command in value) > MAX_COMMANDS:
        raise Refused(400, 30032, "Maximum number of application commands reached (100).")
    names = [(command.get("type", 1), command.get("name")) for command in value]
    for index, command in enumerate(value):
        name = check_text(f"{index}.name", command.get("name"), 32, required=True)
        if command.get("type", 1) == 1:
            if name != name.lower() or not name.replace("-", "").replace("_", "").isalnum():
                raise invalid(f"{index}.name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
            check_text(f"{index}.description", command.get("description"), 100, required=True)
        if names.count(names[index]) > 1:
            message = "Application command names must be unique"
            raise invalid(f"{index}", "APPLICATION_COMMANDS_DUPLICATE_NAME", message)
    return value
