"""A made-up history of 20,000 messages in several styles, and 200 questions about it in other words."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from agent_core.conversation import Message, Role
from gateway.messages import SessionKey, Text
from gateway.store import sessions, transcripts
from gateway.store.db.connection import Transaction


def _split(words: str) -> list[str]:
    return words.split()


NAMES = _split(
    """Ada Amir Anke Bea Boris Carla Chen Dana Dora Edgar Elif Enzo Fatma Felix Greta Hamid Hugo Ines Ivan Jana
    Jonas Karim Katya Lars Leila Liam Maja Marta Milan Nadia Nils Olga Omar Paul Petra Rosa Samir Selma Tomas
    Vera"""
)
SURNAMES = _split(
    """Abel Brandt Corvin Dorn Egger Falk Gruber Holm Iversen Janssen Kessler Lorenz Moreau Novak Olsen Petrov
    Quint Rossi Sauer Tanaka"""
)
SERVICES = _split(
    """billing checkout ledger mailer gatekeeper indexer thumbnailer scheduler importer exporter notifier renderer
    resolver collector archiver translator planner tracker monitor broker"""
)
THINGS = _split(
    """kayak sofa bicycle camera tent piano dishwasher telescope drill blender guitar stroller carpet monitor
    lawnmower suitcase microscope printer heater skateboard"""
)
FOODS = _split(
    """peanuts shellfish gluten strawberries mustard celery sesame lupin walnuts kiwis tomatoes milk eggs soy mango
    cashews almonds garlic oats coriander"""
)
PLACES = _split(
    """library bakery cottage lighthouse brewery boathouse gym museum clinic hostel vineyard studio warehouse
    chapel farmhouse theatre marina observatory sawmill greenhouse"""
)
CITIES = _split(
    """Lisbon Oslo Riga Porto Turin Gdansk Bergen Seville Malmo Ghent Bilbao Split Cork Bruges Nantes Aarhus Graz
    Leeds Tartu Bari"""
)
LANDMARKS = _split(
    """aquarium cathedral fortress windmill funicular citadel planetarium harbour viaduct monastery orangery
    amphitheatre arboretum casino stadium necropolis abbey pier tramway cistern"""
)
PARTS = _split(
    """thermostat gearbox compressor condenser alternator radiator carburettor clutch turbine gasket igniter
    manifold dynamo exhaust regulator burner chimney flue pump sensor"""
)
COMPANIES = _split(
    """Brightwell Northgate Kestrel Halcyon Orbitek Fernwood Quarrylane Silverpine Tidewater Umbra Vantage
    Westbrook Xylem Yarrow Zephyr Arclight Bluestone Cinderhill Dovetail Eastmoor"""
)
CHATTER = (
    "Good morning {name}, did you sleep well?",
    "{name} says the weather will be awful at the weekend, we should stay in.",
    "can somebody look at the {service} dashboard, it looks slow again",
    "I walked past the {place} with {name} yesterday, it was closed.",
    "Sure, I can do that. Which of the files do you mean, {name}?",
    "The {service} deploy is green, all tests pass, thanks {name}!",
    "lol {name}, that is what I said last week",
    "We need milk, eggs and bread. {name} will buy them on the way home.",
    "Would you like me to remind you tomorrow at nine?",
    "I am thinking about a trip to {city} or {city2} with {name} in the spring.",
    "ok",
    "The meeting with {name} about the {service} migration has been moved once more.",
    "Here is a summary of what we talked about: {name} takes care of the {service} alerts, the rest of us review the "
    "open tickets, and on Friday we decide together whether the new release can go out or has to wait for a week.",
    "how much is the {thing} in that shop? {name} asked",
    "My {thing} is broken again, {name} promised to have a look at it.",
    "I read that the {landmark} in {city} is being restored until next year.",
    "{name} is working from home today, the trains are on strike.",
    "Did anyone check the logs of {service} after the restart?",
    "What a day. I only want to sit on the sofa and read.",
    "Happy birthday {name}! When do we celebrate?",
)


@dataclass(frozen=True, slots=True)
class Fact:
    said: tuple[str, ...]  # one message after the other; the last is the evidence
    question: str


@dataclass(frozen=True, slots=True)
class Asked:
    question: str
    evidence: str


def facts() -> Iterator[Fact]:
    """Yield 200 facts. A question shares a word or two with its evidence, often in another form."""
    for n in range(20):
        name, other, surname, service = NAMES[n], NAMES[n + 20], SURNAMES[n], SERVICES[n]
        yield Fact(
            (f"Rolled {service} back to {n + 2}.{n}.7, the newer build kept leaking file handles.",),
            f"Which version did we roll the {service} service back to?",
        )
        yield Fact(
            (f"The dentist has moved my appointment to the {n + 3}th at half past ten, I am to ask for Dr {surname}.",),
            f"When is my dental appointment with doctor {surname}?",
        )
        yield Fact(
            (f"And what did you pay for the {THINGS[n]} in the end?", f"{n * 17 + 120} euros, delivery included!"),
            f"How much did we pay for the {THINGS[n]}?",
        )
        yield Fact(
            (f"{name}: careful on saturday, {other} is allergic to {FOODS[n]}, she had to go to hospital once",),
            f"What is {other} allergic to?",
        )
        yield Fact(
            (f"Big news: {other} started at {COMPANIES[n]} as an apprentice last Monday.",),
            f"At which company did {other} start an apprenticeship?",
        )
        yield Fact(
            (f"for the wifi at the {PLACES[n]} use {surname.lower()}-{n * 31 + 11}, it changes every quarter",),
            f"What is the wifi password of the {PLACES[n]}?",
        )
        yield Fact(
            (f"Back from {CITIES[n]}! We flew with the little ones and slept right next to the {LANDMARKS[n]}.",),
            f"Where did we fly to when we were sleeping near the {LANDMARKS[n]}?",
        )
        yield Fact(
            (
                f"Is the {PARTS[n]} still under guarantee?",
                "Let me check the papers you sent me.",
                f"Yes: it was replaced in May, and the guarantee runs until {2030 + n}.",
            ),
            f"How long does the guarantee of the {PARTS[n]} run?",
        )
        yield Fact(
            (f"Backups of the {service} database are copied to bucket-{n * 7 + 3}-{surname.lower()} at night.",),
            f"To which bucket do we copy the backup of the {service} database?",
        )
        yield Fact(
            (f"{name} adopted a dog from the shelter near {CITIES[n]}, they are calling her {surname}ine.",),
            f"What did {name} call the dog that was adopted from a shelter?",
        )


def write_log(tx: Transaction, *, messages: int = 20_000) -> list[Asked]:
    """Write the facts between the chatter of fifty conversations; return the questions."""
    chance = random.Random(7)
    keys = [
        SessionKey(platform=platform, kind="dm", chat=str(n)) for n in range(17) for platform in ("telegram", "slack")
    ]
    keys += [SessionKey(platform="telegram", kind="group", chat=f"-{n}") for n in range(16)]
    opened = [sessions.open_current(tx, key, display_name=chance.choice(NAMES)).id for key in keys]
    told = list(facts())
    chance.shuffle(told)
    every = messages // len(told)
    for n in range(messages):
        if n % every == every // 2 and told_so_far(n, every) < len(told):
            session = chance.choice(opened)
            for place, text in enumerate(told[told_so_far(n, every)].said):
                _say(tx, session, text, "user" if place % 2 == 0 else "assistant")
        _say(tx, chance.choice(opened), _chatter(chance), chance.choice(("user", "assistant")))
    return [Asked(fact.question, fact.said[-1]) for fact in told]


def told_so_far(n: int, every: int) -> int:
    return n // every


def _say(tx: Transaction, session_id: str, text: str, role: Role) -> None:
    transcripts.append(tx, session_id, Message(role=role, parts=(Text(text=text),)))


def _chatter(chance: random.Random) -> str:
    words = {
        "name": chance.choice(NAMES),
        "service": chance.choice(SERVICES),
        "place": chance.choice(PLACES),
        "thing": chance.choice(THINGS),
        "landmark": chance.choice(LANDMARKS),
    }
    city, city2 = chance.sample(CITIES, 2)
    return chance.choice(CHATTER).format(city=city, city2=city2, **words)
