"""The map of an HTML report as a picture. It needs what tests/html/browser.py does: Chromium and its driver."""
import base64
import pathlib

from browser import Browser

WIDTH, HEIGHT = 1000, 1000
# Only the band names, the points and the time axis: what the thesis's figure shows.
FRAME = """
document.documentElement.dataset.theme = 'light';
const box = document.querySelector('#map-section').getBoundingClientRect();
return [box.left + scrollX, box.top + scrollY, box.width, box.height];
"""


def take(html, png):
    """Writes the picture of one report."""
    png.parent.mkdir(parents=True, exist_ok=True)
    with Browser(WIDTH, HEIGHT) as browser:
        browser.open(html)
        browser.wait("document.getElementById('map').dataset.state === 'complete'")
        x, y, width, height = browser.run(FRAME)
        clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        shot = browser.devtools("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
    pathlib.Path(png).write_bytes(base64.b64decode(shot["data"]))
