"""All settings: their names, defaults, bounds and meaning. Reads nothing; `load` fills them in."""

from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from hermes_config.platform_settings import PlatformsSettings
from hermes_config.section import Section, env_named
from hermes_config.types import (
    LONGEST_IDLE_MINUTES,
    ChatIds,
    CommandPatterns,
    Days,
    Dollars,
    Folders,
    Line,
    LongDays,
    Models,
    Number,
    OwnBudgets,
    Prices,
    ResetExceptions,
    ServerAddress,
    TimezoneName,
    Tokens,
    Toolsets,
    UserIds,
    VariableNames,
)

CONFIG_VERSION = 1


class ModelSettings(Section):
    name: Line = Field(
        "demo",
        min_length=1,
        max_length=200,
        description="The model to talk to; demo answers without a network.",
        json_schema_extra=env_named("HERMES_MODEL"),
    )
    base_url: ServerAddress = Field(
        "",
        max_length=2000,
        description="Address of an OpenAI-compatible server; empty means the usual one of the key in use.",
        json_schema_extra=env_named("OPENAI_BASE_URL"),
    )
    fallbacks: Models = Field((), description="Models to ask, in this order, when the first cannot answer.")
    fallback_cooldown_seconds: Number = Field(
        60, ge=0, le=86_400, description="How long a model that failed is left alone when there is another."
    )
    stream: bool = Field(True, description="Let answers grow word by word; off for servers that cannot.")
    connect_timeout_seconds: Number = Field(10, gt=0, le=600, description="How long connecting to it may take.")
    first_byte_timeout_seconds: Number = Field(
        120, gt=0, le=3600, description="How long it may think before a streamed answer begins."
    )
    idle_timeout_seconds: Number = Field(
        60, gt=0, le=3600, description="How long a streamed answer may pause before it is asked for again."
    )
    total_timeout_seconds: Number = Field(900, gt=0, le=86_400, description="How long one answer may take in all.")
    attempts: int = Field(4, ge=1, le=20, description="How often it is asked before the chat is told that it failed.")
    demo_pace_ms: int = Field(15, ge=0, le=10_000, description="How long the demo model takes over a word in chats.")


class AgentSettings(Section):
    max_iterations: int = Field(
        60,
        ge=1,
        le=1000,
        description="How often one turn may use tools before it must sum up.",
        json_schema_extra=env_named("HERMES_MAX_ITERATIONS"),
    )
    enabled_toolsets: Toolsets = Field(("core",), description="Which toolsets the agent is offered.")
    disabled_toolsets: Toolsets = Field((), description="Toolsets to leave out even when enabled.")
    max_tool_result_chars: int = Field(
        100_000, ge=1_000, le=10_000_000, description="Longer results of tools are cut in the middle."
    )
    history_messages: int = Field(
        400, ge=10, le=100_000, description="How many past messages of a session the model is shown."
    )


class GatewaySettings(Section):
    busy_mode: Literal["steer", "interrupt", "queue", "collect"] = Field(
        "steer",
        description="What a message that arrives during a turn of its sender does: join it, end it, wait for a turn "
        "of its own, or wait for one with all the others.",
    )
    drain_timeout_seconds: Number = Field(
        60, ge=0, le=3600, description="How long running turns may go on after a stop was asked."
    )
    max_turns: int = Field(512, ge=1, le=100_000, description="Turns running at once, over all sessions.")
    max_tool_runs: int = Field(32, ge=1, le=10_000, description="Tool calls running at once, over all sessions.")
    max_tool_runs_per_turn: int = Field(8, ge=1, le=10_000, description="Tool calls of one turn running at once.")
    max_waiting_per_session: int = Field(20, ge=1, le=10_000, description="Messages one session may have waiting.")
    max_resumes: int = Field(3, ge=0, le=100, description="How often a turn is taken up again after a crash.")
    outbox_age_limit_hours: Number = Field(24, gt=0, le=8760, description="Older undelivered replies are given up.")
    max_sends_per_account: int = Field(32, ge=1, le=1000, description="Messages being sent at once by one bot account.")
    send_timeout_seconds: Number = Field(60, gt=0, le=600, description="How long one send to a platform may take.")
    alarm_minutes: Number = Field(
        5, ge=0, le=10_080, description="How long a platform may be away before the owner is told on another."
    )
    free_response_chats: ChatIds = Field(
        (), description="Groups in which the bot answers without being mentioned, such as telegram:-1001234567890."
    )


