"""The pages that exist, in the order of the navigation. A new page is its module, its template and a line here."""

from online.monitor.fleet_page import page as fleet
from online.monitor.hotset import page as hotset
from online.monitor.overview import page as overview
from online.monitor.pages import Page
from online.monitor.plan import page as plan
from online.monitor.quality import page as quality
from online.monitor.releases import page as releases

PAGES: tuple[Page, ...] = (overview.PAGE, fleet.PAGE, quality.PAGE, releases.PAGE, hotset.PAGE, plan.PAGE)
