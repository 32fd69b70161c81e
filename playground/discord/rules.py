"""Refusals of Discord in its own words and codes."""

from collections.abc import Mapping

from playground.wire import ApiRefusal, Wire

MAX_CONTENT = 2000
MAX_NONCE = 25
MAX_FILES = 10
MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_ROWS = 5
MAX_COMMANDS = 100

_WORDS: Mapping[int, tuple[int, str]] = {
    10003: (404, "Unknown Channel"),
    10008: (404, "Unknown Message"),
    10014: (400, "Unknown Emoji"),
    10062: (404, "Unknown interaction"),
    40005: (413, "Request entity too large"),
    40060: (400, "Interaction has already been acknowledged."),
    50001: (403, "Missing Access"),
    50005: (403, "Cannot edit a message authored by another user"),
    50006: (400, "Cannot send an empty message"),
    50007: (403, "Cannot send messages to this user"),
    50013: (403, "Missing Permissions"),
    50021: (403, "Cannot execute action on a system message"),
    50024: (400, "Cannot execute action on this channel type"),
    50109: (400, "The request body contains invalid JSON."),
    160004: (400, "A thread has already been created for this message"),
}


class DiscordRefusal(ApiRefusal):
    """An answer in the shape `{message, code, errors}`; `headers` go beside it."""

    def __init__(self, status: int, code: int, message: str, errors: Wire | None = None) -> None:
        super().__init__(f"{code} {message}" if code else message)
        self.status = status
        self.body: Wire = {"message": message, "code": code}
        self.headers: Mapping[str, str] = {}
        if errors:
            self.body["errors"] = errors


def refusal(code: int) -> DiscordRefusal:
    """Return one of the numbered errors, with the words and status it always has."""
    status, message = _WORDS[code]
    return DiscordRefusal(status, code, message)


def invalid(path: str, code: str, message: str) -> DiscordRefusal:
    """Return Invalid Form Body with one error at its place, such as `components.0.label`."""
    errors: Wire = {"_errors": [{"code": code, "message": message}]}
    for part in reversed(path.split(".")):
        errors = {part: errors}
    return DiscordRefusal(400, 50035, "Invalid Form Body", errors)


def read_id(value: object) -> int:
    """Ids are numbers here and strings on the wire."""
    if not str(value).isdigit():
        raise invalid("id", "NUMBER_TYPE_COERCE", f'Value "{value}" is not snowflake.')
    return int(str(value))


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


def check_components(value: object) -> list[Wire]:
    """Check rows of buttons; no other components are played here."""
    rows = check_list("components", value, MAX_ROWS)
    seen: set[str] = set()
    for index, row in enumerate(rows):
        place = f"components.{index}.components"
        buttons = check_list(place, row.get("components"), 5)
        if row.get("type") != 1 or not buttons:
            raise invalid(place, "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
        for number, button in enumerate(buttons):
            check_text(f"{place}.{number}.label", button.get("label"), 80, required=True)
            name = check_text(f"{place}.{number}.custom_id", button.get("custom_id"), 100, required=True)
            if name in seen:
                message = "Component custom id cannot be duplicated"
                raise invalid(f"{place}.{number}.custom_id", "COMPONENT_CUSTOM_ID_DUPLICATED", message)
            seen.add(name)
    return rows


def check_allowed_mentions(value: object) -> Wire | None:
    """Return None where every mention counts."""
    if not isinstance(value, dict | None):
        raise invalid("allowed_mentions", "DICT_TYPE_CONVERT", "Only dictionaries may be used in a DictType")
    return value


def check_commands(value: object) -> list[Wire]:
    if not isinstance(value, list):
        raise invalid("_root", "LIST_TYPE_CONVERT", "Only iterables may be used in a ListType")
    if len(value) > MAX_COMMANDS:
        raise DiscordRefusal(400, 30032, "Maximum number of application commands reached (100).")
    names = [command.get("name") for command in value]
    for index, command in enumerate(value):
        name = check_text(f"{index}.name", command.get("name"), 32, required=True)
        if name != name.lower() or not name.replace("-", "").replace("_", "").isalnum():
            raise invalid(f"{index}.name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
        check_text(f"{index}.description", command.get("description"), 100, required=True)
        if names.count(name) > 1:
            message = "Application command names must be unique"
            raise invalid(f"{index}", "APPLICATION_COMMANDS_DUPLICATE_NAME", message)
    return value
