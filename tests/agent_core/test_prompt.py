"""The prompt: fixed order, nothing empty, nothing endless."""

from agent_core.prompt import CORE, MAX_LAYER_CHARS, Layers, build_prompt
from tools.content import Text, text_of

FULL = Layers(
    personality="Speak like a ship's captain.",
    tools=("todo", "clock"),
    user_name="Felix",
    user_timezone="Europe/Berlin",
    memory="Likes tea.",
    skills="brewing",
    platform_hint="Markdown is shown.",
    project="Use tabs.",
)


def test_the_layers_come_in_the_order_that_caches_expect() -> None:
    prompt = text_of(build_prompt(FULL))
    words = [CORE, "captain", "clock, todo", "Felix", "Likes tea", "brewing", "Markdown", "Use tabs"]
    places = [prompt.index(word) for word in words]
    assert places == sorted(places)


def test_the_same_layers_give_the_same_bytes() -> None:
    assert build_prompt(FULL) == build_prompt(Layers(**{name: getattr(FULL, name) for name in FULL.__slots__}))


def test_empty_layers_leave_no_trace() -> None:
    assert build_prompt(Layers()) == (Text(text=CORE),)


def test_an_endless_file_is_cut_and_says_so() -> None:
    prompt = text_of(build_prompt(Layers(project="x" * 1_000_000)))
    assert len(prompt) < MAX_LAYER_CHARS + 2_000
    assert prompt.endswith("characters]")


def test_the_projects_words_are_a_part_of_their_own() -> None:
    own, project = build_prompt(Layers(project="Use tabs."))
    assert (own.origin, project.origin) == ("", "project")
    assert text_of((own, project)) == f"{CORE}\n\n# Project (AGENTS.md)\nUse tabs."
