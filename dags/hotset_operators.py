"""The product's commands and Spark jobs as operators of Airflow.

Imports nothing of the product: it runs in processes of its own Python, which end with 0, or with 2 where they
refuse in words, or with something else where another try may help.
"""

import json
import os
import re
import signal
import subprocess
from collections import deque

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

REFUSED = 2
NAMED = "{{ task.about.values() | join(' ') }}"  # how the UI names a run among the others of its step
_SAID_LINES = 5_000
_REFUSED_WORDS = re.compile(r"refused: (.*)")


class ProductCommand(BaseOperator):
    """A command of the product's own Python. What it refuses fails at once; other failures are retried.

    Args:
        command: its words, such as `["begin", "--delta"]`.
        arguments: options with their values; those that are empty are left out. They never meet a shell.
        about: names what is worked on, for people: `model`, `generation`, `role`.
        result: what to keep of the JSON object that its output ends with, as the task's result.
    """

    template_fields = ("python", "home", "arguments", "about")

    def __init__(  # type: ignore[no-untyped-def]
        self,
        *,
        command: list[str],
        arguments: dict[str, str],
        about: dict[str, str] | None = None,
        module: str = "batch_scoring.publishing",
        result: tuple[str, ...] = (),
        **kwargs,
    ) -> None:
        super().__init__(map_index_template=NAMED, **kwargs)
        self.python = "{{ var.json.hotset.python }}"
        self.home = "{{ var.json.hotset.home }}"
        self.command = command
        self.arguments = arguments
        self.about = about or {}
        self.module = module
        self.result = result
        self.process: subprocess.Popen[str] | None = None

    def execute(self, context):  # type: ignore[no-untyped-def]
        given = [f"{name}={value}" for name, value in self.arguments.items() if value]
        status, lines = self._run([self.python, "-m", self.module, *self.command, *given])
        if status == REFUSED:
            raise AirflowFailException(f"refused: {_refusal(lines)}")
        if status:
            raise AirflowException(f"exit status {status}: {_last_words(lines)}")
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = dict(self.about)
        if not self.result:
            return None
        document = _last_object(lines)
        return {**self.about, **{name: document[name] for name in self.result}}

    def _run(self, words: list[str]) -> tuple[int, list[str]]:
        """Exit status, and the last lines of what it said."""
        self.log.info("%s", " ".join(words))
        said: deque[str] = deque(maxlen=_SAID_LINES)
        self.process = subprocess.Popen(
            words,
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="backslashreplace",
            start_new_session=True,
        )
        assert self.process.stdout is not None
        try:
            for line in self.process.stdout:
                self.log.info("%s", line.rstrip())
                said.append(line.rstrip())
            return self.process.wait(), list(said)
        finally:
            # No `with`: where Airflow's time-out comes through here, it would wait for a process nobody has ended.
            self.on_kill()

    def on_kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)


def _refusal(lines: list[str]) -> str:
    said = [match[1] for line in lines if (match := _REFUSED_WORDS.search(line))]
    return said[-1] if said else _last_words(lines)


def _last_words(lines: list[str]) -> str:
    """The last line that holds any, which a bracket alone does not."""
    return next((line.strip() for line in reversed(lines) if re.search("[a-z]", line)), "it said nothing")


def _last_object(lines: list[str]) -> dict[str, object]:
    """The JSON object that begins at the last line that begins with a brace."""
    start = max((i for i, line in enumerate(lines) if line.startswith("{")), default=None)
    if start is None:
        raise AirflowException("it printed no result")
    return json.JSONDecoder().raw_decode("\n".join(lines[start:]))[0]


class ProductJob(SparkSubmitOperator):
    """A Spark job of the product, with the same exit statuses as `ProductCommand`."""

    template_fields = (*SparkSubmitOperator.template_fields, "about")

    def __init__(self, *, about: dict[str, str], **kwargs) -> None:  # type: ignore[no-untyped-def]
        super().__init__(map_index_template=NAMED, **kwargs)
        self.about = about

    def execute(self, context):  # type: ignore[no-untyped-def]
        try:
            return super().execute(context)
        except AirflowException as error:
            # In client mode spark-submit ends with the status of the job's Python.
            if f"Error code is: {REFUSED}." in str(error):
                raise AirflowFailException(f"refused: {_refusal(str(error).splitlines())}") from None
            raise
