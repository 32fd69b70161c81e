"""All settings: their names, defaults, bounds and meaning. `load` reads their values."""

from typing import Literal

from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from hermes_config.ids import (
    EXAMPLE_CHAT,
    EXAMPLE_RESETS,
    EXAMPLE_TOOLSETS,
    EXAMPLE_USER,
    EXAMPLE_WEBHOOK,
    LOCAL_PLATFORMS,
    ChatIds,
    OwnBudgets,
    PlatformToolsets,
    ResetExceptions,
    UserIds,
    WebhookEntries,
)
from hermes_config.jobs import CronEntries
from hermes_config.mcp import McpServers
from hermes_config.platforms import PlatformsSettings
from hermes_config.secrets import Secrets
from hermes_config.types import (
    LONGEST_IDLE_MINUTES,
    CommandPatterns,
    Days,
    Dollars,
    Folders,
    HookNames,
    Line,
    LongDays,
    MembersBackend,
    Models,
    NetworkAddresses,
    Number,
    Prices,
    SandboxNetwork,
    Section,
    ServerAddress,
    SkillNames,
    TerminalBackend,
    TimezoneName,
    Tokens,
    Toolsets,
    VariableNames,
    Volumes,
    Words,
    setting,
)

CONFIG_VERSION = 1


class ModelSettings(Section):
    name: Line = setting(
        "demo", "The model to use; demo answers without a network.", min_length=1, max_length=200, env="HERMES_MODEL"
    )
    base_url: ServerAddress = setting(
        "",
        "Address of an OpenAI-compatible server; empty: the usual one for the key in use.",
        max_length=2000,
        example="https://openrouter.ai/api/v1",
        env="OPENAI_BASE_URL",
    )
    auxiliary: Line = setting(
        "",
        "Model for summaries and other small tasks; empty: the main one.",
        max_length=200,
        example="openai/gpt-5-mini",
        env="HERMES_AUXILIARY_MODEL",
    )
    vision: Line = setting(
        "",
        "Model that looks at pictures for a main model that cannot see, and for vision_analyze; empty: the main one.",
        max_length=200,
        example="openai/gpt-5-mini",
        env="HERMES_VISION_MODEL",
    )
    context_tokens: int = setting(
        0, "Context window of the model in tokens; 0: as known for its name.", ge=0, le=100_000_000
    )
    fallbacks: Models = setting((), "Models to try, in this order, when the first cannot answer.")
    fallback_cooldown_seconds: Number = setting(
        60, "How long a failed model is skipped, if there is another.", ge=0, le=86_400
    )
    stream: bool = setting(True, "Receive answers word by word; turn off for servers that cannot.")
    connect_timeout_seconds: Number = setting(10, "How long connecting may take.", gt=0, le=600)
    first_byte_timeout_seconds: Number = setting(120, "How long a streamed answer may take to begin.", gt=0, le=3600)
    idle_timeout_seconds: Number = setting(60, "Pause after which a streamed answer is requested again.", gt=0, le=3600)
    total_timeout_seconds: Number = setting(900, "How long one answer may take in total.", gt=0, le=86_400)
    attempts: int = setting(4, "How often a request is tried before it counts as failed.", ge=1, le=20)
    demo_pace_ms: int = setting(15, "How long the demo model takes per word in chats.", ge=0, le=10_000)


