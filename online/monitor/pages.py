"""The pages of the site. A page is a module with a `PAGE` and a template; adding one here links it everywhere."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from online.monitor.sources import Sources
from online.monitor.tables import Table
from online.monitor.windows import Window


@dataclass(frozen=True, slots=True)
class Report:
    """What a page shows: `facts` and `tables` are also its JSON, `view` is for its template only.

    `refused` says in words why the query cannot be answered: the HTML shows it, JSON and CSV are refused with it.
    """

    facts: Mapping[str, object]
    tables: Sequence[Table]
    view: Mapping[str, object] = field(default_factory=dict)
    refused: str = ""

    def table(self, name: str) -> Table | None:
        return next((table for table in self.tables if table.name == name), None)


@dataclass(frozen=True, slots=True)
class Page:
    """`build` reads the sources for a model and a window; it runs in a thread and at most once at a time.

    A page with fields of its own has `ask` as well, which gets the query too; what it builds is not kept.
    """

    slug: str
    title: str
    template: str
    build: Callable[[Sources, str, Window], Report]
    ask: Callable[[Sources, str, Window, Mapping[str, str]], Report] | None = None
