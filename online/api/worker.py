"""What a worker's process runs. The parent only names this function; the service is loaded in the worker."""

import sys
from typing import TYPE_CHECKING

from online.api.settings import ApiSettings

if TYPE_CHECKING:
    from online.api.app import Api


def make_app(settings: ApiSettings, parent: int) -> "Api":
    from online.api.app import build_app

    # The event loop gives the interpreter up at each system call; with the default of 5 ms it would get it back so
    # much later while the log's thread folds a second's rows.
    sys.setswitchinterval(0.0005)
    return build_app(settings, parent)
