"""Programs in other languages."""

import pytest

from tests.tools.shell_guard.corpus import judged


@pytest.mark.parametrize(
    "code",
    [
        *("import os; os.remove('x')", "from os import *", "import socket", "import requests", "import ctypes"),
        *("eval('1')", "x = exec; x('1')", "print(().__class__.__bases__)", "import os; o = os; o.remove('x')"),
        *("import random; random._os.remove('x')", "import pathlib; pathlib.os.remove('x')", "open('x', mode='a')"),
        *(
            "open('x', 'w' if 1 else 'r')",
            "import sys; sys.modules['os'].remove('x')",
            "import builtins",
            "import imaplib",
        ),
        *("open('/home/me/.ssh/id_rsa')", "import subprocess; subprocess.run(['rm', '-r', x])", "def ("),
        *("from pathlib import Path; Path('x').write_text('')", "import importlib; importlib.import_module('os')"),
    ],
)
def test_python_that_could_do_harm_is_asked_about(code: str) -> None:
    quoted = code.replace("'", "'\\''")
    assert judged(f"python3 -c '{quoted}'").verdict == "ask"


@pytest.mark.parametrize(
    "code",
    [
        *("print(1)", "import os; print(os.getcwd(), os.path.join('a', 'b'))", "import re; print(re.compile('a'))"),
        *(
            "print(open('x').read())",
            "with open('x', 'rb') as f: print(len(f.read()))",
            "import numpy as np; print(np.pi)",
        ),
        *("from pathlib import Path; print(Path('x').read_text())", "import json; print(json.loads('{}').get('a'))"),
        *("a = [1]; a.remove(1); print('x'.replace('x', 'y'))", "import subprocess; subprocess.run(['ls', '-l'])"),
    ],
)
def test_python_that_only_looks_is_not(code: str) -> None:
    quoted = code.replace("'", "'\\''")
    found = judged(f"python3 -c '{quoted}'")
    assert (found.verdict, found.reasons) == ("safe", ())
