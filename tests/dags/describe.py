"""Run by Airflow's Python: what each DAG file is, what reading it took, and which modules it loaded, as JSON."""

import importlib.util
import json
import sys
import time
from pathlib import Path

from airflow.sdk import DAG
from airflow.sdk.definitions.taskgroup import MappedTaskGroup


def described(path: Path) -> dict[str, object]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    began = time.process_time()
    spec.loader.exec_module(module)
    cpu_s = time.process_time() - began
    dag = getattr(module, path.stem.removesuffix("_dag"))()
    assert isinstance(dag, DAG)
    groups = dag.task_group_dict
    return {
        "cpu_s": cpu_s,
        "order": [task.task_id for task in dag.topological_sort()],
        "edges": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
        "types": {task.task_id: type(task).__name__ for task in dag.tasks},
        "retries": {task.task_id: task.retries for task in dag.tasks},
        "told": {task.task_id: [call.__name__ for call in task.on_failure_callback] for task in dag.tasks},
        "outlets": {task.task_id: [asset.name for asset in task.outlets] for task in dag.tasks if task.outlets},
        "mapped_groups": sorted(name for name, group in groups.items() if isinstance(group, MappedTaskGroup)),
        "groups": sorted(name for name in groups if name),
        "documented": (dag.doc_md or "").strip() == (module.__doc__ or "").strip() != "",
        "catchup": dag.catchup,
        "max_active_runs": dag.max_active_runs,
        "jobs": {task.task_id: task.application for task in dag.tasks if hasattr(task, "application")},
        "schedule": repr(dag.schedule),
    }


def main(folder: str) -> None:
    sys.path.insert(0, folder)
    dags = {path.stem: described(path) for path in sorted(Path(folder).glob("*_dag.py"))}
    modules = sorted({name.partition(".")[0] for name in sys.modules})
    print(json.dumps({"dags": dags, "modules": modules}))  # noqa: T201 - its output


if __name__ == "__main__":
    main(sys.argv[1])
