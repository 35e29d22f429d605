"""Settings of the local stack, and what each process gets from it."""

from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from batch_scoring.settings import BatchSettings
from infra.local.programs import default_programs, process_environment, read_env_file, write_env_file
from infra.local.settings import HOME, StackSettings
from online.api.settings import ApiSettings
from online.inference.node.settings import InferenceSettings
from online.monitor.settings import MonitorSettings
from schemas.settings import BadSettings, load_settings
from tests.local.commands import local


@pytest.mark.parametrize("cls", [ApiSettings, InferenceSettings, MonitorSettings, BatchSettings])
def test_every_process_knows_every_name_it_is_given(
    cls: type[BaseSettings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = process_environment(StackSettings(state=tmp_path), {})
    for name, text in env.items():
        monkeypatch.setenv(name, text)
    load_settings(cls, env)


def test_each_process_gets_its_own_names_only(tmp_path: Path) -> None:
    settings = StackSettings(state=tmp_path)
    for program in default_programs(settings, process_environment(settings, {})):
        assert {name.partition("_")[0] for name in program.env} <= {program.name.upper()}


def test_the_caller_wins_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    settings = StackSettings(state=tmp_path)
    write_env_file(settings, {"API_MODELS": '["a=b"]', "API_PORT": "1"})
    found = process_environment(settings, {"API_PORT": "2", "HOME": "/root"})
    assert (found["API_PORT"], found["API_MODELS"], "HOME" in found) == ("2", '["a=b"]', False)
    assert found["API_REDIS_URL"] == "redis://127.0.0.1:16379/0"


def test_a_line_break_would_be_a_second_setting(tmp_path: Path) -> None:
    settings = StackSettings(state=tmp_path)
    with pytest.raises(ValueError, match="line break"):
        write_env_file(settings, {"API_MODELS": "a\nAPI_PORT=1"})
    assert read_env_file(settings) == {}


def test_ports_move_together_and_a_relative_state_lies_in_the_repository() -> None:
    settings = StackSettings(port_offset=100)
    assert (settings.port("api"), settings.redis_url) == (8100, "redis://127.0.0.1:16479/0")
    assert settings.state == HOME / ".hotset"


def test_a_misspelt_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTSET_PORT_OFSET", "1")
    with pytest.raises(BadSettings, match="HOTSET_PORT_OFSET is no setting; did you mean HOTSET_PORT_OFFSET"):
        load_settings(StackSettings)


def test_commands_say_what_is_wrong(tmp_path: Path) -> None:
    stopped = local("status", HOTSET_STATE=str(tmp_path))
    assert stopped.returncode == 1
    assert stopped.stdout.count("STOPPED") == 4
    misspelt = local("up", HOTSET_STATE=str(tmp_path), HOTSET_PORT="1")
    assert (misspelt.returncode, "HOTSET_PORT is no setting" in misspelt.stderr) == (2, True)
    unknown = local("restart", "redis", HOTSET_STATE=str(tmp_path))
    assert (unknown.returncode, "no process is called 'redis'" in unknown.stderr) == (2, True)
    not_running = local("restart", "api", HOTSET_STATE=str(tmp_path))
    assert (not_running.returncode, "the stack does not run" in not_running.stderr) == (1, True)
    assert local("down", HOTSET_STATE=str(tmp_path)).returncode == 0