class AgentSettings(Section):
    max_iterations: int = setting(
        60, "Rounds of tool calls after which a turn must sum up.", ge=1, le=1000, env="HERMES_MAX_ITERATIONS"
    )
    enabled_toolsets: Toolsets = setting(("core",), "Toolsets offered to the agent.")
    disabled_toolsets: Toolsets = setting((), "Toolsets to leave out even when enabled.", example="clock")
    platform_toolsets: PlatformToolsets = setting(
        (),
        "Toolsets offered on one platform, or in cli or cron, instead of enabled_toolsets.",
        example=EXAMPLE_TOOLSETS,
    )
    max_tool_result_chars: int = setting(100_000, "Longer tool results are cut in the middle.", ge=1_000, le=10_000_000)
    history_messages: int = setting(
        400, "Messages of a session after which older ones are summarised.", ge=10, le=100_000
    )
    compression_threshold: Number = setting(
        0.85, "Share of the context window at which a conversation is summarised.", gt=0.1, le=0.95
    )
    compression_target_tokens: int = setting(
        50_000, "Length to which a conversation is summarised, at most half of the window.", ge=1_000, le=10_000_000
    )
    compression_keep_turns: int = setting(15, "Last turns that are never summarised, if they fit.", ge=1, le=1000)
    compression_timeout_seconds: Number = setting(60, "How long one summary may take.", gt=0, le=3600)


class DelegationSettings(Section):
    """Tasks that the agent has done by agents of their own (toolset delegate)."""

    at_once: int = setting(3, "Delegated tasks of one call that run at the same time.", ge=1, le=20)
    max_iterations: int = setting(50, "Rounds of tool calls after which a delegated task must sum up.", ge=1, le=1000)
    idle_timeout_seconds: Number = setting(
        600, "Time without any progress after which a delegated task is ended.", gt=0, le=86_400
    )


class MoaSettings(Section):
    """Several models that are asked the same question (toolset moa)."""

    models: Models = setting(
        (),
        "Models that mixture_of_agents asks; empty: two of Nous, if NOUS_API_KEY is set.",
        example="openai/gpt-5-mini",
    )
    aggregator: Line = setting(
        "", "Model that makes one answer of theirs; empty: the main one.", max_length=200, example="openai/gpt-5"
    )


class GatewaySettings(Section):
    busy_mode: Literal["steer", "interrupt", "queue", "collect"] = setting(
        "steer",
        "A message that arrives during a turn of its sender joins the turn, interrupts it, waits for its own turn, or "
        "waits for one turn together with the others.",
    )
    drain_timeout_seconds: Number = setting(60, "How long running turns may go on after a stop request.", ge=0, le=3600)
    max_turns: int = setting(512, "Turns that may run at once in all sessions.", ge=1, le=100_000)
    max_tool_runs: int = setting(32, "Tool calls that may run at once in all sessions.", ge=1, le=10_000)
    max_tool_runs_per_turn: int = setting(8, "Tool calls of one turn that may run at once.", ge=1, le=10_000)
    max_waiting_per_session: int = setting(20, "Messages that may wait in one session.", ge=1, le=10_000)
    max_resumes: int = setting(3, "How often a turn is resumed after a crash.", ge=0, le=100)
    outbox_age_limit_hours: Number = setting(24, "When undelivered replies are given up.", gt=0, le=8760)
    max_sends_per_account: int = setting(32, "Messages that one bot account may send at once.", ge=1, le=1000)
    send_timeout_seconds: Number = setting(60, "How long one send to a platform may take.", gt=0, le=600)
    alarm_minutes: Number = setting(5, "Downtime of a platform before the owner is told on another.", ge=0, le=10_080)
    free_response_chats: ChatIds = setting(
        (), "Groups in which the bot answers without being mentioned.", example=EXAMPLE_CHAT
    )


