"""The agent from a script, without a gateway: `.venv/bin/python examples/script.py "what is 6 * 7?"`."""

import asyncio
import sys

from agent_core.agent import AIAgent


async def main(question: str) -> None:
    agent = AIAgent("demo", enabled_toolsets=["core"])  # any model name, once its key is in the environment
    print(await agent.chat(question))


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "what is 17 * 23?"))