class AccessSettings(Section):
    owner_users: UserIds = Field((), description="Ids of the owners, such as telegram:123456789.")
    allowed_users: UserIds = Field(
        (),
        description="Ids of the people who may talk to the bot, on one platform or, without its name, on all.",
        json_schema_extra=env_named("GATEWAY_ALLOWED_USERS"),
    )
    allow_all_users: bool = Field(
        False,
        description="Let anybody at all talk to the bot in direct messages.",
        json_schema_extra=env_named("GATEWAY_ALLOW_ALL_USERS"),
    )
    allowed_chats: ChatIds = Field(
        (), description="Groups in which everybody may talk to the bot, such as telegram:-1001234567890."
    )
    unauthorized_dm_behavior: Literal["pair", "ignore"] = Field(
        "pair", description="What a stranger's direct message gets: a pairing code, or nothing."
    )
    messages_per_minute: int = Field(
        30, ge=0, le=1_000_000, description="How many messages of one sender are taken in a minute; 0 means any number."
    )
    pairing_code_minutes: Number = Field(60, gt=0, le=10_080, description="How long a pairing code or invite is good.")
    pairing_request_minutes: Number = Field(
        10, ge=0, le=10_080, description="How long a stranger waits before asking for another code."
    )
    max_pending_pairings: int = Field(
        3, ge=1, le=1000, description="How many strangers may wait for approval at once on one platform."
    )
    max_failed_approvals: int = Field(
        5, ge=1, le=1000, description="After so many wrong codes approval is locked on that platform."
    )
    lockout_minutes: Number = Field(60, gt=0, le=10_080, description="How long approval stays locked.")


class SessionsSettings(Section):
    group_scope: Literal["shared", "per_user"] = Field(
        "shared", description="Whether a group has one conversation or each of its members one of their own."
    )
    overheard_messages: int = Field(
        20, ge=0, le=1000, description="How many messages said to others a mention brings along, in allowed chats."
    )
    reset: Literal["idle", "daily", "both", "none"] = Field(
        "idle", description="When a conversation ends by itself: after silence, at an hour of the day, both or never."
    )
    reset_idle_minutes: int = Field(
        1440, ge=1, le=LONGEST_IDLE_MINUTES, description="After how much silence a conversation ends."
    )
    reset_daily_hour: int = Field(4, ge=0, le=23, description="At which hour, in the owner's time zone.")
    reset_exceptions: ResetExceptions = Field(
        ("socket=none", "web=none"),
        description="Where it is otherwise, such as telegram:group=daily,slack:dm=idle:120,discord=daily:6,web=none.",
    )


class RetentionSettings(Section):
    """In days; 0 means for ever."""

    messages_days: Days = Field(0, description="How long conversations are kept, and searchable; 0 means for ever.")
    inbox_days: LongDays = Field(90, description="How long messages that were dealt with stay known; 0 means for ever.")
    outbox_days: LongDays = Field(90, description="How long replies that were sent stay known; 0 means for ever.")
    trail_days: LongDays = Field(90, description="How long is kept what became of each message; 0 means for ever.")
    overheard_days: Days = Field(7, description="How long is kept what was said in groups to others; 0 means for ever.")
    pairing_days: LongDays = Field(90, description="How long old pairing requests are kept; 0 means for ever.")
    spending_days: Days = Field(400, description="How long is kept what model calls used; 0 means for ever.")
    media_days: Days = Field(
        0, description="How long files are kept after they were last used; 0 means as long as something refers to them."
    )


