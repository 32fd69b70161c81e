"""Answers as models write them, and what becomes of them on each platform."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    markdown: str
    telegram: str
    discord: str


FIX = Answer(
    markdown="""\
### Fix

The call `load_config()` fails because **`path` is None**:

1. **Check the path.**
   Run:
   ```bash
   ls -la ~/.hermes
   ```
2. Set it:
   - in `config.yaml`, or
   - with `HERMES_HOME=/srv/hermes`

> Note: the *second* wins.

See [the docs](https://example.org/a_b) for more.""",
    telegram="""\
Fix

The call load_config() fails because path is None:

1. Check the path.
   Run:
ls -la ~/.hermes
2. Set it:
   • in config.yaml, or
   • with HERMES_HOME=/srv/hermes

Note: the second wins.

See the docs for more.""",
    discord="""\
### Fix

The call `load_config()` fails because **`path` is None**:

1. **Check the path.**
   Run:
   ```bash
   ls -la ~/.hermes
   ```
2. Set it:
   - in `config.yaml`, or
   - with `HERMES_HOME=/srv/hermes`

> Note: the *second* wins.

See [the docs](https://example.org/a_b) for more.""",
)

COMPARISON = Answer(
    markdown="""\
Here's the comparison:

| Feature | SQLite | Postgres |
|:--|:-:|--:|
| Setup | none | server |
| `a|b` | ✅ | ❌ |

**Verdict:** use SQLite.

---

Cost: 3*4*5 = 60, x**2, and f(*args, **kwargs); `__init__.py` vs __init__.py.""",
    telegram="""\
Here's the comparison:

Feature  SQLite  Postgres
-------  ------  --------
Setup     none     server
a|b        ✅          ❌

Verdict: use SQLite.

———

Cost: 3*4*5 = 60, x**2, and f(*args, **kwargs); __init__.py vs __init__.py.""",
    discord="""\
Here's the comparison:

```
Feature  SQLite  Postgres
-------  ------  --------
Setup     none     server
a|b        ✅          ❌
```

**Verdict:** use SQLite.

———

Cost: 3\\*4\\*5 = 60, x**2, and f(*args, **kwargs); `__init__.py` vs __init__.py.""",
)

CHINESE = Answer(
    markdown="""\
**总结：**这个函数返回`None`。请注意**“空值”**的情况，价格是 $5~$10。

- [ ] 未完成
- [x] 完成 ✓

$$
E = mc^2
+ a_1 * b_1
$$""",
    telegram="""\
总结：这个函数返回None。请注意“空值”的情况，价格是 $5~$10。

• [ ] 未完成
• [x] 完成 ✓

$$
E = mc^2
+ a_1 * b_1
$$""",
    discord="""\
**总结：**这个函数返回`None`。请注意**“空值”**的情况，价格是 $5~$10。

- [ ] 未完成
- [x] 完成 ✓

$$
E = mc^2
+ a_1 * b_1
$$""",
)

UNFINISHED = Answer(
    markdown="""\
Sure! ~~Old~~ new: ||spoiler|| and a || b || c

- item one
    - nested with four
        1. deeper

* star list
  continued

```py
def f(x):
    return x ** 2  # **not bold**
""",
    telegram="""\
Sure! Old new: spoiler and a || b || c

• item one
  • nested with four
    1. deeper

• star list
  continued

def f(x):
    return x ** 2  # **not bold**""",
    discord="""\
Sure! ~~Old~~ new: ||spoiler|| and a \\|\\| b \\|\\| c

- item one
    - nested with four
        1. deeper

* star list
  continued

```py
def f(x):
    return x ** 2  # **not bold**
```""",
)

ANSWERS = (FIX, COMPARISON, CHINESE, UNFINISHED)
