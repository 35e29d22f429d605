"""What a worker's process runs. The parent only names this function; the service is loaded in the worker."""

from typing import TYPE_CHECKING

from online.api.settings import ApiSettings

if TYPE_CHECKING:
    from online.api.app import Api


def make_app(settings: ApiSettings, parent: int) -> "Api":
    from online.api.app import build_app

    return build_app(settings, parent)
