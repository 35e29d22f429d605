"""HTML of the site: Jinja with everything escaped and nothing undefined."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from online.monitor import text
from online.monitor.markup import table_rows
from online.monitor.pages import Page, Report
from online.monitor.registry import PAGES
from online.monitor.windows import RANGES, TimeRange, Window

HERE = Path(__file__).parent
STATIC = HERE / "static"


class Renderer:
    """`models` are the choices of the picker."""

    def __init__(self, models: tuple[str, ...]) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= {
            "count": text.count,
            "share": text.share,
            "ms": text.ms,
            "age": text.age,
            "moment": text.moment,
            "cell": text.cell,
            "table_rows": table_rows,
            "tail_path": lambda path: "/".join(path.split("/")[-4:]),
        }
        self._environment.globals |= {"pages": PAGES, "ranges": RANGES, "models": models, "link": link}

    def page(self, page: Page, model: str, window: Window, report: Report) -> str:
        view = dict(report.view)
        tables = {table.name: table for table in report.tables}
        return self._environment.get_template(page.template).render(
            page=page, model=model, window=window, range=window.range, tables=tables, **view
        )

    def problem(self, title: str, detail: str, model: str, chosen: TimeRange) -> str:
        template = self._environment.get_template("problem.html")
        return template.render(page=None, model=model, range=chosen, title=title, detail=detail)


def link(path: str, **query: str) -> str:
    """A path of the site with its query, encoded."""
    given: Mapping[str, str] = query
    return f"{path}?{urlencode(given)}" if given else path