class AccessSettings(Section):
    owner_users: UserIds = setting((), "Ids of the owners.", example=EXAMPLE_USER)
    allowed_users: UserIds = setting(
        (),
        "Ids of the people who may talk to the bot, on the platform named before it or else on all.",
        example=EXAMPLE_USER,
        env="GATEWAY_ALLOWED_USERS",
    )
    allow_all_users: bool = setting(
        False, "Let anybody talk to the bot in direct messages.", env="GATEWAY_ALLOW_ALL_USERS"
    )
    allowed_chats: ChatIds = setting((), "Groups in which everybody may talk to the bot.", example=EXAMPLE_CHAT)
    unauthorized_dm_behavior: Literal["pair", "ignore"] = setting(
        "pair", "How a stranger's direct message is answered: with a pairing code, or not at all."
    )
    messages_per_minute: int = setting(30, "Messages accepted per sender and minute; 0: no limit.", ge=0, le=1_000_000)
    pairing_code_minutes: Number = setting(60, "How long a pairing code or invite is valid.", gt=0, le=10_080)
    pairing_request_minutes: Number = setting(
        10, "How long a stranger waits before requesting another code.", ge=0, le=10_080
    )
    max_pending_pairings: int = setting(3, "Strangers who may wait for approval on one platform.", ge=1, le=1000)
    max_failed_approvals: int = setting(5, "Wrong codes after which approval is locked on a platform.", ge=1, le=1000)
    lockout_minutes: Number = setting(60, "How long approval stays locked.", gt=0, le=10_080)


class SessionsSettings(Section):
    group_scope: Literal["shared", "per_user"] = setting(
        "shared", "Whether a group has one conversation or each member has their own."
    )
    overheard_messages: int = setting(
        20, "How many earlier messages to others a mention brings along, in allowed chats.", ge=0, le=1000
    )
    reset: Literal["idle", "daily", "both", "none"] = setting(
        "idle", "When a conversation ends by itself: after silence, at an hour of the day, both, or never."
    )
    reset_idle_minutes: int = setting(1440, "Silence after which a conversation ends.", ge=1, le=LONGEST_IDLE_MINUTES)
    reset_daily_hour: int = setting(4, "The hour of a daily reset, in the owner's time zone.", ge=0, le=23)
    reset_exceptions: ResetExceptions = setting(
        tuple(f"{name}=none" for name in (*LOCAL_PLATFORMS, "api")),
        "Platforms and kinds of chats with another rule.",
        example=EXAMPLE_RESETS,
    )


class RetentionSettings(Section):
    """Retention times in days; 0 means forever."""

    messages_days: Days = setting(0, "Conversations, which can be searched; 0: forever.")
    inbox_days: LongDays = setting(90, "Records of processed messages; 0: forever.")
    outbox_days: LongDays = setting(90, "Records of sent replies; 0: forever.")
    trail_days: LongDays = setting(90, "The trail of each message; 0: forever.")
    overheard_days: Days = setting(7, "Messages in groups that were not addressed to the bot; 0: forever.")
    pairing_days: LongDays = setting(90, "Old pairing requests; 0: forever.")
    spending_days: Days = setting(400, "Usage of model calls; 0: forever.")
    memories_days: LongDays = setting(90, "Memories that were replaced or forgotten, for undo; 0: forever.")
    media_days: Days = setting(0, "Files after their last use; 0: as long as something refers to them.")


class BudgetsSettings(Section):
    """Limits per day; 0: no limit."""

    user_tokens: Tokens = setting(0, "Tokens that one person may use per day; 0: no limit.")
    user_usd: Dollars = setting(0, "US dollars that one person may cost per day; 0: no limit.")
    chat_tokens: Tokens = setting(0, "Tokens that may be used in one chat per day; 0: no limit.")
    chat_usd: Dollars = setting(0, "US dollars that one chat may cost per day; 0: no limit.")
    job_tokens: Tokens = setting(0, "Tokens that one scheduled job may use per day; 0: no limit.")
    job_usd: Dollars = setting(0, "US dollars that one scheduled job may cost per day; 0: no limit.")
    day_tokens: Tokens = setting(0, "Tokens that everybody together may use per day; 0: no limit.")
    day_usd: Dollars = setting(0, "US dollars that everybody together may cost per day; 0: no limit.")
    people: OwnBudgets = setting(
        (), "People with their own budget of tokens and US dollars.", example=f"{EXAMPLE_USER}=500000:2.50"
    )
    warn_at: Number = setting(0.8, "The share of a budget at which the chat is warned.", gt=0, le=1)
    prices: Prices = setting(
        (), "US dollars per million input, cached and output tokens of a model.", example="gpt-5=1.25:0.125:10"
    )


