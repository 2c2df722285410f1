"""Mistakes that people make, each of which ends in one true line that helps."""

import subprocess
from pathlib import Path

import pytest

from shaberi_dagster.cli import interrupts
from shaberi_dagster.llm.endpoints import resolve_endpoint, served_name
from shaberi_dagster.runs.spec import RunRequest
from tests.commands import make_programs, run
from tests.mock_endpoint import running_mock

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "a@@b", "--tag", "c"], "--model a@@b names the tag b, --tag names c: leave one out"),
        (["--model", "gtp:x"], "write ENDPOINT:MODEL (`shaberi endpoints` lists them"),
        (["--model", "unknown-model"], "no known endpoint serves model 'unknown-model': give --base-url"),
        (["--model", "m", "--param", "top_k"], "--param top_k: write it as KEY=VALUE, such as top_k=20"),
        (["--model", "m", "--param", "temperature=1"], "--param temperature: use --temperature"),
        (
            ["--model", "m", "--param", 'extra_headers={"Authorization": "x"}'],
            "may hold a secret, which is never stored",
        ),
        (["--model", "m", "--thinking", "maybe"], "--thinking: must be 'on' or 'off', not 'maybe'"),
        (["--model", "m", "--judge-param", "k:seed=1"], "no judge k judges here; there are j"),
        (["--model", "m", "--benchmark", "elyzza"], "did you mean elyza?"),
        (["--model", "m", "--temperature", "3"], "--temperature"),
        (["--model", "m", "--limit", "0"], "--limit"),
        (["--model", "m", "--samples", "3", "--strategy", "mayority"], "did you mean majority?"),
        (["--model", "m", "--passes", "langmixing"], "did you mean lang_mixing?"),
        (["--model", "m", "--tag", "a b"], "run tag 'a b' must be 1 to 100 characters"),
        (["--model", "m", "--questions", "nowhere"], "nowhere"),
        (["--model", "m", "--reasoning-efort", "low"], "Did you mean --reasoning-effort?"),
        (["--model", "m", "--config", "nothing.yaml"], "nothing.yaml"),
        (["--model", "m", "--api-key-variable", "sk-proj-AbCdEf01"], "give the name of the environment variable"),
        (["--model", "m", "--judge-api-key-variable", "a1b2c3_d4e5f6g7h8i9j0k1l2"], "that holds the key, not the key"),
        (["--model", "m", "--api-key-variable", "NOT_SET"], "set NOT_SET to the API key"),
        (["--model", "m", "--pass-option", "repetition.x=1"], "--pass-option is of passes: name them with --passes"),
        (["--model", "m", "--param", "temprature=1"], "--param temprature: did you mean temperature?"),
        (["--model", "m", "--sweep", "temprature=0,1"], "temprature: did you mean temperature?"),
        (["--model", "m", "--judge-model", "j,k"], "name each judge by itself"),
        (["--model", "m", "--judge-model", "None"], "none is a word of quick-eval alone"),
        (["--model", "m", "--consensus-model", "n"], "--consensus-model needs several samples"),
        (["--model", "m", "--sample-models", "a,b"], "--sample-models needs several samples"),
        (["--model", "m", "--top-p", "3"], "--top-p: must be less than or equal to 1"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_asked(arguments: list[str], said: str) -> None:
    with running_mock() as mock:
        place = [] if arguments[1] in {"gtp:x", "unknown-model"} else ["--base-url", mock.base_url]
        judge = ["--judge-model", "j", "--judge-base-url", mock.base_url]
        complaint = run("run-evals", *arguments, *place, *judge).complaint

        assert mock.stats()["requests"] == 0
    assert said in complaint
    assert "AbCdEf" not in complaint
    assert "a1b2c3" not in complaint


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["quick-eval", "--model", "m", "--question-timeout", "300"], "--call-deadline SECONDS bounds each call"),
        (["quick-eval", "--model", "m", "--no-cache"], "--fresh uses no reply that another run has paid for"),
        (["quick-eval", "--model", "m", "--no-parallel"], "--concurrency 1 makes one call at a time"),
        (["shaberi", "regenerate-baseline"], "`shaberi baseline promote NAME --model MODEL`"),
        (["shaberi", "view-scores"], "type its name without shaberi"),
        (["shaberi", "new"], "KIND is missing"),
        (["view-scores", "my-model"], "names go with options, such as --tag"),
        (["view-scores", "--as-of", "2099-01-01"], "--as-of 2099-01-01 is in the future"),
        (["quick-eval", "--model", "m", "--html", "."], "--html: . is a folder: name a file"),
        (["quick-eval", "--model", "m", "--ensemble", "3,5"], "--ensemble must be 2 or more samples, or models"),
        (["shaberi", "copy-lake", "tests", "tests/sub"], "no lake in tests"),
        (
            ["quick-eval", "--model", "openai:gpt-4o", "--datasets", "gpqa", "--questions", "Idavidrein/gpqa"],
            "or an existing folder, which has a file gpqa.jsonl, .json, .parquet or .csv",
        ),
    ],
)
def test_what_another_program_called_otherwise_names_its_successor(command: list[str], said: str) -> None:
    done = run(*command)
    assert done.code == 2
    assert said in done.complaint


