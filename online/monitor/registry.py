"""The pages that exist, in the order of the navigation. A new page is its module, its template and a line here."""

from online.monitor.overview import page as overview
from online.monitor.pages import Page
from online.monitor.releases import page as releases

PAGES: tuple[Page, ...] = (overview.PAGE, releases.PAGE)