class BudgetsSettings(Section):
    """For one day each; 0 means no limit."""

    user_tokens: Tokens = Field(0, description="Tokens that one person may use in a day; 0 means any number.")
    user_usd: Dollars = Field(0, description="What one person may cost in a day, in US dollars; 0 means anything.")
    chat_tokens: Tokens = Field(0, description="Tokens that may be used in one chat in a day; 0 means any number.")
    chat_usd: Dollars = Field(0, description="What one chat may cost in a day, in US dollars; 0 means anything.")
    job_tokens: Tokens = Field(0, description="Tokens that one scheduled job may use in a day; 0 means any number.")
    job_usd: Dollars = Field(0, description="What one scheduled job may cost in a day; 0 means anything.")
    day_tokens: Tokens = Field(0, description="Tokens that all together may use in a day; 0 means any number.")
    day_usd: Dollars = Field(0, description="What all together may cost in a day, in US dollars; 0 means anything.")
    people: OwnBudgets = Field(
        (), description="Who has a budget of their own, in tokens and dollars, such as telegram:123456789=500000:2.50."
    )
    warn_at: Number = Field(0.8, gt=0, le=1, description="How much of a budget is used when its chat is told.")
    prices: Prices = Field(
        (), description="Dollars for a million input, cached and output tokens, such as gpt-5=1.25:0.125:10."
    )


class MediaSettings(Section):
    """Files that come in, and files that go out."""

    max_file_bytes: int = Field(
        20_000_000, ge=1024, le=1_000_000_000, description="The largest file that is taken from a chat."
    )
    max_files_per_message: int = Field(10, ge=0, le=1000, description="How many files of one message are taken.")
    max_files_per_turn: int = Field(
        20, ge=0, le=1000, description="How many are taken of all messages that are answered together."
    )
    fetch_timeout_seconds: Number = Field(60, gt=0, le=3600, description="How long fetching one file may take.")
    fetches_at_once: int = Field(4, ge=1, le=1000, description="Files being fetched at once for one bot account.")
    max_text_chars: int = Field(
        60_000, ge=100, le=10_000_000, description="How much of one file's text the model is given."
    )
    max_turn_text_chars: int = Field(
        150_000, ge=100, le=100_000_000, description="How much of all files that are answered together."
    )
    read_timeout_seconds: Number = Field(
        20, ge=1, le=600, description="How long the text of one file may take to be read."
    )
    read_memory_mb: int = Field(512, ge=128, le=1_000_000, description="How much memory reading one file may take.")
    max_image_pixels: int = Field(
        50_000_000, ge=1, le=10_000_000_000, description="Pictures with more pixels are not shown to the model."
    )
    allowed_dirs: Folders = Field(
        (), description="Further folders from which the owner may be sent files, such as ~/pictures."
    )
    max_outgoing_bytes: int = Field(
        20_000_000, ge=1024, le=100_000_000, description="The largest file that is sent to a chat."
    )


class StoreSettings(Section):
    busy_timeout_seconds: Number = Field(5, gt=0, le=300, description="How long to wait for another process's write.")
    backup_every_hours: Number = Field(24, gt=0, le=8760, description="Time between two backups of the database.")
    backups_kept: int = Field(7, ge=1, le=1000, description="How many backups to keep.")
    upgrade_backups_kept: int = Field(
        2, ge=1, le=1000, description="How many copies from before a change of the database's schema to keep."
    )
    full_check_max_mb: int = Field(
        256, ge=0, le=1_000_000, description="Databases up to this size are checked in full at the start."
    )


class BubblewrapSettings(Section):
    network: bool = Field(False, description="Whether commands in the sandbox may reach the network.")
    memory_mb: int = Field(2048, ge=64, le=1_000_000, description="How much memory a command may use.")
    max_processes: int = Field(256, ge=8, le=100_000, description="How many processes a command may have.")
    workspace_mb: int = Field(2048, ge=1, le=10_000_000, description="How large a workspace may grow.")


class TerminalSettings(Section):
    backend: Literal["local", "bubblewrap"] = Field(
        "local",
        description="Where the owner's commands run and files are; everybody else's are always in a sandbox.",
        json_schema_extra=env_named("TERMINAL_ENV"),
    )
    cwd: Line = Field(
        "~",
        min_length=1,
        max_length=1000,
        description="The folder in which the agent works for chats; its AGENTS.md is read.",
        json_schema_extra=env_named("MESSAGING_CWD"),
    )
    timeout_seconds: Number = Field(
        180, gt=0, le=86_400, description="How long a command may take when the agent does not say."
    )
    max_timeout_seconds: Number = Field(
        600, gt=0, le=86_400, description="How long the agent may say that a command may take."
    )
    min_check_interval_seconds: int = Field(
        30, ge=1, le=86_400, description="How often a chat is told of a background process at most."
    )
    max_output_chars: int = Field(
        50_000, ge=1_000, le=1_000_000, description="How much of a command's output is shown; the rest is in a file."
    )
    env_passthrough: VariableNames = Field(
        (), description="Variables that the owner's commands get besides the ordinary ones, also from .env."
    )
    bubblewrap: BubblewrapSettings = Field(BubblewrapSettings(), description="The sandbox.")


