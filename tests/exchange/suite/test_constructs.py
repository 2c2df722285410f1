"""Sources of a suite that this test wrote: what is read of each equals what Python makes of it."""

import os
import sys
import time
import types
from itertools import product
from typing import Any

import pytest

from shaberi_dagster.exchange.suite.reading import ReadSuite, read_suite
from shaberi_dagster.judges.programs import RefusedProgramError, SuiteError, run

ROWS: list[dict[str, Any]] = [
    {"question": "何色ですか", "reference": "青", "criteria": "- 色\n"},
    {"question": "{x} {{ y }} {% if %}\r\n\\n", "reference": None, "criteria": '\'"""'},
    {"question": "", "reference": "", "criteria": None},
]
ANSWERS = ["はい", "{0} {question}\r\n", "<think>うん</think> 答え ", ""]
REPLIES = ["得点: 3.5", "得点: 4\n得点: 2", "８/10", "", None, "得点: .", "3/10 と 8 / 10", "inf", "5", "得点: ３"]
MODELS = ["gpt-4", "Gpt-big", "my/Thinker", "gpt-5-x", "other"]
COLUMNS = {"question": "input", "reference": "output", "criteria": "eval_aspect"}

CALLS = """
import os
from openai import OpenAI
LIST = ["my/Thinker", "gpt-4"]
def get_model_response(messages, model_name):
    client = OpenAI(api_key=os.environ.get("OPENAI_API_KEY"))
    response = client.chat.completions.create(messages=messages, model=model_name, temperature=0, max_tokens=10)
    return response.choices[0].message.content
"""
ASKED = (
    CALLS
    + """
def get_answerer(model_name):
    return get_answer
"""
)
TABLE = """
TABLE = {
    "elyza/ELYZA-tasks-100": {"question_column": "input", "evaluator_function": judge, "split_name": "test"},
    # "lightblue/tengu_bench": {"evaluator_function": None},
}
"""
HEAD = "import re\nfrom llm import get_model_response\n"
ANSWER = (
    ASKED
    + """
def get_answer(question, model_name):
    return get_model_response([{"role": "user", "content": question}], model_name)
"""
)
FIRST_SCORE = """
def score(text):
    found = re.search(r"得点: ?([0-9.]+)", text)
    return None if found is None else found.group(1)
"""
ASK = """
def judge(row, model):
    return score(get_model_response([{"role": "user", "content": prompt(row)}], model))
"""