class MediaSettings(Section):
    """Incoming and outgoing files."""

    max_file_bytes: int = setting(20_000_000, "The largest file accepted from a chat.", ge=1024, le=1_000_000_000)
    max_files_per_message: int = setting(10, "Files accepted with one message.", ge=0, le=1000)
    max_files_per_turn: int = setting(20, "Files accepted with all messages that one turn answers.", ge=0, le=1000)
    fetch_timeout_seconds: Number = setting(60, "How long downloading one file may take.", gt=0, le=3600)
    fetches_at_once: int = setting(4, "Files that one bot account may download at once.", ge=1, le=1000)
    max_text_chars: int = setting(60_000, "How much text of one file the model sees.", ge=100, le=10_000_000)
    max_turn_text_chars: int = setting(
        150_000, "How much text of all files in one turn the model sees.", ge=100, le=100_000_000
    )
    read_timeout_seconds: Number = setting(20, "How long reading one file may take.", ge=1, le=600)
    read_memory_mb: int = setting(512, "How much memory reading one file may use.", ge=128, le=1_000_000)
    max_image_pixels: int = setting(50_000_000, "Larger pictures are not shown to the model.", ge=1, le=10_000_000_000)
    allowed_dirs: Folders = setting(
        (), "Additional folders with files that the owner may be sent.", example="~/pictures"
    )
    max_outgoing_bytes: int = setting(20_000_000, "The largest file sent to a chat.", ge=1024, le=100_000_000)


class HttpSettings(Section):
    """HTTP for programs, on the server of the web page."""

    enabled: bool = setting(False, "Serve /v1 (OpenAI-compatible) and /hooks on the server of the web page.")
    requests_per_minute: int = setting(
        120, "Requests to /v1 accepted per person and minute; 0: no limit.", ge=0, le=1_000_000
    )
    wait_seconds: Number = setting(
        600, "How long a request waits for its answer, for an approval too.", ge=1, le=86_400
    )
    max_body_bytes: int = setting(10_000_000, "The largest request to /v1.", ge=1024, le=100_000_000)
    webhooks: WebhookEntries = setting(
        (),
        "Webhooks that are accepted: a name, how they are signed, and the chat for the answer.",
        example=EXAMPLE_WEBHOOK,
    )
    max_webhook_bytes: int = setting(5_000_000, "The largest request to /hooks.", ge=1024, le=100_000_000)


class StoreSettings(Section):
    busy_timeout_seconds: Number = setting(5, "How long to wait for another process's write.", gt=0, le=300)
    backup_every_hours: Number = setting(24, "Time between two backups of the database.", gt=0, le=8760)
    backups_kept: int = setting(7, "Backups to keep.", ge=1, le=1000)
    upgrade_backups_kept: int = setting(2, "Backups from before schema upgrades to keep.", ge=1, le=1000)
    full_check_max_mb: int = setting(256, "Databases up to this size are fully checked at startup.", ge=0, le=1_000_000)


class SandboxSettings(Section):
    readable: Folders = setting((), "More files and folders that the owner's sandbox can read.", example="~/.aws")
    writable: Folders = setting((), "More folders that the owner's sandbox can change.", example="~/notes")
    hidden: Folders = setting((), "More files and folders that no sandbox shows.", example="~/taxes")
    network: SandboxNetwork = setting(
        "on", "The owner's sandbox may reach public addresses, none, or those that the owner allows (ask)."
    )
    members_network: bool = setting(False, "Everybody else's sandboxes may reach public addresses.")
    memory_mb: int = setting(2048, "How much memory everybody else's sandboxes may use.", ge=64, le=1_000_000)
    max_processes: int = setting(256, "How many processes everybody else's sandboxes may have.", ge=8, le=100_000)
    workspace_mb: int = setting(2048, "How large everybody else's workspaces may become.", ge=1, le=10_000_000)
    owner_memory_mb: int = setting(8192, "How much memory the owner's sandbox may use.", ge=64, le=1_000_000)
    owner_max_processes: int = setting(2048, "How many processes the owner's sandbox may have.", ge=8, le=100_000)
    min_free_mb: int = setting(1024, "Disk space that the owner's sandbox leaves free.", ge=0, le=10_000_000)