def test_google_stands_before_geminis_models_as_well() -> None:
    endpoint = resolve_endpoint("google:gemini-2.5-flash-lite")
    assert (endpoint.name, endpoint.api_key_variable) == ("gemini", "GEMINI_API_KEY")
    assert served_name("google:gemini-2.5-flash-lite", endpoint.base_url) == "gemini-2.5-flash-lite"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model: m\ntempreature: 0.5\n", "no field tempreature; did you mean temperature"),
        ("model: m\nsettings: [{benchmark: [elyza]}]\n", "no field settings.0.benchmark; did you mean benchmarks?"),
        ("model: m\nparameters: 3\n", "parameters"),
        ("model: m\nreasoning_effort: hihg\n", "reasoning_effort: did you mean high?"),
        ("model: [\n", "not YAML"),
        ("model: m\nlimit: 3\nmodel: n\n", "model is there twice at line 1"),
        ("? [a]\n: 1\nmodel: m\n", "not YAML that can be read"),
        ("- model\n", "it must name fields of a request"),
    ],
)
def test_a_mistake_in_a_request_file_names_file_and_field(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "request.yaml"
    file.write_text(text, encoding="utf-8")

    complaint = run("run-evals", "--config", file).complaint

    assert complaint.startswith(f"{file}: ")
    assert said in complaint


def test_a_misspelt_effort_is_refused_and_a_word_of_a_servers_own_goes() -> None:
    said = run("run-evals", "--model", "m", "--sweep", "reasoning_effort=low,mediun", "--dry-run").complaint
    assert said.startswith("--sweep reasoning_effort: did you mean medium?")
    assert RunRequest(model="m", reasoning_effort="turbo").reasoning_effort == "turbo"


def test_a_run_that_is_larger_than_asked_says_so_and_one_that_grows_as_well(tmp_path: Path) -> None:
    environment = {"SHABERI_WAREHOUSE": tmp_path / "lake", "SHABERI_RESULTS": tmp_path / "results"}
    with running_mock() as mock:
        asked = ["--model", "m", "--base-url", mock.base_url, "--benchmark", "gsm8k"]
        run("run-evals", *asked, "--limit", "2", environment=environment).succeeded()
        smaller = run("run-evals", *asked, "--limit", "1", "--dry-run", environment=environment).succeeded()
        larger = run("run-evals", *asked, environment=environment).succeeded()

    assert smaller.err.endswith("m has 2 questions of gsm8k: --limit 1 changes nothing, a limit only grows\n")
    assert "`--limit all` takes the rest" in larger.err


def test_a_server_that_has_only_failed_so_far_is_named_at_once(tmp_path: Path) -> None:
    environment = {"SHABERI_WAREHOUSE": tmp_path / "lake", "SHABERI_RESULTS": tmp_path / "results"}
    with running_mock(p_500=1.0) as mock:
        asked = ["--model", "m", "--base-url", mock.base_url, "--benchmark", "gsm8k"]
        failed = run("run-evals", *asked, "--limit", "1", "--call-deadline", "2", environment=environment)

    assert failed.err.count(f"{mock.base_url} has not answered yet, and is asked again: HTTP 500") == 1


def test_plugins_that_cannot_be_used_are_named_before_anything_is_asked(tmp_path: Path) -> None:
    environment = {"SHABERI_WAREHOUSE": tmp_path / "lake", "SHABERI_PLUGINS": tmp_path / "plugins"}
    asked = ["--model", "lab:m", "--judge-model", "lab:j", "--benchmark", "elyza"]
    nowhere = run("run-evals", *asked, "--base-url", "http://127.0.0.1:9/v1", environment=environment)
    (file := tmp_path / "plugins" / "endpoints" / "lab.yaml").parent.mkdir(parents=True)
    file.write_text("base_url: http://127.0.0.1:9/v1\nkey: x\n", encoding="utf-8")
    broken = run("run-evals", *asked, environment=environment)

    assert nowhere.complaint == f"{tmp_path / 'plugins'} is no folder: SHABERI_PLUGINS names those of plugins"
    assert broken.complaint.startswith(f"plugin {file}:2: key: ")


def test_results_that_cannot_be_written_are_known_before_anything_is_asked(tmp_path: Path) -> None:
    (in_the_way := tmp_path / "results").write_text("", encoding="utf-8")
    environment = {"SHABERI_WAREHOUSE": tmp_path / "lake", "SHABERI_RESULTS": in_the_way}
    with running_mock() as mock:
        asked = ["--model", "m", "--base-url", mock.base_url, "--benchmark", "gsm8k"]
        refused = run("run-evals", *asked, environment=environment)
        assert mock.stats()["requests"] == 0

    assert refused.complaint == f"results cannot be written to {in_the_way}: name another folder as SHABERI_RESULTS"


def test_output_on_a_full_disk_is_one_line(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.json"
    jobs.write_text("[1]", encoding="utf-8")
    program = make_programs(tmp_path / "programs") / "bin" / "shaberi"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([program, "report", jobs], stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert done.stderr == "error: the output: No space left on device (--debug shows where)\n"
    assert done.returncode == 2


def test_an_address_without_its_end_is_told_what_such_addresses_end_in() -> None:
    with running_mock() as mock:
        address = mock.base_url.removesuffix("/v1")
        place = ["--base-url", address, "--judge-base-url", address]
        failed = run("run-evals", "--model", "m", *place, "--benchmark", "rakuda", "--judge-model", "j")

    assert "addresses of such servers usually end in /v1" in failed.err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["view-scores"], "\nstopped\n"),
        (["shaberi", "view"], "\nstopped\n"),
        (["shaberi", "report", "--html", "x"], "\nstopped\n"),
        (
            ["shaberi", "reprocess", "--all"],
            "\ninterrupted; what is finished is saved. Go on with:\n  shaberi reprocess --all\n",
        ),
        (
            ["run-evals", "--model", "m"],
            "\ninterrupted; what is finished is saved. Go on with:\n  run-evals --model m\n",
        ),
    ],
)
def test_only_who_makes_something_is_told_how_to_go_on(
    command: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", command)

    interrupts.say_how_to_go_on()

    assert capsys.readouterr().err == said
