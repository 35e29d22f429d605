"""Run by Airflow's Python: what the DAG file is, as JSON, and which modules reading it has loaded."""

import importlib.util
import json
import sys


def main(path: str) -> None:
    spec = importlib.util.spec_from_file_location("nightly", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from airflow.sdk import DAG

    dag = module.nightly_precompute()
    assert isinstance(dag, DAG)
    print(  # noqa: T201 - its output
        json.dumps(
            {
                "modules": sorted({name.partition(".")[0] for name in sys.modules}),
                "order": [task.task_id for task in dag.topological_sort()],
                "edges": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
                "types": {task.task_id: type(task).__name__ for task in dag.tasks},
                "retries": {task.task_id: task.retries for task in dag.tasks},
                "documented": (dag.doc_md or "").strip() == (module.__doc__ or "").strip() != "",
                "catchup": dag.catchup,
                "max_active_runs": dag.max_active_runs,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
