"""Who can read and write what commands make."""

import grp
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from shaberi_dagster import evaluate
from shaberi_dagster.defs.cluster.folder import environment_of as environment_of_cluster
from shaberi_dagster.doctor.examination import _privacy
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.permissions import is_open_to_others, make_folder, private_files, shared_group, user_umask
from shaberi_dagster.util.ports import free_ports
from tests.commands import SCRIPTS, lake_of, run, run_anew, started
from tests.e2e.conftest import target
from tests.mock_endpoint import MockEndpoint

GROUP = "games"
"""A group of every Debian, which nobody is in."""


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """Make files as most accounts do: everybody reads them."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home, in a place that everybody can enter."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == Path.home().owner() and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    home = tmp_path / "home"
    home.mkdir()
    return home


def only_root() -> None:
    if os.geteuid():
        pytest.skip("only root can be somebody else")


def environment_of(home: Path) -> dict[str, str]:
    folders = {"SHABERI_RESULTS": home / "results", "SHABERI_MIRRORS": home / "mirrors", "HOME": home}
    return {name: str(path) for name, path in (lake_of(home) | folders).items()}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def modes(folder: Path, *, of_folders: bool) -> set[int]:
    return {mode(path) for path in (folder, *folder.rglob("*")) if path.is_dir() == of_folders}


def readable_by_somebody_else(folder: Path) -> list[str]:
    found = subprocess.run(
        ["find", folder, "-mindepth", "1", "-readable"], user="nobody", group="nogroup", extra_groups=[],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return found.stdout.splitlines()


@pytest.mark.long
@pytest.mark.e2e
def test_all_that_a_run_makes_in_an_empty_home_is_its_users_alone(home: Path, mock: MockEndpoint) -> None:
    before = set(home.iterdir())
    arguments = [*target(mock, ("judge",)), "--limit", "1"]
    run("run-evals", *arguments, environment=environment_of(home)).succeeded()
    run("view-scores", environment=environment_of(home)).succeeded()

    made = set(home.iterdir()) - before
    assert {path.name for path in made} >= {"warehouse", "dagster", "results"}
    for folder in made:
        assert modes(folder, of_folders=True) == {0o700}, folder
        assert modes(folder, of_folders=False) <= {0o600}, folder
    if os.geteuid() == 0:
        assert not [path for path in readable_by_somebody_else(home) if Path(path).parent != home]


@pytest.mark.long
@pytest.mark.e2e
def test_a_lake_that_is_shared_stays_shared_and_dagster_beside_it_is_private(home: Path, mock: MockEndpoint) -> None:
    (home / "warehouse").mkdir(mode=0o755)
    run("run-evals", *target(mock, ("judge",)), "--limit", "1", environment=environment_of(home)).succeeded()

    assert modes(home / "warehouse", of_folders=True) == {0o755}
    assert modes(home / "warehouse", of_folders=False) == {0o644}
    assert mode(home / "dagster") == mode(home / "results") == 0o700
    told = run("shaberi", "doctor", environment=environment_of(home)).succeeded().out
    lake = home / "warehouse"
    assert f"privacy: everybody on this machine can read {lake}: chmod -R go-rwx {lake} (or set" in told
    subprocess.run(["chmod", "-R", "go-rwx", lake], check=True)
    told = run("shaberi", "doctor", environment=environment_of(home)).succeeded().out
    assert "privacy: others on this machine cannot read lake, instance or results" in told


@pytest.mark.e2e
@pytest.mark.long
def test_a_group_shares_a_lake_its_instance_and_its_results(home: Path, mock: MockEndpoint) -> None:
    only_root()
    home.chmod(0o777)
    number = grp.getgrnam(GROUP).gr_gid
    environment = environment_of(home) | {"SHABERI_SHARED_GROUP": GROUP}

    def as_user(user: str, *command: str) -> subprocess.CompletedProcess[str]:
        # Python itself may be in root's own folder: reading is let through, writing is not.
        return subprocess.run(
            [
                *("setpriv", f"--reuid={user}", f"--regid={user}", f"--groups={GROUP}"),
                *("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"),
                *(SCRIPTS / command[0], *command[1:]),
            ],
            env=os.environ | environment | {"HOME": "/nonexistent"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    evaluation = [*target(mock, ("judge",)), "--limit", "1"]
    first = as_user("daemon", "run-evals", *evaluation)
    second = as_user("bin", "run-evals", *evaluation, "--judge-model", "another")
    third = as_user("daemon", "run-evals", *evaluation, "--tag", "more")
    compacted = as_user("bin", "shaberi", "compact")

    for done in (first, second, third, compacted):
        assert done.returncode == 0, done.stderr
    for folder in (home / "warehouse", home / "dagster", home / "results"):
        assert modes(folder, of_folders=True) == {0o2770}, folder
        assert modes(folder, of_folders=False) == {0o660}, folder
        assert {path.stat().st_gid for path in folder.rglob("*")} == {number}
    assert not [path for path in readable_by_somebody_else(home) if Path(path).parent != home]


@pytest.mark.integration
def test_the_doctor_says_how_a_lake_that_is_there_becomes_the_groups(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_root()
    for name, value in environment_of(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SHABERI_SHARED_GROUP", GROUP)
    monkeypatch.setattr(os, "getgroups", lambda: [grp.getgrnam(GROUP).gr_gid])
    lake = home / "warehouse"
    (lake / "answers").mkdir(parents=True)
    lake.chmod(0o700)
    settings = Settings.from_environment()

    told = _privacy(settings).detail
    assert told.startswith(f"the group {GROUP} does not share {lake}: chgrp -R {GROUP} {lake} && ")
    subprocess.run(["bash", "-c", told.partition(": ")[2]], check=True)

    assert _privacy(settings).detail == "others on this machine cannot read lake, instance or results"
    assert [mode(folder) for folder in (lake, lake / "answers")] == [0o2770, 0o2770]


@pytest.mark.unit
@pytest.mark.parametrize(("name", "reason"), [("no-such", "there is no group 'no-such'"), (GROUP, "you are not in")])
def test_a_group_that_cannot_share_is_refused(name: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=f"SHABERI_SHARED_GROUP: {reason}"):
        shared_group({"SHABERI_SHARED_GROUP": name})


@pytest.mark.e2e
def test_an_unknown_group_is_one_line_of_a_command(tmp_path: Path) -> None:
    refused = run("view-scores", environment=lake_of(tmp_path) | {"SHABERI_SHARED_GROUP": "no-such"})
    assert refused.complaint == "SHABERI_SHARED_GROUP: there is no group 'no-such'"
    assert not (tmp_path / "warehouse").exists()


@pytest.mark.long
@pytest.mark.integration
def test_the_library_leaves_the_umask_of_its_program_as_it_is(
    home: Path, mock: MockEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment_of(home).items():
        monkeypatch.setenv(name, value)
    evaluate("m", base_url=mock.base_url, judge_base_url=mock.base_url, judge_models=["j"], limit=1)

    assert os.umask(0o022) == 0o022
    assert modes(home / "warehouse", of_folders=False) == {0o600}


@pytest.mark.long
@pytest.mark.e2e
def test_a_file_that_is_asked_for_by_name_has_the_users_own_mode(home: Path, mock: MockEndpoint) -> None:
    environment = environment_of(home)
    files = ["--output", home / "out" / "scores.json", "--html", home / "out" / "scores.html"]
    asked = ["--datasets", "gsm8k", "--sample", "1", "--ensemble", "2", "--strategy", "plurality"]
    run("quick-eval", "--model", "m", "--base-url", mock.base_url, *asked, *files, environment=environment).succeeded()
    run("shaberi", "sql", "runs", "--format", "csv", "--output", home / "runs.csv", environment=environment).succeeded()
    run("shaberi", "export", "--output", home / "tree", environment=environment).succeeded()
    run("shaberi", "new", "pass", "polite", environment=environment | {"SHABERI_PLUGINS": home / "own"}).succeeded()

    for place in (home / "out", home / "tree", home / "own"):
        assert modes(place, of_folders=True) == {0o755}, place
        assert modes(place, of_folders=False) == {0o644}, place
    assert mode(home / "runs.csv") == 0o644
    assert modes(home / "warehouse", of_folders=False) == {0o600}


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server")
def test_a_cluster_with_its_logs_and_all_that_its_workers_write_is_its_users_alone(
    home: Path, mock: MockEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHABERI_WAREHOUSE")
    monkeypatch.delenv("DAGSTER_HOME")
    folder = home / "cluster"
    (port,) = free_ports(1)
    with started("shaberi", "cluster", "--workers", "1", "--folder", folder, "--port", str(port)) as cluster:
        cluster.wait_until_it_says("the cluster is up")
        asked = [*target(mock, ("judge",)), "--limit", "1", "--submit"]
        run("run-evals", *asked, environment=environment_of_cluster(folder)).succeeded()
        open_to_all = [path for path in folder.rglob("*") if mode(path) & 0o077 and not path.is_socket()]
        if os.geteuid() == 0:
            assert readable_by_somebody_else(home) == []
        cluster.send(signal.SIGINT)
        cluster.finished()

    # PostgreSQL, which root cannot run, has to pass through; nothing can be listed or read there.
    assert mode(folder) == (0o700 if os.geteuid() else 0o711)
    assert open_to_all == []
    assert {"web.log", "daemon.log", "worker-1.log", "store.log", "dagster"} <= {path.name for path in folder.iterdir()}


@pytest.mark.long
@pytest.mark.e2e
def test_an_installed_command_makes_private_files_too(home: Path) -> None:
    environment = environment_of(home)
    run_anew("shaberi", "doctor", environment=environment).succeeded()
    assert modes(home / "dagster", of_folders=True) == {0o700}
    assert modes(home / "dagster", of_folders=False) == {0o600}


@pytest.mark.unit
@pytest.mark.parametrize(
    ("of_folder", "umask", "expected"),
    [(None, 0o022, 0o077), (0o700, 0o022, 0o077), (0o755, 0o022, 0o022), (0o2770, 0o002, 0o007), (0o777, 0o027, 0o027)],
)  # fmt: skip
def test_the_lake_that_is_there_decides_for_whom_files_are(
    tmp_path: Path, of_folder: int | None, umask: int, expected: int
) -> None:
    lake = tmp_path / "lake"
    if of_folder is not None:
        lake.mkdir()
        lake.chmod(of_folder)
    os.umask(umask)
    with private_files(lake):
        assert os.umask(expected) == expected
        with user_umask():
            assert os.umask(umask) == umask
    assert os.umask(umask) == umask


@pytest.mark.unit
def test_a_folder_is_open_to_others_only_where_they_can_get_to_it(tmp_path: Path) -> None:
    folder = tmp_path / "private" / "lake"
    make_folder(folder)
    assert not is_open_to_others(folder)
    folder.chmod(0o755)
    assert is_open_to_others(folder) == all(place.stat().st_mode & 0o001 for place in (tmp_path, *tmp_path.parents))
    folder.parent.chmod(0o700)
    assert not is_open_to_others(folder)