PROMPTS = {
    "f-string": "def prompt(row):\n    q = row[\"Question\"]\n    return f\"問 {q} {{中}}\\n{row['output']}|{row['ModelAnswer']!s}\\n\"\n",
    "format": 'FORM = "問 {0} と {a}{{}} {0}\\n"\ndef prompt(row):\n    return FORM.format(row["Question"], a=row["ModelAnswer"])\n',
    "format with keys": 'def prompt(row):\n    return "{r[Question]}{{中}} {} {}\\n".format(row["ModelAnswer"], row["output"], r=row)\n',
    "plus": 'def prompt(data):\n    text = "問 " + data["Question"]\n    text += "\\n\\n"\n    return text + str(data["output"]) + "点"\n',
    "percent": 'def prompt(row):\n    return "%s は 100%%、%s" % (row["Question"], row.get("eval_aspect"))\n',
    "join": 'def prompt(row):\n    parts = ["問", row["Question"]]\n    parts.append(row["ModelAnswer"])\n    return "\\n".join(parts)\n',
    "replace": 'def prompt(row):\n    return "問 {q}、{q}".replace("{q}", row["Question"]).strip()\n',
    "lambda": "prompt = lambda row: f\"{row['Question']}？\"\n",
    "condition": 'def prompt(row):\n    r = row["output"]\n    has = r is not None\n    r = f"\\n[正解]\\n{r}\\n" if has else ""\n    if row["eval_aspect"]:\n        r = r + "基準あり"\n    return f"{r}{row[\'Question\']}"\n',
    "names": 'def prompt(row):\n    q = "一"\n    q = "二"\n    q, a = row["Question"], row["ModelAnswer"]\n    return f"{q}{a}"\n',
    "keys": 'def prompt(row):\n    q = ""\n    for key in ("text", "Question", "input"):\n        if key in (row or {}):\n            q = str((row or {}).get(key) or "")\n            break\n    return "問" + q\n',
    "thinking": 'def cut(text):\n    found = re.search(r"</think>(.*)", text, re.DOTALL)\n    return found.group(1).strip() if found else text.strip()\ndef prompt(row):\n    return f"答 {cut(row[\'ModelAnswer\'])}"\n',
    "split": 'def prompt(row):\n    a = row["ModelAnswer"]\n    try:\n        a = a.split("</think>")[1].strip()\n    except IndexError:\n        pass\n    return "答" + a\n',
    "switched off": 'def prompt(row):\n    """\n    return "old"\n    """\n    text = "新"\n    """\n    text = "古"\n    """\n    # text = "これも"\n    return text + row["Question"]\n',
    "walrus": 'def prompt(row):\n    return f"{q}。" if (q := row["Question"]) else "空"\n',
    "unpacking": 'BASE = {"a": "あ", "b": "い"}\ndef prompt(row):\n    named = {**BASE, "b": row["Question"]}\n    named.pop("a")\n    named["c"] = "う"\n    return "".join(f"{k}={v};" for k, v in named.items())\n',
}
SCORES = {
    "first": FIRST_SCORE,
    "int": 'def score(text):\n    try:\n        return int(re.search(r"得点: ?(\\d{1,2})", text).group(1))\n    except (ValueError, AttributeError):\n        return None\n',
    "last, rounded": 'def score(text):\n    try:\n        found = re.findall(r"得点:\\s*([0-9.]+)", text)\n        if found:\n            return round(float(found[-1]))\n        return round(float(text.strip()))\n    except (ValueError, AttributeError):\n        return None\n',
    "mean": 'def score(text):\n    if text is None:\n        return None\n    tenths = [float(one) for one in re.findall(r"([0-9.]+)\\s*/\\s*10", text)]\n    if tenths:\n        return round(sum(tenths) / len(tenths), 1)\n    raise ValueError("none")\n',
    "two patterns": 'def score(text):\n    try:\n        inner = re.search(r"得点: ?[0-9.]+", text).group()\n        return round(float(re.search(r"[0-9.]+", inner).group()))\n    except (ValueError, AttributeError) as error:\n        print(f"no score: {error} {text[:3]}")\n        return None\n',
    "second call": 'def again(text, row, model, scale):\n    if text is None:\n        return None\n    text = str(text).strip()\n    if not text:\n        return None\n    said = get_model_response([{"role": "user", "content": f"{scale} {row[\'Question\']} {text}"}], model)\n    try:\n        return round(float(str(said).strip()))\n    except ValueError:\n        log("x", {}, said)\n        return None\ndef log(source, row, text, note=""):\n    parts = [source]\n    for key in ("id", "Question"):\n        if key in row:\n            parts.append(str(row[key])[:40])\n    if text:\n        parts.append(text[:10])\n    print(" ".join(parts))\ndef judge(row, model):\n    said = get_model_response([{"role": "user", "content": prompt(row)}], model)\n    score = None\n    try:\n        found = re.findall(r"得点: ?([0-9.]+)", said)\n        if found:\n            score = round(float(found[-1]))\n    except (ValueError, AttributeError):\n        log("y", row, said, note="n")\n        score = again(said, row, model, "1 to 5")\n    return {"score": score, "text": said}\n',
}
GENERATION = {
    "names and lists": 'def get_answer(question, model_name):\n    limit = 2048\n    limit = 6000\n    if model_name in LIST:\n        limit = 30000\n    client = OpenAI(base_url="http://localhost/v1")\n    response = client.chat.completions.create(model=model_name, messages=[{"role": "system", "content": "親切"}, {"role": "user", "content": question}], temperature=0.2, max_tokens=limit)\n    return response.choices[0].message.content\n',
    "conditions": 'def get_answer(question, model_name):\n    arguments = {"messages": [{"role": "user", "content": question}], "temperature": 0.2, "api_base": "http://x"}\n    if any(model_name.startswith(one) for one in ["gpt-5", "o1"]):\n        arguments["temperature"] = 1\n    elif "gpt" in model_name.lower():\n        arguments.pop("api_base", None)\n    else:\n        arguments["min_p"] = 0.1\n    arguments["model"] = f"hosted/{model_name}"\n    return completion(**arguments).choices[0].message.content\n',
    "computed key": 'def get_answer(question, model_name):\n    name = "max_tokens" if os.getenv("OPENAI_BASE_URL") else "max_completion_tokens"\n    client = OpenAI()\n    try:\n        response = client.chat.completions.create(model=model_name, messages=[{"role": "user", "content": question}], **{name: 5})\n    except Exception as e:\n        other = "max_tokens" if name == "max_completion_tokens" else "max_completion_tokens"\n        response = client.chat.completions.create(model=model_name, messages=[], **{other: 5})\n    return response.choices[0].message.content\n',
    "tried again": 'def get_answer(question, model_name):\n    tries = 0\n    while tries < 3:\n        try:\n            messages = [{"role": "user", "content": question}]\n            messages.insert(0, {"role": "system", "content": "x"})\n            said = get_model_response(messages, model_name)\n            print(f"{str(said):>10}")\n            return said\n        except KeyError:\n            tries += 1\n',
    "kept answer": 'def get_answer(question, model_name):\n    content = OpenAI().chat.completions.create(model=model_name, messages=[{"role": "user", "content": question}]).choices[0].message.content\n    if model_name in LIST:\n        try:\n            if "</think>" in content:\n                content = content.split("</think>")[1].strip()\n        except:\n            print("none")\n    return content\n',
}


