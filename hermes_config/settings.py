"""All settings: their names, defaults, bounds and meaning. `load` reads their values."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from hermes_config.ids import (
    EXAMPLE_CHAT,
    EXAMPLE_RESETS,
    EXAMPLE_USER,
    LOCAL_PLATFORMS,
    ChatIds,
    OwnBudgets,
    ResetExceptions,
    UserIds,
)
from hermes_config.platforms import PlatformsSettings
from hermes_config.secrets import Secrets
from hermes_config.types import (
    LONGEST_IDLE_MINUTES,
    CommandPatterns,
    Days,
    Dollars,
    Folders,
    Line,
    LongDays,
    Models,
    Number,
    Prices,
    Section,
    ServerAddress,
    TimezoneName,
    Tokens,
    Toolsets,
    VariableNames,
    env_named,
)

CONFIG_VERSION = 1


class ModelSettings(Section):
    name: Line = Field(
        "demo",
        min_length=1,
        max_length=200,
        description="The model to use; demo answers without a network.",
        json_schema_extra=env_named("HERMES_MODEL"),
    )
    base_url: ServerAddress = Field(
        "",
        max_length=2000,
        description="Address of an OpenAI-compatible server; empty: the usual one for the key in use.",
        examples=["https://openrouter.ai/api/v1"],
        json_schema_extra=env_named("OPENAI_BASE_URL"),
    )
    fallbacks: Models = Field((), description="Models to try, in this order, when the first cannot answer.")
    fallback_cooldown_seconds: Number = Field(
        60, ge=0, le=86_400, description="How long a failed model is skipped when there is another."
    )
    stream: bool = Field(True, description="Receive answers word by word; turn off for servers that cannot.")
    connect_timeout_seconds: Number = Field(10, gt=0, le=600, description="How long connecting may take.")
    first_byte_timeout_seconds: Number = Field(
        120, gt=0, le=3600, description="How long the model may take to begin a streamed answer."
    )
    idle_timeout_seconds: Number = Field(
        60, gt=0, le=3600, description="How long a streamed answer may pause before it is requested again."
    )
    total_timeout_seconds: Number = Field(900, gt=0, le=86_400, description="How long one answer may take in total.")
    attempts: int = Field(4, ge=1, le=20, description="How often a request is tried before it counts as failed.")
    demo_pace_ms: int = Field(15, ge=0, le=10_000, description="How long the demo model takes per word in chats.")


class AgentSettings(Section):
    max_iterations: int = Field(
        60,
        ge=1,
        le=1000,
        description="How many rounds of tool calls one turn may make before it must sum up.",
        json_schema_extra=env_named("HERMES_MAX_ITERATIONS"),
    )
    enabled_toolsets: Toolsets = Field(("core",), description="Toolsets offered to the agent.")
    disabled_toolsets: Toolsets = Field((), description="Toolsets to leave out even when enabled.", examples=["clock"])
    max_tool_result_chars: int = Field(
        100_000, ge=1_000, le=10_000_000, description="Longer tool results are cut in the middle."
    )
    history_messages: int = Field(
        400, ge=10, le=100_000, description="How many past messages of a session the model sees."
    )


class GatewaySettings(Section):
    busy_mode: Literal["steer", "interrupt", "queue", "collect"] = Field(
        "steer",
        description="What happens to a message that arrives during a turn of its sender: it joins the turn, interrupts "
        "it, waits for a turn of its own, or waits for one turn together with the others.",
    )
    drain_timeout_seconds: Number = Field(
        60, ge=0, le=3600, description="How long running turns may go on after a stop was requested."
    )
    max_turns: int = Field(512, ge=1, le=100_000, description="Turns that may run at once in all sessions.")
    max_tool_runs: int = Field(32, ge=1, le=10_000, description="Tool calls that may run at once in all sessions.")
    max_tool_runs_per_turn: int = Field(8, ge=1, le=10_000, description="Tool calls of one turn that may run at once.")
    max_waiting_per_session: int = Field(20, ge=1, le=10_000, description="Messages that may wait in one session.")
    max_resumes: int = Field(3, ge=0, le=100, description="How often a turn is resumed after a crash.")
    outbox_age_limit_hours: Number = Field(24, gt=0, le=8760, description="When undelivered replies are given up.")
    max_sends_per_account: int = Field(32, ge=1, le=1000, description="Messages that one bot account may send at once.")
    send_timeout_seconds: Number = Field(60, gt=0, le=600, description="How long one send to a platform may take.")
    alarm_minutes: Number = Field(
        5, ge=0, le=10_080, description="How long a platform may be down before the owner is told on another."
    )
    free_response_chats: ChatIds = Field(
        (), description="Groups in which the bot answers without being mentioned.", examples=[EXAMPLE_CHAT]
    )


class AccessSettings(Section):
    owner_users: UserIds = Field((), description="Ids of the owners.", examples=[EXAMPLE_USER])
    allowed_users: UserIds = Field(
        (),
        description="Ids of the people who may talk to the bot, on the platform named before it or else on all.",
        examples=[EXAMPLE_USER],
        json_schema_extra=env_named("GATEWAY_ALLOWED_USERS"),
    )
    allow_all_users: bool = Field(
        False,
        description="Let anybody talk to the bot in direct messages.",
        json_schema_extra=env_named("GATEWAY_ALLOW_ALL_USERS"),
    )
    allowed_chats: ChatIds = Field(
        (), description="Groups in which everybody may talk to the bot.", examples=[EXAMPLE_CHAT]
    )
    unauthorized_dm_behavior: Literal["pair", "ignore"] = Field(
        "pair", description="How a stranger's direct message is answered: with a pairing code, or not at all."
    )
    messages_per_minute: int = Field(
        30, ge=0, le=1_000_000, description="Messages accepted from one sender per minute; 0: no limit."
    )
    pairing_code_minutes: Number = Field(60, gt=0, le=10_080, description="How long a pairing code or invite is valid.")
    pairing_request_minutes: Number = Field(
        10, ge=0, le=10_080, description="How long a stranger must wait before requesting another code."
    )
    max_pending_pairings: int = Field(
        3, ge=1, le=1000, description="Strangers who may wait for approval at once on one platform."
    )
    max_failed_approvals: int = Field(
        5, ge=1, le=1000, description="Wrong codes after which approval is locked on a platform."
    )
    lockout_minutes: Number = Field(60, gt=0, le=10_080, description="How long approval stays locked.")


class SessionsSettings(Section):
    group_scope: Literal["shared", "per_user"] = Field(
        "shared", description="Whether a group has one conversation or each member has their own."
    )
    overheard_messages: int = Field(
        20, ge=0, le=1000, description="How many earlier messages to others a mention brings along, in allowed chats."
    )
    reset: Literal["idle", "daily", "both", "none"] = Field(
        "idle", description="When a conversation ends by itself: after silence, at an hour of the day, both, or never."
    )
    reset_idle_minutes: int = Field(
        1440, ge=1, le=LONGEST_IDLE_MINUTES, description="Silence after which a conversation ends."
    )
    reset_daily_hour: int = Field(4, ge=0, le=23, description="The hour of a daily reset, in the owner's time zone.")
    reset_exceptions: ResetExceptions = Field(
        tuple(f"{name}=none" for name in LOCAL_PLATFORMS),
        description="Platforms and kinds of chats with another rule.",
        examples=[EXAMPLE_RESETS],
    )


class RetentionSettings(Section):
    """How long things are kept, in days; 0: forever."""

    messages_days: Days = Field(0, description="Conversations, which can be searched; 0: forever.")
    inbox_days: LongDays = Field(90, description="Records of processed messages; 0: forever.")
    outbox_days: LongDays = Field(90, description="Records of sent replies; 0: forever.")
    trail_days: LongDays = Field(90, description="The trail of each message; 0: forever.")
    overheard_days: Days = Field(7, description="Messages in groups that were not addressed to the bot; 0: forever.")
    pairing_days: LongDays = Field(90, description="Old pairing requests; 0: forever.")
    spending_days: Days = Field(400, description="Usage of model calls; 0: forever.")
    media_days: Days = Field(0, description="Files after their last use; 0: as long as something refers to them.")


class BudgetsSettings(Section):
    """Limits per day; 0: no limit."""

    user_tokens: Tokens = Field(0, description="Tokens that one person may use per day; 0: no limit.")
    user_usd: Dollars = Field(0, description="US dollars that one person may cost per day; 0: no limit.")
    chat_tokens: Tokens = Field(0, description="Tokens that may be used in one chat per day; 0: no limit.")
    chat_usd: Dollars = Field(0, description="US dollars that one chat may cost per day; 0: no limit.")
    job_tokens: Tokens = Field(0, description="Tokens that one scheduled job may use per day; 0: no limit.")
    job_usd: Dollars = Field(0, description="US dollars that one scheduled job may cost per day; 0: no limit.")
    day_tokens: Tokens = Field(0, description="Tokens that everybody together may use per day; 0: no limit.")
    day_usd: Dollars = Field(0, description="US dollars that everybody together may cost per day; 0: no limit.")
    people: OwnBudgets = Field(
        (),
        description="People with their own budget of tokens and US dollars.",
        examples=[f"{EXAMPLE_USER}=500000:2.50"],
    )
    warn_at: Number = Field(0.8, gt=0, le=1, description="The share of a budget at which the chat is warned.")
    prices: Prices = Field(
        (),
        description="US dollars per million input, cached and output tokens of a model.",
        examples=["gpt-5=1.25:0.125:10"],
    )


class MediaSettings(Section):
    """Incoming and outgoing files."""

    max_file_bytes: int = Field(
        20_000_000, ge=1024, le=1_000_000_000, description="The largest file accepted from a chat."
    )
    max_files_per_message: int = Field(10, ge=0, le=1000, description="Files accepted with one message.")
    max_files_per_turn: int = Field(
        20, ge=0, le=1000, description="Files accepted with all messages that one turn answers."
    )
    fetch_timeout_seconds: Number = Field(60, gt=0, le=3600, description="How long downloading one file may take.")
    fetches_at_once: int = Field(4, ge=1, le=1000, description="Files that one bot account may download at once.")
    max_text_chars: int = Field(60_000, ge=100, le=10_000_000, description="How much text of one file the model sees.")
    max_turn_text_chars: int = Field(
        150_000, ge=100, le=100_000_000, description="How much text of all files in one turn the model sees."
    )
    read_timeout_seconds: Number = Field(20, ge=1, le=600, description="How long reading one file may take.")
    read_memory_mb: int = Field(512, ge=128, le=1_000_000, description="How much memory reading one file may use.")
    max_image_pixels: int = Field(
        50_000_000, ge=1, le=10_000_000_000, description="Larger pictures are not shown to the model."
    )
    allowed_dirs: Folders = Field(
        (), description="Additional folders from which files may be sent to the owner, such as ~/pictures."
    )
    max_outgoing_bytes: int = Field(20_000_000, ge=1024, le=100_000_000, description="The largest file sent to a chat.")


class StoreSettings(Section):
    busy_timeout_seconds: Number = Field(5, gt=0, le=300, description="How long to wait for another process's write.")
    backup_every_hours: Number = Field(24, gt=0, le=8760, description="Time between two backups of the database.")
    backups_kept: int = Field(7, ge=1, le=1000, description="Backups to keep.")
    upgrade_backups_kept: int = Field(2, ge=1, le=1000, description="Backups from before schema upgrades to keep.")
    full_check_max_mb: int = Field(
        256, ge=0, le=1_000_000, description="Databases up to this size are fully checked at startup."
    )


class BubblewrapSettings(Section):
    network: bool = Field(False, description="Allow commands in the sandbox to use the network.")
    memory_mb: int = Field(2048, ge=64, le=1_000_000, description="How much memory a command may use.")
    max_processes: int = Field(256, ge=8, le=100_000, description="How many processes a command may have.")
    workspace_mb: int = Field(2048, ge=1, le=10_000_000, description="How large a workspace may become.")


class TerminalSettings(Section):
    backend: Literal["local", "bubblewrap"] = Field(
        "local",
        description="Where the owner's commands run; everybody else's always run in a sandbox.",
        json_schema_extra=env_named("TERMINAL_ENV"),
    )
    cwd: Line = Field(
        "~",
        min_length=1,
        max_length=1000,
        description="The folder in which the agent works for chats; it reads AGENTS.md there.",
        json_schema_extra=env_named("MESSAGING_CWD"),
    )
    timeout_seconds: Number = Field(
        180, gt=0, le=86_400, description="How long a command may take unless the agent chooses a timeout."
    )
    max_timeout_seconds: Number = Field(
        600, gt=0, le=86_400, description="The longest timeout that the agent may choose."
    )
    min_check_interval_seconds: int = Field(
        30, ge=1, le=86_400, description="The shortest time between two reports on a background process."
    )
    max_output_chars: int = Field(
        50_000, ge=1_000, le=1_000_000, description="How much of an output the model sees; the rest goes to a file."
    )
    env_passthrough: VariableNames = Field(
        (),
        description="Additional variables, also from .env, that the owner's commands receive.",
        examples=["GITHUB_TOKEN"],
    )
    bubblewrap: BubblewrapSettings = BubblewrapSettings()


class ApprovalsSettings(Section):
    mode: Literal["ask", "deny", "off"] = Field(
        "ask",
        description="Risky calls outside of a sandbox: ask a human, deny them, or allow them (off). A few commands are "
        "never run.",
    )
    policy: Literal["risky", "unknown"] = Field(
        "risky", description="Ask about calls known to be risky, or about all that are not known to be harmless."
    )
    wait_minutes: Number = Field(
        60, gt=0, le=10_080, description="How long a question in a chat waits before it counts as denied."
    )
    terminal_wait_seconds: Number = Field(
        60, gt=0, le=3600, description="How long a question in `hermes chat` waits before it counts as denied."
    )


class DisplaySettings(Section):
    tool_progress: bool = Field(
        True,
        description="Show in direct messages which tools a turn uses.",
        json_schema_extra=env_named("HERMES_TOOL_PROGRESS"),
    )
    tool_progress_mode: Literal["new", "all", "verbose"] = Field(
        "new",
        description="Show a tool once until another is used, every call, or every call with its result.",
        json_schema_extra=env_named("HERMES_TOOL_PROGRESS_MODE"),
    )
    draft_after_seconds: Number = Field(
        2, ge=0, le=3600, description="How long an answer may take before a draft of it is shown."
    )
    watching_seconds: Number = Field(
        10, ge=0, le=3600, description="An answer within this time replaces its draft without a notification."
    )
    reactions: bool = Field(True, description="React to messages in groups when they are seen or have failed.")
    background_process_notifications: Literal["all", "result", "error", "off"] = Field(
        "all",
        description="Reports on background processes: output and exits, exits, failures, or nothing.",
        json_schema_extra=env_named("HERMES_BACKGROUND_NOTIFICATIONS"),
    )
    human_delay_mode: Literal["off", "natural", "custom"] = Field(
        "off",
        description="Pause between the messages of a long answer, as a person would.",
        json_schema_extra=env_named("HERMES_HUMAN_DELAY_MODE"),
    )
    human_delay_min_ms: int = Field(
        800,
        ge=0,
        le=60_000,
        description="The shortest pause between two messages in custom mode.",
        json_schema_extra=env_named("HERMES_HUMAN_DELAY_MIN_MS"),
    )
    human_delay_max_ms: int = Field(
        2500,
        ge=0,
        le=60_000,
        description="The longest pause between two messages in custom mode.",
        json_schema_extra=env_named("HERMES_HUMAN_DELAY_MAX_MS"),
    )


class LogSettings(Section):
    level: Literal["debug", "info", "warning", "error"] = Field("info", description="The least important lines to log.")
    format: Literal["auto", "pretty", "json"] = Field(
        "auto", description="Format of log lines; auto: pretty on a terminal, JSON elsewhere."
    )


class UserSettings(Section):
    name: Line = Field("", max_length=200, description="The owner's name, for the agent.", examples=["Ada"])
    timezone: TimezoneName = Field(
        "", max_length=100, description="The owner's time zone; empty: that of the machine.", examples=["Europe/Berlin"]
    )


class Settings(BaseSettings):
    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    model: ModelSettings = ModelSettings()
    agent: AgentSettings = AgentSettings()
    gateway: GatewaySettings = GatewaySettings()
    access: AccessSettings = AccessSettings()
    sessions: SessionsSettings = SessionsSettings()
    retention: RetentionSettings = RetentionSettings()
    budgets: BudgetsSettings = BudgetsSettings()
    media: MediaSettings = MediaSettings()
    store: StoreSettings = StoreSettings()
    platforms: PlatformsSettings = PlatformsSettings()
    terminal: TerminalSettings = TerminalSettings()
    approvals: ApprovalsSettings = ApprovalsSettings()
    command_allowlist: CommandPatterns = Field(
        (),
        description="Commands that run without asking, as written; * stands for any words.",
        examples=["'git push origin *'"],
    )
    display: DisplaySettings = DisplaySettings()
    logs: LogSettings = LogSettings()
    user: UserSettings = UserSettings()
    secrets: Secrets = Secrets()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # `load` does the reading: pydantic's sources know neither line numbers nor our error messages.
        return (init_settings,)
