"""The workers' parent: uvicorn's, that also sees at once when a worker dies while it is asked how it is."""

from uvicorn.supervisors import Multiprocess


class Workers(Multiprocess):
    """uvicorn asks each worker twice a second, by a pipe whose other end it keeps open itself: of a worker that is
    killed in between it then learns only when its patience ends, and nobody takes the worker's place until then.
    """

    def init_processes(self) -> None:
        super().init_processes()
        self._let_go()

    def keep_subprocess_alive(self) -> None:
        self._let_go()  # after a restart of all
        super().keep_subprocess_alive()
        self._let_go()

    def _let_go(self) -> None:
        for process in self.processes:
            process.child_conn.close()