def config(prompt: str, score: str) -> str:
    return HEAD + prompt + score + ("" if "def judge" in score else ASK) + TABLE


def files(prompt: str = PROMPTS["f-string"], score: str = FIRST_SCORE, calls: str = ANSWER) -> dict[str, str]:
    return {"suite/config.py": config(prompt, score), "suite/llm.py": calls}


class Recorder:
    """Stands for every package that asks a model, when Python runs a source."""

    def __init__(self, replies: list[str | None]) -> None:
        self.calls: list[dict[str, Any]] = []
        self._replies = replies

    def __getattr__(self, name: str) -> "Recorder":
        return self

    def __call__(self, **arguments: Any) -> Any:
        if "messages" not in arguments:
            return self
        self.calls.append({name: value for name, value in arguments.items() if name not in {"api_key", "api_base"}})
        message = types.SimpleNamespace(content=self._replies[len(self.calls) - 1])
        return types.SimpleNamespace(choices=[types.SimpleNamespace(message=message)])


def loaded(texts: dict[str, str], recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> dict[str, types.ModuleType]:
    """The sources as Python runs them."""
    monkeypatch.setitem(sys.modules, "openai", types.SimpleNamespace(OpenAI=recorder))
    modules = {}
    for name in ("llm", "config"):
        module = modules[name] = types.ModuleType(name)
        module.__dict__["completion"] = recorder
        monkeypatch.setitem(sys.modules, name, module)
        exec(texts[f"suite/{name}.py"], module.__dict__)
    return modules


def followed(program: Any, inputs: dict[str, Any], replies: list[str | None]) -> tuple[list[dict[str, Any]], Any]:
    calls: list[dict[str, Any]] = []
    walk = run(program, inputs)
    try:
        asked = next(walk)
        while True:
            calls.append({"messages": asked.messages, "model": asked.model, **asked.parameters})
            asked = walk.send(replies[len(calls) - 1])
    except StopIteration as done:
        return calls, done.value
    except SuiteError as error:
        return calls, str(error)


def judged(read: ReadSuite, texts: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare every judgement with Python's."""
    assert not read.refused
    program = read.benchmarks["elyza"].judge
    for row, answer, reply, second in product(ROWS, ANSWERS, REPLIES, ["4", "none"]):
        theirs = {COLUMNS[name]: value for name, value in row.items()}
        theirs["Question"] = theirs.pop("input")
        recorder = Recorder([reply, second])
        try:
            result = loaded(texts, recorder, monkeypatch)["config"].TABLE["elyza/ELYZA-tasks-100"][
                "evaluator_function"
            ]({**theirs, "ModelAnswer": answer}, "gpt-4")
            wanted = result["score"] if isinstance(result, dict) else result
        except Exception as error:  # noqa: BLE001  (its class is compared)
            wanted = type(error).__name__
        calls, made = followed(program, {**row, "answer": answer, "model": "gpt-4"}, [reply, second])
        found = made["score"] if isinstance(made, dict) else made
        assert (calls, found, type(found)) == (recorder.calls, wanted, type(wanted)), (row, answer, reply)


@pytest.mark.parametrize("name", PROMPTS)
def test_prompts_are_rendered_as_python_renders_them(name, monkeypatch):
    texts = files(prompt=PROMPTS[name])
    judged(read_suite(texts), texts, monkeypatch)


@pytest.mark.parametrize("name", SCORES)
def test_scores_are_found_as_python_finds_them(name, monkeypatch):
    texts = files(score=SCORES[name])
    judged(read_suite(texts), texts, monkeypatch)


@pytest.mark.parametrize("name", GENERATION)
@pytest.mark.parametrize("address", [None, "http://other/v1"])
def test_answers_are_asked_for_as_python_asks(name, address, monkeypatch):
    texts = files(calls=ASKED + "from litellm import completion\n" + GENERATION[name])
    read = read_suite(texts)
    monkeypatch.setitem(sys.modules, "litellm", types.SimpleNamespace(completion=None))
    given = {"OPENAI_BASE_URL": address} if address else {}
    monkeypatch.setattr(os, "environ", {name: value for name, value in os.environ.items() if name not in given} | given)
    for model, reply in product(MODELS, [*ANSWERS, None]):
        recorder = Recorder([reply])
        monkeypatch.setitem(sys.modules, "litellm", types.SimpleNamespace(completion=recorder))
        try:
            wanted = loaded(texts, recorder, monkeypatch)["llm"].get_answer("問", model)
        except Exception as error:  # noqa: BLE001  (its class is compared)
            wanted = type(error).__name__
        inputs = {"question": "問", "model": model, "environment OPENAI_BASE_URL": address}
        calls, made = followed(read.answers, inputs, [reply])
        assert (calls, made["stored"] if isinstance(made, dict) else made) == (recorder.calls, wanted), (model, reply)


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ('def prompt(row):\n    return shorten(row["Question"])\nfrom textwrap import shorten\n', "config.py"),
        ('def prompt(row):\n    return row["Question"] * 3\n', "config.py:4: repeats a text"),
        ("def prompt(row):\n    return f\"{row['Question']:>10}\"\n", "config.py:4: formats what a run will find"),
        ('def prompt(row):\n    return row["Level"]\n', "config.py:4: the column Level is not known here"),
        ("class Prompt:\n    pass\ndef prompt(row):\n    return Prompt().text\n", "config.py:3: classes are not read"),
        (
            'def prompt(row):\n    text = ""\n    while True:\n        text += "a"\n',
            "config.py:5: goes round too often",
        ),
    ],
)
def test_other_constructs_are_refused_with_their_line(prompt, reason):
    read = read_suite(files(prompt=prompt))
    assert not read.benchmarks
    assert any(reason in refused for refused in read.refused), read.refused


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"(ab|c)*d", r"(?:x*)*y", "("])
def test_patterns_that_could_take_forever_are_refused(pattern):
    read = read_suite(files(score=f'def score(text):\n    return re.search(r"{pattern}", text).group()\n'))
    assert not read.benchmarks
    assert "config.py:" in read.refused[0]