class NetworkSettings(Section):
    """Connections that Hermes makes on somebody's behalf."""

    allowed_addresses: NetworkAddresses = setting(
        (),
        "Names and private addresses that sandboxes and web tools may reach although they are not public.",
        example="192.168.1.7:8123",
    )


class WebToolsSettings(Section):
    """Searching the web and reading pages."""

    searxng_url: ServerAddress = setting(
        "",
        "Address of a SearXNG server that searches the web, with its JSON format switched on.",
        max_length=2000,
        example="http://localhost:8888",
    )
    max_page_bytes: int = setting(5_000_000, "The largest page that is read.", ge=1024, le=100_000_000)
    timeout_seconds: Number = setting(30, "How long fetching one page may take.", gt=0, le=600)


class BrowserSettings(Section):
    """Using web pages in a browser."""

    executable: Line = setting(
        "", "Chromium's program; empty: the one that is installed.", max_length=1000, example="/opt/chrome/chrome"
    )
    max_browsers: int = setting(3, "How many browsers may be open at once, one for each person.", ge=1, le=100)
    idle_minutes: Number = setting(10, "A browser that nobody has used for so long is closed.", gt=0, le=1440)
    timeout_seconds: Number = setting(30, "How long opening a page may take.", gt=0, le=600)
    max_download_bytes: int = setting(50_000_000, "The largest file that is downloaded.", ge=1024, le=2_000_000_000)


class ImagesSettings(Section):
    """Making pictures."""

    base_url: ServerAddress = setting(
        "",
        "Address of a server with OpenAI's images endpoint; empty: FAL or OpenAI, whichever has a key.",
        max_length=2000,
        example="http://localhost:8080/v1",
    )
    model: Line = setting("", "Model that makes pictures; empty: a usual one.", max_length=200)


class VoiceSettings(Section):
    """Voice messages in and out."""

    transcription_url: ServerAddress = setting(
        "",
        "Address of a server with OpenAI's /audio/transcriptions; empty: OpenAI if its key is set.",
        max_length=2000,
        example="http://localhost:8000/v1",
    )
    transcription_model: Line = setting("whisper-1", "Model that transcribes.", min_length=1, max_length=200)
    speech_url: ServerAddress = setting(
        "",
        "Address of a server with OpenAI's /audio/speech; empty: OpenAI if its key is set.",
        max_length=2000,
        example="http://localhost:8880/v1",
    )
    speech_model: Line = setting("tts-1", "Model that speaks.", min_length=1, max_length=200)
    voice: Line = setting("", "Voice of the speech service in use; empty: its usual one.", max_length=200)
    offline: bool = setting(False, "Use no service but those named by their addresses here: nothing else is sent away.")
    grammar: Line = setting(
        "", "JSGF grammar of all that the offline recogniser should understand.", max_length=1000, example="~/home.jsgf"
    )
    whisper_model: Line = setting(
        "",
        "Folder of a model for faster-whisper, which then transcribes offline.",
        max_length=1000,
        example="~/whisper",
    )


class DockerSettings(Section):
    image: Line = setting(
        "python:3.13-bookworm", "The image of containers.", min_length=1, max_length=500, env="TERMINAL_DOCKER_IMAGE"
    )
    binary: Line = setting("", "The program: docker, podman or a path; found if empty.", max_length=1000)
    network: bool = setting(False, "The owner's container can use the network.")
    members_network: bool = setting(False, "Everybody else's containers can use the network.")
    volumes: Volumes = setting((), "Mounts of the owner's container.", example="/srv/data:/data:ro")
    cpus: Number = setting(2, "How many processors a container may use.", gt=0, le=1024)
    memory_mb: int = setting(2048, "How much memory a container may use.", ge=64, le=1_000_000)
    max_processes: int = setting(512, "How many processes a container may have.", ge=8, le=100_000)
    read_only: bool = setting(False, "Only the workspace and /tmp of a container can be written.")
    options: Words = setting((), "More options of `docker run`.", example="--gpus=all")


