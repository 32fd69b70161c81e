"""Commands about how the agent works in this conversation, and about work that it is given directly."""

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_core.models.catalog import ModelCatalog
from agent_core.prompt import PERSONALITIES
from gateway.commands.reasoning import reasoning
from gateway.commands.registry import CHAT_ONLY, Answer, CommandCall, CommandReply, CommandSpec, TurnStart
from gateway.commands.wording import name_nearest
from gateway.messages import TOOL_PROGRESS_MODES, Text, parse_tool_progress_mode
from gateway.store import sessions, turns
from gateway.store.db.connection import Transaction
from gateway.store.sessions import NO_CHOICE, SessionSettings
from tools.loading import load_builtin
from tools.toolsets import ToolChoice

_NOT_FOR_GUESTS = "Only owners and members can change this here, because everyone in the group sees tool results."
_GUESTS_LOOK = "Only owners and members can change this in a group."
_LASTS = "This lasts until the next /new."
_FROM_NOW = "from your next message until the next /new"
_DEFAULT = ("default", "reset")
_NO_TOOLS = "none"  # not the same as no choice
_MODELS_SHOWN = 20
_PROMPTS_AT_ONCE = 5
_IN_BACKGROUND = "--background"
_VERBOSITY_TEXTS = {
    "off": "Tool calls are not shown.",
    "new": "A tool is shown once, and again after another was used.",
    "all": "Every tool call is shown.",
    "verbose": "Every tool call is shown with its result.",
}
_VOICE_TEXTS = {
    "on": "Every answer comes as a voice message, too.",
    "auto": "I answer voice messages with voice messages.",
    "off": "Answers come as text only.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The models and tools that conversations can choose from."""

    models: ModelCatalog
    tools: ToolChoice
    model_in_use: Callable[[], str] = lambda: ""  # the configured one, or the fallback that answers for it now
    preferences: SessionSettings = NO_CHOICE  # of the owner
    why_silent: str = ""  # why nothing can be said aloud; empty when something can


def demo_options() -> AgentOptions:
    """Return the options of an installation without any settings."""
    return AgentOptions(models=ModelCatalog(("demo",), None), tools=ToolChoice(registry=load_builtin()))


def verbose(tx: Transaction, call: CommandCall) -> str:
    """In this conversation, while an answer is made; without an argument everything is shown."""
    if call.is_guest_in_group:  # an owner's tools may be at work here, too
        return _NOT_FOR_GUESTS
    mode = parse_tool_progress_mode(call.arguments.lower() or "verbose")
    if mode is None:
        return f"There is no such mode. Use /verbose {'|'.join(TOOL_PROGRESS_MODES)}."
    _choose(tx, call, verbosity=mode)
    return f"{_VERBOSITY_TEXTS[mode]} {_LASTS}"


def background(tx: Transaction, call: CommandCall) -> Answer:
    """Run a prompt beside the conversation. It is an inbox row like any other, so a restart resumes it."""
    if not call.arguments:
        return "Say what to do: /background PROMPT"
    waiting = len(turns.list_in_background(tx, call.key, by=call.sender_id))
    if waiting >= _PROMPTS_AT_ONCE:
        return f"{waiting} of your prompts are already running in the background. /stop all ends them."
    start = TurnStart(parts=(Text(text=call.arguments),), task=secrets.token_hex(4))
    text = "Working on it in the background; I will post the result here. /status shows it, /stop all ends it."
    return CommandReply(text, starts=start)


def agent_commands(options: AgentOptions) -> tuple[CommandSpec, ...]:
    commands = _AgentCommands(options)
    model = "Show or change the model of this conversation"
    modes = "|".join(TOOL_PROGRESS_MODES)
    beside = "Work on a prompt beside this conversation and post the result here"
    thoughts = "Show the model's thoughts, or choose how much it thinks"
    run = "Run a shell command, with the same rules as the agent's"
    return (
        CommandSpec("model", "Agent", model, commands.model, "[NAME|default]", needs=options.models),
        CommandSpec(
            "personality",
            "Agent",
            "Show or change my personality in this conversation",
            commands.personality,
            "[NAME|default]",
        ),
        CommandSpec("tools", "Agent", "List my tools and why some are off", commands.tools, "[list]"),
        CommandSpec(
            "toolsets",
            "Agent",
            "Switch groups of tools on or off in this conversation",
            commands.toolsets,
            "[on NAME|off NAME|default]",
        ),
        CommandSpec("verbose", "Agent", "Choose how much to show of tool use", verbose, modes, places=CHAT_ONLY),
        CommandSpec("background", "Agent", beside, background, "PROMPT", places=CHAT_ONLY),
        CommandSpec("terminal", "Agent", run, commands.terminal, f"COMMAND [{_IN_BACKGROUND}]", owners_only=True),
        CommandSpec("reasoning", "Agent", thoughts, reasoning, "[level]"),  # a longer hint would fill a menu
        CommandSpec("voice", "Agent", "Have answers spoken as well", commands.voice, "[on|off|auto]"),
    )


@dataclass(frozen=True, slots=True)
class _AgentCommands:
    options: AgentOptions

    def model(self, tx: Transaction, call: CommandCall) -> str:
        wanted = call.arguments
        if not wanted:
            return self._describe_models(tx, call)
        if call.role == "guest":
            return "Only owners and members can change the model."
        models = self.options.models
        default = self._preferred(call).model or models.configured[0]
        if wanted.lower() in _DEFAULT:
            _choose(tx, call, model="")
            return f"Back to the default model {default}, from your next message on."
        name = next((one for one in models.names if one.casefold() == wanted.casefold()), None)
        if name is None:
            problem = f" ({models.problem}.)" if models.problem else ""
            return name_nearest("model", wanted, models.names, "model") + problem
        if call.role != "owner" and name not in models.configured:
            # Another model may cost more than the owner's limits know of.
            return f"Only owners can choose {name}. You can choose: {', '.join(models.configured)}."
        _choose(tx, call, model="" if name == default else name)
        return f"Model: {name}, {_FROM_NOW}."

    def _describe_models(self, tx: Transaction, call: CommandCall) -> str:
        models, chosen = self.options.models, _settings(tx, call).model
        configured, *fallbacks = models.configured
        default = self._preferred(call).model or configured
        lines = [
            f"Model: {chosen}, chosen for this conversation (default: {default})" if chosen else f"Model: {default}"
        ]
        if fallbacks:
            lines.append(f"Fallbacks, when it cannot answer: {', '.join(fallbacks)}")
        in_use = self.options.model_in_use()
        if in_use and in_use not in (default, default.partition("/")[2]) and not chosen and default == configured:
            lines.append(f"{in_use} answers at the moment, because {default} failed a short time ago.")
        if models.problem:
            lines.append(f"{models.problem}.")
        elif models.endpoint is not None:
            more = len(models.offered) - _MODELS_SHOWN
            lines.append(f"{models.endpoint.provider} offers {len(models.offered)}:")
            lines += [f"- {name}" for name in models.offered[:_MODELS_SHOWN]]
            lines += ["", f"… and {more} more. Find one with /model and a part of its name."] if more > 0 else []
        return "\n".join([*lines, "", "Choose one for this conversation with /model NAME; /model default goes back."])

    def personality(self, tx: Transaction, call: CommandCall) -> str:
        name = call.arguments.lower()
        if not name:
            now = _settings(tx, call).personality or self._preferred(call).personality
            lines = [f"- {one}: {text.partition('.')[0]}." for one, text in PERSONALITIES.items()]
            heading = f"Personality: {now or 'default (SOUL.md in the home, if there is one)'}. Available:"
            how = "Choose one with /personality NAME; /personality default goes back."
            return "\n".join([heading, *lines, "", how])
        if call.is_guest_in_group:
            return _GUESTS_LOOK
        if name in _DEFAULT:
            _choose(tx, call, personality="")
            return "Back to the default personality, from your next message on."
        if name not in PERSONALITIES:
            known = (*PERSONALITIES, "default")
            return name_nearest("personality", call.arguments, known, "personality")
        _choose(tx, call, personality=name)
        return f"Personality: {name}, {_FROM_NOW}. /personality default goes back."

    def _preferred(self, call: CommandCall) -> SessionSettings:
        return self.options.preferences if call.is_owners_own else NO_CHOICE

    def tools(self, tx: Transaction, call: CommandCall) -> str:
        if call.arguments.lower() not in ("", "list"):
            return self.toolsets(tx, call)
        choice = self.options.tools
        reasons = choice.why_not(call.key.platform, _settings(tx, call).toolsets)
        lines = [f"- {tool.name} ({tool.toolset})" for tool in choice.registry if not reasons[tool.name]]
        lines = ["Tools in this conversation:", *lines] if lines else ["I have no tools in this conversation."]
        off = [f"- {tool.name}: {reasons[tool.name]}" for tool in choice.registry if reasons[tool.name]]
        lines += ["", "Off:", *off] if off else []
        return "\n".join([*lines, "", "Switch groups of them on or off with /toolsets."])

    def toolsets(self, tx: Transaction, call: CommandCall) -> str:
        action, _, name = call.arguments.lower().partition(" ")
        name = name.strip()
        match action:
            case "" | "list":
                return self._describe_toolsets(tx, call)
            case "default" | "reset" | "on" | "off" if call.is_guest_in_group:
                return _GUESTS_LOOK
            case "default" | "reset":
                _choose(tx, call, toolsets=())
                return f"Back to the default toolsets: {', '.join(self._usual(call))}."
            case "on" | "off" if not name:
                return f"Name a toolset, such as /toolsets {action} terminal. /toolsets lists them."
            case "on" | "off":
                return self._switch(tx, call, name, on=action == "on")
            case _:
                return f"/{call.name} cannot do that. Use /toolsets on NAME, off NAME or default."

    def _switch(self, tx: Transaction, call: CommandCall, name: str, *, on: bool) -> str:
        choice = self.options.tools
        if name not in choice.toolsets:
            return name_nearest("toolset", name, choice.toolsets, "toolsets")
        if on and name in choice.expand(choice.disabled):
            return f"The settings switch {name} off (agent.disabled_toolsets)."
        usual = choice.leaves(self._usual(call)) - choice.expand(choice.disabled)
        meant = choice.leaves((name,)) - choice.expand(choice.disabled)
        if on and not meant <= usual and not call.is_owners_own:
            return f"{name} is not offered here. An owner can switch it on in a private chat."
        wanted = self._on(tx, call) | meant if on else self._on(tx, call) - meant
        left = sorted(wanted) or [_NO_TOOLS]
        _choose(tx, call, toolsets=() if wanted == usual else left)
        return f"{name} is {'on' if on else 'off'}, {_FROM_NOW}. Toolsets that are on: {', '.join(left)}."

    def _describe_toolsets(self, tx: Transaction, call: CommandCall) -> str:
        choice = self.options.tools
        on = self._on(tx, call)
        lines = [
            f"- {name}: {'on' if name in on else 'off'}{f' ({one.description})' if one.description else ''}"
            for name, one in choice.toolsets.items()
            if not one.includes
        ]
        how = "Switch one with /toolsets on NAME or /toolsets off NAME; /toolsets default goes back."
        return "\n".join([*lines, "", how])

    def _on(self, tx: Transaction, call: CommandCall) -> set[str]:
        choice = self.options.tools
        chosen = _settings(tx, call).toolsets or self._usual(call)
        return choice.leaves(chosen) - choice.expand(choice.disabled)

    def _usual(self, call: CommandCall) -> tuple[str, ...]:
        return self.options.tools.enabled_on(call.key.platform)

    def voice(self, tx: Transaction, call: CommandCall) -> str:
        """Without an argument: the choice that holds."""
        if self.options.why_silent:
            return f"I cannot speak here: {self.options.why_silent}."
        if call.is_guest_in_group:
            return "Only owners and members can change this here."
        wanted = call.arguments.lower()
        if not wanted:
            chosen = _settings(tx, call).voice or "off"
            return f"Voice: {chosen}. {_VOICE_TEXTS[chosen]} Change it with /voice on|off|auto."
        if wanted not in _VOICE_TEXTS:
            return "Use /voice on, /voice off or /voice auto."
        _choose(tx, call, voice=wanted)
        return f"{_VOICE_TEXTS[wanted]} {_LASTS}"

    def terminal(self, tx: Transaction, call: CommandCall) -> Answer:
        """Begin a turn that makes this one call of the terminal tool: same guard, approvals and journal."""
        words, is_background = _split_background(call.arguments)
        if not words:
            return f"Say what to run, such as /terminal ls -la. Add {_IN_BACKGROUND} for what takes long."
        reasons = self.options.tools.why_not(call.key.platform, _settings(tx, call).toolsets)
        if reason := reasons.get("terminal", "there is no such tool"):
            return f"The terminal is off in this conversation: {reason}."
        arguments = {"command": words, "background": True} if is_background else {"command": words}
        start = TurnStart(
            parts=(Text(text=f"/terminal {call.arguments}"),),
            call=json.dumps({"name": "terminal", "arguments": arguments}, ensure_ascii=False),
        )
        waits = "This runs after the current turn. /stop ends that turn." if turns.is_running(tx, str(call.key)) else ""
        return CommandReply(waits, starts=start)


def _split_background(arguments: str) -> tuple[str, bool]:
    """Return the command without the option, which may stand before or after it."""
    for stripped in (arguments.removesuffix(f" {_IN_BACKGROUND}"), arguments.removeprefix(f"{_IN_BACKGROUND} ")):
        if stripped != arguments:
            return stripped.strip(), True
    return ("", True) if arguments == _IN_BACKGROUND else (arguments, False)


def _settings(tx: Transaction, call: CommandCall) -> SessionSettings:
    session = sessions.find_current(tx, str(call.key))
    return sessions.read_settings(tx, session.id) if session is not None else NO_CHOICE


def _choose(tx: Transaction, call: CommandCall, **changes: str | Sequence[str]) -> None:
    session = sessions.open_current(tx, call.key, display_name=call.sender_name)
    sessions.change_settings(tx, session.id, **changes)
