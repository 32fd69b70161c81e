"""Translate Slack's errors for the listener, the delivery and the media fetcher."""

import re

from gateway.errors import (
    DeliveryInDoubt,
    DeliveryRejected,
    GatewayError,
    MediaUnavailable,
    PlatformAuthFailed,
    PlatformUnavailable,
)
from gateway.platforms.outgoing import Rejection
from gateway.platforms.slack.web_api import SlackNotSent, SlackProblem, SlackRefused, SlackTooFast, SlackTooLarge

_BAD_TOKEN = re.compile(
    "account_inactive|invalid_auth|not_allowed_token_type|not_authed|team_access_not_granted|token_expired"
    "|token_revoked|two_factor_setup_required"
)
_CLOSED = {
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
    "user_disabled": "the user's account was deactivated",
    "user_is_bot": "bots cannot write to bots",
    "user_not_found": "Slack does not know the user",
}
_REJECTIONS = {
    Rejection.NOTHING_TO_EDIT: "message_not_found cant_update_message edit_window_closed",
    Rejection.NO_THREAD: "invalid_thread_ts thread_not_found cannot_reply_to_message",
    Rejection.TOO_LONG: "msg_too_long",
    Rejection.BLOCKS: "msg_blocks_too_long invalid_blocks invalid_blocks_format block_mismatch "
    "no_dual_broadcast_content_update",
    # The scope that is missing may be files:write, or one that text needs too.
    Rejection.FILE: "blocked_file_type file_not_found file_type_not_allowed file_upload_size_restricted missing_scope "
    "file_uploads_disabled file_uploads_except_images_disabled invalid_arguments storage_limit_reached",
}
_SIGNS = {sign: meaning for meaning, signs in _REJECTIONS.items() for sign in signs.split()}


def classify_rejection(error: Exception) -> Rejection | None:
    return _SIGNS.get(error.error, Rejection.CLOSED_TO_US) if isinstance(error, SlackRefused) else None


def translate_send_error(error: Exception, *, repeatable: bool) -> GatewayError:
    """`repeatable` calls do no harm when done twice, such as an edit."""
    match error:
        case SlackRefused() if _BAD_TOKEN.fullmatch(error.error):
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
        case _ if repeatable or isinstance(error, SlackNotSent):
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


def translate_listening_error(error: Exception, variable: str) -> GatewayError:
    match error:
        case SlackRefused() if _BAD_TOKEN.fullmatch(error.error):
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
            return PlatformUnavailable(f"Listening to Slack failed: {error}")


def _list_scopes(needed: str) -> str:
    return " or ".join(filter(None, needed.split(","))) or "that this needs"
