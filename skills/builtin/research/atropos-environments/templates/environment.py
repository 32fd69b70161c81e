"""An environment with answers that a program can check. Replace load_items and score_answer."""

# mypy: ignore-errors

import os
import random

from atroposlib.envs.base import APIServerConfig, BaseEnv, BaseEnvConfig, ScoredDataGroup

SYSTEM = "Think step by step. Give the final answer on the last line as: Answer: <number>"


def load_items():
    """Return items with a question and the right answer."""
    rng = random.Random(7)
    pairs = [(rng.randint(10, 99), rng.randint(10, 99)) for _ in range(500)]
    return [{"question": f"What is {a} * {b}?", "answer": str(a * b)} for a, b in pairs]


def score_answer(answer, item):
    """Return 1 for a right answer, 0 for a wrong one, -0.5 for none that can be read. Test this alone."""
    lines = [line for line in answer.strip().splitlines() if line.lower().startswith("answer:")]
    if len(lines) != 1:
        return -0.5
    return 1.0 if lines[0].split(":", 1)[1].strip() == item["answer"] else 0.0


def tokenize(tokenizer, messages, answer):
    """Return the tokens of prompt and answer, and the mask in which only the answer counts."""
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    head = tokenizer.encode(prompt, add_special_tokens=False)
    tail = tokenizer.encode(answer + tokenizer.eos_token, add_special_tokens=False)
    return head + tail, [-100] * len(head) + tail


def ask(item):
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": item["question"]}]


class MyEnv(BaseEnv):
    name = "my_env"

    @classmethod
    def config_init(cls):
        config = BaseEnvConfig(
            tokenizer_name=os.environ["POLICY_TOKENIZER"],
            group_size=8,
            max_token_length=2048,
            use_wandb=False,
            wandb_name=cls.name,  # `serve` registers it under this name
        )
        server = APIServerConfig(
            model_name=os.environ["POLICY_MODEL"],
            base_url=os.environ["POLICY_BASE_URL"],
            api_key=os.environ.get("POLICY_API_KEY", "none"),
            num_requests_for_eval=64,
            health_check=False,  # it would ask for a token each second
        )
        return config, [server]

    async def setup(self):
        items = load_items()
        self.held_out, self.items = items[:50], items[50:]
        self.position = 0

    async def get_next_item(self):
        item = self.items[self.position % len(self.items)]
        self.position += 1
        return item

    async def collect_trajectories(self, item):
        size = self.config.group_size
        done = await self.server.chat_completion(messages=ask(item), n=size, max_tokens=1024, temperature=1.0)
        group = ScoredDataGroup(tokens=[], masks=[], scores=[])
        for choice in done.choices:
            if choice.finish_reason == "length":
                continue  # cut off: neither right nor wrong
            answer = choice.message.content or ""
            tokens, mask = tokenize(self.tokenizer, ask(item), answer)
            group["tokens"].append(tokens)
            group["masks"].append(mask)
            group["scores"].append(score_answer(answer, item))
        if len(set(group["scores"])) < 2:
            return None, []  # nothing to learn from
        return group, []

    async def evaluate(self, *args, **kwargs):
        scores = []
        for item in self.held_out:
            done = await self.server.chat_completion(messages=ask(item), n=1, max_tokens=1024, temperature=0.0)
            scores.append(score_answer(done.choices[0].message.content or "", item))
        print(f"evaluation: {sum(score > 0 for score in scores)} of {len(scores)} right")


if __name__ == "__main__":
    MyEnv.cli()