class SshSettings(Section):
    host: Line = setting(
        "", "The machine to work on, or its name in ~/.ssh/config.", max_length=255, env="TERMINAL_SSH_HOST"
    )
    user: Line = setting("", "The user there; that of ~/.ssh/config if empty.", max_length=100, env="TERMINAL_SSH_USER")
    port: int = setting(0, "The port; 0 for that of ~/.ssh/config, or 22.", ge=0, le=65535, env="TERMINAL_SSH_PORT")
    key: Line = setting("", "The file of the private key; found if empty.", max_length=1000, env="TERMINAL_SSH_KEY")
    jump: Line = setting("", "A machine to go through, such as me@gate.example.org.", max_length=500)
    known_hosts: Line = setting("", "The file of known host keys; that of ~/.ssh if empty.", max_length=1000)
    trust_new_host: bool = setting(False, "Accept the key of a host that is not known yet; a changed one never.")


class SingularitySettings(Section):
    image: Line = setting(
        "docker://python:3.13-bookworm", "The image: a file, or an address such as docker://debian.",
        min_length=1, max_length=1000, env="TERMINAL_SINGULARITY_IMAGE",
    )  # fmt: skip
    binary: Line = setting("", "The program: apptainer, singularity or a path; found if empty.", max_length=1000)
    network: bool = setting(False, "The owner's instance can use the network.")
    options: Words = setting((), "More options of `apptainer instance start`.", example="--nv")


class ModalSettings(Section):
    image: Line = setting(
        "", "The image, from a registry; Modal's Debian if empty.", max_length=500, env="TERMINAL_MODAL_IMAGE"
    )
    app: Line = setting("hermes", "The app at Modal that sandboxes belong to.", min_length=1, max_length=60)
    gpu: Line = setting("", "The GPU of the owner's sandbox.", max_length=60, example="A10G")
    cpus: Number = setting(1, "How many processors a sandbox asks for.", gt=0, le=64)
    memory_mb: int = setting(2048, "How much memory a sandbox asks for.", ge=128, le=1_000_000)
    network: bool = setting(True, "The owner's sandbox can use the network.")
    members_network: bool = setting(False, "Everybody else's sandboxes can use the network.")
    max_hours: int = setting(24, "How long a sandbox lives at most.", ge=1, le=24)


class DaytonaSettings(Section):
    api_url: Line = setting(
        "https://app.daytona.io/api", "The address of the service.", min_length=8, max_length=500, env="DAYTONA_API_URL"
    )
    image: Line = setting(
        "", "The snapshot to start from; Daytona's own if empty.", max_length=500, env="TERMINAL_DAYTONA_IMAGE"
    )
    target: Line = setting("", "The region, such as us or eu.", max_length=60, env="DAYTONA_TARGET")
    network: bool = setting(True, "The owner's sandbox can use the network.")
    members_network: bool = setting(False, "Everybody else's sandboxes can use the network.")


