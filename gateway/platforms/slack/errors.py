"""Translate Slack's errors for the listener, the delivery and the media fetcher."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto

from gateway.errors import (
    DeliveryInDoubt,
    DeliveryRejected,
    GatewayError,
    MediaUnavailable,
    PlatformAuthFailed,
    PlatformUnavailable,
)
from gateway.platforms.slack.web_api import SlackNotSent, SlackProblem, SlackRefused, SlackTooFast, SlackTooLarge

BAD_TOKEN = frozenset(
    (
        "account_inactive",
        "invalid_auth",
        "not_allowed_token_type",
        "not_authed",
        "team_access_not_granted",
        "token_expired",
        "token_revoked",
        "two_factor_setup_required",
    )
)
_CLOSED = {
    "account_inactive": "Slack does not accept the bot token",
    "as_user_not_supported": "Slack does not let the bot write there",
    "cannot_dm_bot": "bots cannot write to bots",
    "cant_broadcast_message": "Slack does not let the bot write there",
    "channel_is_archived": "the channel is archived",
    "channel_not_found": "Slack does not know the channel, or the bot is not in it",
    "ekm_access_denied": "the workspace's administrators have closed the channel",
    "is_archived": "the channel is archived",
    "is_inactive": "the channel is frozen",
    "message_limit_exceeded": "the workspace has used up its messages",
    "messages_tab_disabled": "the app's messages tab is off; switch it on in the app's settings, under App Home",
    "no_text": "it has no text",
    "not_in_channel": "the bot is not in the channel; /invite it there",
    "restricted_action": "the bot may not write in the channel",
    "restricted_action_non_threadable_channel": "the channel has no threads",
    "restricted_action_read_only_channel": "the bot may not write in the channel",
    "restricted_action_thread_locked": "the thread is locked",
    "restricted_action_thread_only_channel": "only replies in threads are allowed in this channel",
    "team_access_not_granted": "the bot may not write in this workspace",
    "user_disabled": "the user's account was deactivated",
    "user_is_bot": "bots cannot write to bots",
    "user_not_found": "Slack does not know the user",
}


class SlackRejection(Enum):
    """Why Slack did not accept a message."""

    NOTHING_TO_EDIT = auto()
    NO_THREAD = auto()
    TOO_LONG = auto()
    BLOCKS = auto()
    FILE = auto()  # too large, of a forbidden kind, or files are not allowed
    CLOSED_TO_US = auto()


_SIGNS = {
    "message_not_found": SlackRejection.NOTHING_TO_EDIT,
    "cant_update_message": SlackRejection.NOTHING_TO_EDIT,
    "edit_window_closed": SlackRejection.NOTHING_TO_EDIT,
    "invalid_thread_ts": SlackRejection.NO_THREAD,
    "thread_not_found": SlackRejection.NO_THREAD,
    "cannot_reply_to_message": SlackRejection.NO_THREAD,
    "msg_too_long": SlackRejection.TOO_LONG,
    "msg_blocks_too_long": SlackRejection.BLOCKS,
    "invalid_blocks": SlackRejection.BLOCKS,
    "invalid_blocks_format": SlackRejection.BLOCKS,
    "block_mismatch": SlackRejection.BLOCKS,
    "no_dual_broadcast_content_update": SlackRejection.BLOCKS,
    "blocked_file_type": SlackRejection.FILE,
    "file_not_found": SlackRejection.FILE,
    "file_type_not_allowed": SlackRejection.FILE,
    "file_upload_size_restricted": SlackRejection.FILE,
    "file_uploads_disabled": SlackRejection.FILE,
    "file_uploads_except_images_disabled": SlackRejection.FILE,
    "invalid_arguments": SlackRejection.FILE,
    "missing_scope": SlackRejection.FILE,  # files:write, or one that text needs too
    "storage_limit_reached": SlackRejection.FILE,
}


def classify_rejection(error: SlackRefused) -> SlackRejection:
    return _SIGNS.get(error.error, SlackRejection.CLOSED_TO_US)


def translate_send_error(error: SlackProblem, *, repeatable: bool) -> GatewayError:
    """`repeatable` calls do no harm when done twice, such as an edit."""
    match error:
        case SlackRefused() if error.error in BAD_TOKEN:
            return PlatformUnavailable("Slack does not accept the bot token")
        case SlackRefused(error="missing_scope"):
            return DeliveryRejected(
                f"the bot lacks the scope {_list_scopes(error.needed)}; add it and reinstall the app"
            )
        case SlackRefused():
            return DeliveryRejected(_CLOSED.get(error.error) or f"Slack refused it: {error}")
        case SlackTooLarge():
            return DeliveryRejected(str(error))
        case SlackTooFast():
            return PlatformUnavailable(str(error), retry_after=error.seconds)
        case SlackNotSent():
            return PlatformUnavailable(str(error))
        case _ if repeatable:
            return PlatformUnavailable(str(error))
        case _:
            return DeliveryInDoubt(str(error))


def translate_fetch_error(error: SlackProblem) -> MediaUnavailable:
    match error:
        case SlackRefused(error="missing_scope"):
            return MediaUnavailable(f"the bot lacks the scope {_list_scopes(error.needed)}")
        case SlackRefused(error="file_not_found" | "file_deleted"):
            return MediaUnavailable("Slack no longer has the file")
        case SlackRefused() | SlackTooLarge():
            return MediaUnavailable(str(error))
        case _:
            return MediaUnavailable(f"it could not be fetched from Slack: {error}")


@contextmanager
def translate_listening_errors(variable: str) -> Iterator[None]:
    """Turn errors while listening into those that the supervisor handles."""
    try:
        yield
    except SlackProblem as error:
        raise translate_listening_error(error, variable) from error


def translate_listening_error(error: SlackProblem, variable: str) -> GatewayError:
    match error:
        case SlackRefused() if error.error in BAD_TOKEN:
            return PlatformAuthFailed(
                f"Slack does not accept the token ({error.error}). Correct {variable} (api.slack.com/apps shows it) "
                "and restart Hermes"
            )
        case SlackRefused(error="missing_scope" | "no_permission"):
            return PlatformAuthFailed(
                f"the token of {variable} lacks the scope {_list_scopes(error.needed)}; add it at api.slack.com/apps, "
                "reinstall the app and restart Hermes"
            )
        case SlackTooFast():
            return PlatformUnavailable(str(error), retry_after=error.seconds)
        case _:
            return PlatformUnavailable(f"Slack cannot be heard: {error}")


def _list_scopes(needed: str) -> str:
    return " or ".join(filter(None, needed.split(","))) or "that this needs"
