"""Chromium without a window, driven through chromedriver by the WebDriver protocol; nothing but Python's own library."""
import base64
import json
import pathlib
import subprocess
import time
import urllib.error
import urllib.request


class Browser:
    """One browser with one page. `width` and `height` of its window are CSS pixels."""

    def __init__(self, width=1400, height=1000, arguments=()):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.session = None
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                port = int(line.rstrip().rstrip(".").rsplit(" ", 1)[1])
                break
        else:
            raise SystemExit("chromedriver did not start; type: scripts/setup --tests")
        self.base = f"http://127.0.0.1:{port}"
        options = {
            # Root may not use the sandbox; pages here are our own.
            "args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", f"--window-size={width},{height}", *arguments],
        }
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        try:
            answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        except BaseException:
            self.driver.terminate()
            raise
        self.session = answer["sessionId"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.command("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"].split("\n")[0]) from None

    def command(self, method, path, body=None):
        return self.call(method, f"/session/{self.session}{path}", body)

    def open(self, path):
        self.command("POST", "/url", {"url": pathlib.Path(path).resolve().as_uri()})

    def run(self, script, *arguments):
        """Runs a function's body in the page, and returns what it returns."""
        return self.command("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script, *arguments):
        """The same; it ends when the script calls its last argument."""
        return self.command("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def devtools(self, name, **parameters):
        return self.command("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def wait(self, condition, seconds=30):
        """Waits until an expression of the page is true."""
        end = time.monotonic() + seconds
        while not self.run(f"return Boolean({condition})"):
            assert time.monotonic() < end, f"did not become true: {condition}"
            time.sleep(0.05)

    def act(self, *devices):
        self.command("POST", "/actions", {"actions": list(devices)})
        self.command("DELETE", "/actions")

    def move(self, x, y):
        """Moves the mouse to a place in the window."""
        self.act(pointer(move(x, y)))

    def drag(self, begin, end):
        down, up = {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}
        self.act(pointer(move(*begin), down, move(*end), up))

    def click(self, x, y):
        self.drag((x, y), (x, y))

    def wheel(self, x, y, delta):
        self.act({"type": "wheel", "id": "wheel", "actions": [
            {"type": "scroll", "x": int(x), "y": int(y), "deltaX": 0, "deltaY": delta, "duration": 0}]})

    def keys(self, *keys):
        steps = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.act({"type": "key", "id": "keys", "actions": steps})

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.command("GET", "/screenshot")))

    def whole_page(self, path):
        """A picture of all of the page, beyond the window."""
        picture = self.devtools("Page.captureScreenshot", captureBeyondViewport=True)
        pathlib.Path(path).write_bytes(base64.b64decode(picture["data"]))

    def log(self, kind):
        return self.command("POST", "/se/log", {"type": kind})

    def complaints(self):
        """What the page wrote to the console as a warning or error, refusals of its own policy included."""
        loud = [entry["message"] for entry in self.log("browser") if entry["level"] in ("WARNING", "SEVERE")]
        # The tests read pixels, the page does not.
        return [message for message in loud if "willReadFrequently" not in message]

    def requests(self):
        """Addresses asked for since the last question, but for the page itself."""
        found = []
        for entry in self.log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        assert any(url.startswith("file:") for url in found), "the browser told of no request, not even of the page's own"
        return [url for url in found if not url.startswith("file:") and not url.startswith("data:,")]


def move(x, y):
    return {"type": "pointerMove", "duration": 0, "x": int(x), "y": int(y)}


def pointer(*actions):
    return {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": list(actions)}


ESCAPE, TAB, ENTER, LEFT, UP, RIGHT, DOWN = "\ue00c", "\ue004", "\ue007", "\ue012", "\ue013", "\ue014", "\ue015"