class TerminalSettings(Section):
    backend: TerminalBackend = setting(
        "auto",
        "Where the owner's commands run: a sandbox, this machine (local), a sandbox where one works (auto), or docker, "
        "ssh, singularity, modal, daytona.",
        env="TERMINAL_ENV",
    )
    members_backend: MembersBackend = setting("sandbox", "Where everybody else's commands run.")
    cwd: Line = setting(
        "~",
        "The folder in which the agent works for chats, where its commands run; ~ is the usual one there.",
        min_length=1,
        max_length=1000,
        env="MESSAGING_CWD",
    )
    timeout_seconds: Number = setting(180, "Timeout of a command unless the agent chooses one.", gt=0, le=86_400)
    max_timeout_seconds: Number = setting(600, "The longest timeout that the agent may choose.", gt=0, le=86_400)
    min_check_interval_seconds: int = setting(
        30, "The shortest time between two reports on a background process.", ge=1, le=86_400
    )
    max_output_chars: int = setting(
        50_000, "How much of an output the model sees; the rest goes to a file.", ge=1_000, le=1_000_000
    )
    env_passthrough: VariableNames = setting(
        (), "Additional variables, also from .env, that the owner's commands receive.", example="GITHUB_TOKEN"
    )
    idle_minutes: int = setting(
        15, "How long after the last command or process a container or cloud sandbox ends.", ge=1, le=10_000
    )
    sandbox: SandboxSettings = SandboxSettings()
    docker: DockerSettings = DockerSettings()
    ssh: SshSettings = SshSettings()
    singularity: SingularitySettings = SingularitySettings()
    modal: ModalSettings = ModalSettings()
    daytona: DaytonaSettings = DaytonaSettings()

    @property
    def works_here(self) -> bool:
        """Return whether the owner's commands run on this machine, in a sandbox or not."""
        return self.backend in ("auto", "sandbox", "local")


class ApprovalsSettings(Section):
    mode: Literal["ask", "deny", "off"] = setting(
        "ask",
        "Risky calls outside of a sandbox: ask a human, deny them, or allow them (off). A few commands are never run.",
    )
    policy: Literal["risky", "unknown"] = setting(
        "risky", "Ask about calls known to be risky, or about all that are not known to be harmless."
    )
    wait_minutes: Number = setting(60, "Time after which a question in a chat counts as denied.", gt=0, le=10_080)
    terminal_wait_seconds: Number = setting(
        60, "Time after which a question in `hermes chat` or an editor counts as denied.", gt=0, le=3600
    )


class DisplaySettings(Section):
    skin: Literal["auto", "dark", "light", "mono"] = setting("auto", "Colours of the terminal chat.")
    tool_progress: bool = setting(True, "Show in direct messages which tools a turn uses.", env="HERMES_TOOL_PROGRESS")
    tool_progress_mode: Literal["new", "all", "verbose"] = setting(
        "new",
        "Show a tool once until another is used, every call, or every call with its result.",
        env="HERMES_TOOL_PROGRESS_MODE",
    )
    draft_after_seconds: Number = setting(2, "Time after which a draft of an answer is shown.", ge=0, le=3600)
    watching_seconds: Number = setting(10, "Sooner answers replace their draft without a notification.", ge=0, le=3600)
    reactions: bool = setting(True, "React to messages in groups when they are seen or have failed.")
    background_process_notifications: Literal["all", "result", "error", "off"] = setting(
        "all",
        "Reports on background processes: output and exits, exits, failures, or nothing.",
        env="HERMES_BACKGROUND_NOTIFICATIONS",
    )
    human_delay_mode: Literal["off", "natural", "custom"] = setting(
        "off", "Pause between the messages of a long answer, as a person would.", env="HERMES_HUMAN_DELAY_MODE"
    )
    human_delay_min_ms: int = setting(
        800, "The shortest pause between two messages in custom mode.", ge=0, le=60_000, env="HERMES_HUMAN_DELAY_MIN_MS"
    )
    human_delay_max_ms: int = setting(
        2500, "The longest pause between two messages in custom mode.", ge=0, le=60_000, env="HERMES_HUMAN_DELAY_MAX_MS"
    )


class LogSettings(Section):
    level: Literal["debug", "info", "warning", "error"] = setting("info", "The least important lines to log.")
    format: Literal["auto", "pretty", "json"] = setting(
        "auto", "Format of log lines; auto: pretty on a terminal, JSON elsewhere."
    )


