"""The map of an HTML report as a picture. It needs what tests/html/browser.py does: Chromium and its driver."""
import base64
import pathlib

from browser import Browser

WIDTH, HEIGHT = 1200, 1000
# Noise compresses badly: at this quality and scale the largest picture is below 100 KB.
QUALITY, SCALE = 30, 0.75
FRAME = """
document.documentElement.dataset.theme = 'light';
const box = document.querySelector('#map').getBoundingClientRect();
return [box.left + scrollX, box.top + scrollY, box.width, box.height];
"""


def take(html, path):
    """Writes the picture of one report."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Taking the picture would remove a scrollbar, and the map would grow beyond what was measured.
    with Browser(WIDTH, HEIGHT, ["--hide-scrollbars"]) as browser:
        browser.open(html)
        browser.wait("document.getElementById('map').dataset.state === 'complete'")
        x, y, width, height = browser.run(FRAME)
        clip = {"x": x, "y": y, "width": width, "height": height, "scale": SCALE}
        shot = browser.devtools("Page.captureScreenshot", captureBeyondViewport=True, clip=clip, format="webp", quality=QUALITY)
    pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))