def test_what_is_refused_for_one_model_alone_is_refused_only_there():
    refused = '    if "odd" in model_name:\n        messages = [one for one in model_name]\n    client = OpenAI('
    read = read_suite(files(calls=ANSWER.replace("    client = OpenAI(", refused)))
    program = read.benchmarks["elyza"].judge
    inputs = {**ROWS[0], "answer": "はい"}
    assert len(followed(program, {**inputs, "model": "gpt-4"}, ["得点: 3"])[0]) == 1
    with pytest.raises(RefusedProgramError, match=r"llm\.py:7: a comprehension"):
        followed(program, {**inputs, "model": "odd"}, ["得点: 3"])
    assert any("llm.py:7" in reason for reason in read.refused)


@pytest.mark.parametrize(
    "bomb",
    [
        'text = "aaaaaaaaaa"\n    for _ in range(60):\n        text = text + text',
        'many = [1]\n    for _ in range(60):\n        many = many + many\n    text = ""',
        'number = 10\n    for _ in range(60):\n        number = number * number\n    text = ""',
        'text = "{:>999999999}".format("a")',
        'text = "".join(str(one) for one in range(10**9))',
        'text = "".join(str(one) for one in range(999999999))',
        "text = prompt(row)",
        'for a in range(9999):\n        for b in range(9999):\n            text = ""',
    ],
)
def test_a_source_cannot_fill_memory_or_take_forever(bomb):
    before = time.perf_counter()
    read = read_suite(files(prompt=f"def prompt(row):\n    {bomb}\n    return text + row['Question']\n"))
    assert not read.benchmarks
    assert read.refused
    assert time.perf_counter() - before < 60


