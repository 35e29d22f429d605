"""How a thread lets others go first while it loads a model."""

import os
import sys
import threading

_LOADING_NICENESS = 10


def yield_to_others() -> None:
    """For the calling thread and those it starts, for good: Linux lets no thread raise its priority again.

    Linux keeps a niceness for each thread; elsewhere nothing is done.
    """
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOADING_NICENESS)