class ApprovalsSettings(Section):
    mode: Literal["ask", "deny", "off"] = Field(
        "ask",
        description="What happens to risky calls where nothing isolates them: a human is asked, they are refused, or "
        "they are made like any other (off). A few commands are never run.",
    )
    policy: Literal["risky", "unknown"] = Field(
        "risky", description="What is asked about: what is known to be risky, or all that is not known to be harmless."
    )
    wait_minutes: Number = Field(
        60, gt=0, le=10_080, description="How long a question in a chat waits; then the answer is no."
    )
    terminal_wait_seconds: Number = Field(
        60, gt=0, le=3600, description="How long a question waits in hermes chat; then the answer is no."
    )


class DisplaySettings(Section):
    tool_progress: bool = Field(
        True,
        description="Show in direct messages which tools are being used while an answer is made.",
        json_schema_extra=env_named("HERMES_TOOL_PROGRESS"),
    )
    tool_progress_mode: Literal["new", "all", "verbose"] = Field(
        "new",
        description="Show a tool once until another is used, each call, or each call with what came of it.",
        json_schema_extra=env_named("HERMES_TOOL_PROGRESS_MODE"),
    )
    draft_after_seconds: Number = Field(
        2, ge=0, le=3600, description="How long an answer may take before it is seen growing."
    )
    watching_seconds: Number = Field(
        10, ge=0, le=3600, description="An answer that comes so soon takes its draft's place and rings nobody."
    )
    reactions: bool = Field(True, description="Mark messages in groups as seen, and as failed.")
    background_process_notifications: Literal["all", "result", "error", "off"] = Field(
        "all",
        description="What a chat is told of its background processes: output and ends, ends, failing ends, nothing.",
        json_schema_extra=env_named("HERMES_BACKGROUND_NOTIFICATIONS"),
    )
    human_delay_mode: Literal["off", "natural", "custom"] = Field(
        "off",
        description="Whether the messages of a long answer come one after the other, as a person would send them.",
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
    level: Literal["debug", "info", "warning", "error"] = Field("info", description="The least important line shown.")
    format: Literal["auto", "pretty", "json"] = Field(
        "auto", description="How lines look; auto is pretty on a terminal and JSON elsewhere."
    )


class UserSettings(Section):
    name: Line = Field("", max_length=200, description="What the agent calls the owner.")
    timezone: TimezoneName = Field(
        "", max_length=100, description="The owner's time zone, such as Europe/Berlin; empty means the machine's."
    )


class Secrets(Section):
    """One field for each row of the table in `hermes_config.secrets`."""

    telegram_bot_token: SecretStr | None = None
    discord_bot_token: SecretStr | None = None
    slack_bot_token: SecretStr | None = None
    slack_app_token: SecretStr | None = None
    openrouter_api_key: SecretStr | None = None
    openai_api_key: SecretStr | None = None
    nous_api_key: SecretStr | None = None
    anthropic_api_key: SecretStr | None = None
    gemini_api_key: SecretStr | None = None
    sudo_password: SecretStr | None = None
    firecrawl_api_key: SecretStr | None = None
    parallel_api_key: SecretStr | None = None
    browserbase_api_key: SecretStr | None = None
    browserbase_project_id: SecretStr | None = None
    hermes_web_token: SecretStr | None = None
    fal_key: SecretStr | None = None

    def by_variable(self) -> dict[str, str]:
        """What is set, in plain text, by environment name."""
        return {name.upper(): value.get_secret_value() for name, value in self if value is not None}


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
        (), description="Commands that are run without asking, as they are written; * stands for words in them."
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
        # Our own `load` does the reading: pydantic's sources know neither lines nor plain words.
        return (init_settings,)