def test_a_file_that_does_not_parse_is_named():
    texts = {**files(), "suite/extra.py": "def broken(:\n"}
    read = read_suite(texts)
    assert read.refused[0] == "suite/extra.py:1: does not parse"
    assert list(read.benchmarks) == ["elyza"]


def test_nothing_of_the_source_is_run(tmp_path):
    marker = tmp_path / "marker"
    bomb = f"open({str(marker)!r}, 'w').write('x')\nimport os\nos.system('touch {marker}')\n"
    texts = files(prompt=f"{bomb}def prompt(row):\n    open({str(marker)!r}, 'w')\n    return row['Question']\n")
    assert list(read_suite(texts).benchmarks) == ["elyza"]
    assert not marker.exists()


OPTIONS = """
import argparse
import llm
def everything(model):
    return [unknown for unknown in model]
{start}
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", "--model_name", required=True)
    parser.add_argument("-p", "--limit", type=int, default=77)
    args = parser.parse_args()
    llm.LIMIT = args.limit
    everything(args.model_name)
{end}
"""
LIMITED = (
    ASKED
    + """
LIMIT = 5
def get_answer(question, model_name):
    client = OpenAI()
    return client.chat.completions.create(model=model_name, messages=[], max_tokens=LIMIT).choices[0].message.content
"""
)


@pytest.mark.parametrize(
    ("start", "end"),
    [("def main():", "if __name__ == '__main__':\n    main()"), ("if __name__ == '__main__':", "")],
)
def test_a_command_tells_other_modules_of_its_options(start, end):
    command = OPTIONS.format(start=start, end=end)
    read = read_suite(files(calls=LIMITED) | {"suite/generate.py": command})
    (call,), _ = followed(read.answers, {"question": "問", "model": "m"}, ["答"])
    assert call["max_tokens"] == 77


def test_options_that_are_set_by_an_import_are_refused():
    read = read_suite(files(calls=LIMITED) | {"suite/generate.py": OPTIONS.format(start="if True:", end="")})
    assert read.answers is None
    assert read.refused == ["answers: suite/generate.py:11: sets an option when it is imported"]


def test_a_program_that_was_refused_says_where():
    with pytest.raises(RefusedProgramError, match="file:3"):
        next(run({"refused": "file:3: no"}, {}))