class HooksSettings(Section):
    disabled: HookNames = setting(("audit_log",), "Hooks that are switched off; see `hermes hooks list`.")


class MemorySettings(Section):
    nudge_turns: int = setting(
        10, "Messages of a person after which the auxiliary model looks for facts to remember; 0: never.", ge=0, le=1000
    )


class SkillsSettings(Section):
    proposals: Literal["ask", "auto", "off"] = setting(
        "ask",
        "Changes of skills by the agent: ask before each; auto: ask only about skills that it did not write; or off.",
    )
    disabled: SkillNames = setting((), "Skills that are not offered; see `hermes skills list`.", example="token-usage")


class UserDisplaySettings(Section):
    skin: Literal["default", "auto", "dark", "light", "mono"] = setting(
        "default", "Colours of the terminal chat; default: display.skin."
    )
    verbose: bool = setting(False, "Show the owner every tool call with its result.")


class PreferencesSettings(Section):
    model: Line = setting(
        "", "The model in the owner's own conversations; empty: model.name.", max_length=200, example="openai/gpt-5"
    )
    personality: Literal["default", "concise", "thorough", "friendly", "teacher", "engineer"] = setting(
        "default", "The personality in the owner's own conversations; default: SOUL.md."
    )
    display: UserDisplaySettings = UserDisplaySettings()


class McpSettings(Section):
    """Servers of tools that speak the Model Context Protocol."""

    servers: McpServers = setting(
        (),
        "MCP servers by name, each with command (and args, env) or url (and headers), and if wanted timeout, allow, "
        "deny, asks, members and enabled.",
        example='{"time": {"command": "uvx mcp-server-time"}}',
    )
    wait_seconds: Number = setting(
        15, "How long a conversation that begins waits for servers that are being started.", ge=0, le=600
    )


class UserSettings(Section):
    name: Line = setting("", "The owner's name, for the agent.", max_length=200, example="Ada")
    timezone: TimezoneName = setting(
        "", "The owner's time zone; empty: that of the machine.", max_length=100, example="Europe/Berlin"
    )
    preferences: PreferencesSettings = PreferencesSettings()


class Settings(BaseSettings):
    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    model: ModelSettings = ModelSettings()
    agent: AgentSettings = AgentSettings()
    delegation: DelegationSettings = DelegationSettings()
    moa: MoaSettings = MoaSettings()
    gateway: GatewaySettings = GatewaySettings()
    access: AccessSettings = AccessSettings()
    sessions: SessionsSettings = SessionsSettings()
    retention: RetentionSettings = RetentionSettings()
    budgets: BudgetsSettings = BudgetsSettings()
    media: MediaSettings = MediaSettings()
    store: StoreSettings = StoreSettings()
    platforms: PlatformsSettings = PlatformsSettings()
    http: HttpSettings = HttpSettings()
    terminal: TerminalSettings = TerminalSettings()
    network: NetworkSettings = NetworkSettings()
    web: WebToolsSettings = WebToolsSettings()
    browser: BrowserSettings = BrowserSettings()
    images: ImagesSettings = ImagesSettings()
    voice: VoiceSettings = VoiceSettings()
    approvals: ApprovalsSettings = ApprovalsSettings()
    command_allowlist: CommandPatterns = setting(
        (), "Commands that run without asking, as written; * stands for any words.", example="'git push origin *'"
    )
    cron: CronEntries = setting(
        (),
        "Scheduled jobs: each with name, schedule and prompt, and if wanted skills, deliver, model, repeat, timezone, "
        "toolsets and budget.",
        example='{name: Daily, schedule: "0 9 * * *", prompt: "Summarise the news"}',
    )
    display: DisplaySettings = DisplaySettings()
    logs: LogSettings = LogSettings()
    hooks: HooksSettings = HooksSettings()
    memory: MemorySettings = MemorySettings()
    skills: SkillsSettings = SkillsSettings()
    mcp: McpSettings = McpSettings()
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
