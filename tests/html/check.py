"""What a person does with the HTML report, done by a browser without a window. usage: check.py PAGES OUTPUT

PAGES holds storm.html, one.html, none.html, io.html (what tests/html/run makes); pictures and the printed page go to OUTPUT.
"""
import base64
import pathlib
import re
import sys

from browser import DOWN, ENTER, ESCAPE, RIGHT, TAB, Browser

PAGES, OUTPUT = map(pathlib.Path, sys.argv[1:])
TESTS = []
# Of storm.html.
LENGTH_S = 1.2


def test(function):
    TESTS.append(function)
    return function


def opened(browser, page):
    browser.open(PAGES / page)
    browser.wait("document.getElementById('map').dataset.state === 'complete'")


def state(browser):
    """What the picture says of itself: `x0`, `x1` (ticks), `y0`, `y1` (rows), and `inside`, the events in view."""
    browser.wait("document.getElementById('map').dataset.state === 'complete'")
    return {key: float(value) for key, value in browser.run("return {...document.getElementById('map').dataset}").items() if key != "state"}


def box(browser):
    """The points' canvas in the window: left, top, width, height."""
    return browser.run("""document.getElementById('map-section').scrollIntoView();
        const {left, top, width, height} = document.getElementById('map-points').getBoundingClientRect();
        return [left, top, width, height];""")


def ink(browser):
    """How many pixels have points of swap-ins and of evictions: red prevails, or blue."""
    return browser.run("""const canvas = document.getElementById('map-points');
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        const found = [0, 0];
        for (let i = 0; i < data.length; i += 4) if (data[i + 3]) found[data[i] > data[i + 2] ? 0 : 1]++;
        return found;""")


def settle(browser):
    browser.run_async("const done = arguments[0]; setTimeout(done, 400)")


def reset(browser):
    browser.run("document.getElementById('reset').click()")
    settle(browser)


@test
def all_events_are_drawn(browser):
    opened(browser, "storm.html")
    shown = state(browser)
    assert shown["inside"] == 200_000, shown
    swap_ins, evictions = ink(browser)
    assert swap_ins > 1000 and evictions > 1000, (swap_ins, evictions)


@test
def drag_zooms_and_escape_goes_back(browser):
    before = state(browser)
    left, top, width, height = box(browser)
    browser.drag((left + width * 0.25, top + height * 0.1), (left + width * 0.5, top + height * 0.6))
    settle(browser)
    after = state(browser)
    length = before["x1"] - before["x0"]
    assert abs((after["x1"] - after["x0"]) / length - 0.25) < 0.02, after
    assert abs(after["x0"] / length - 0.25) < 0.02, after
    assert abs((after["y1"] - after["y0"]) / before["y1"] - 0.5) < 0.02, after
    assert 0 < after["inside"] < before["inside"]
    # The curves show the same time.
    low, high = map(float, browser.run("return [document.getElementById('from').value, document.getElementById('to').value]"))
    assert abs(low - LENGTH_S * 0.25) < 0.02 and abs(high - LENGTH_S * 0.5) < 0.02, (low, high)
    browser.keys(ESCAPE)
    settle(browser)
    assert state(browser) == before


@test
def wheel_zooms_around_the_mouse(browser):
    before = state(browser)
    left, top, width, height = box(browser)
    browser.wheel(left + width * 0.75, top + height / 2, -120)
    settle(browser)
    after = state(browser)
    fixed = before["x0"] + 0.75 * (before["x1"] - before["x0"])
    assert after["x1"] - after["x0"] < 0.9 * (before["x1"] - before["x0"])
    assert abs(after["x0"] + 0.75 * (after["x1"] - after["x0"]) - fixed) < 0.01 * before["x1"], after
    assert after["y1"] == before["y1"]
    reset(browser)


@test
def keys_zoom_move_and_step(browser):
    browser.run("document.getElementById('map-front').focus()")
    before = state(browser)
    browser.keys("+", "+", RIGHT)
    settle(browser)
    after = state(browser)
    assert abs((after["x1"] - after["x0"]) / before["x1"] - 0.49) < 0.01, after
    assert after["x0"] / before["x1"] > 0.28, after
    browser.keys("n")
    first = browser.run("return document.getElementById('tip').textContent")
    browser.keys("n")
    second = browser.run("return document.getElementById('tip').textContent")
    assert "address 0x7f" in first and first != second, (first, second)
    browser.keys("p")
    assert browser.run("return document.getElementById('tip').textContent") == first
    browser.keys(ESCAPE)
    settle(browser)
    assert state(browser) == before
    assert browser.run("return document.getElementById('tip').hidden")


@test
def hover_tells_object_address_latency_and_call_path(browser):
    left, top, width, height = box(browser)
    spot = browser.run("""const canvas = document.getElementById('map-points');
        const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        for (let i = 0; i < data.length; i += 4) {
            const x = (i / 4) % canvas.width;
            if (data[i + 3] && data[i] > data[i + 2] + 60 && x > 100) return [x / canvas.width, Math.floor(i / 4 / canvas.width) / canvas.height];
        }""")
    browser.move(left + spot[0] * width + 1, top + spot[1] * height + 1)
    browser.wait("!document.getElementById('tip').hidden", 5)
    text = browser.run("return document.getElementById('tip').innerText")
    for expected in (r"\(pressure\.cpp:4\d\)", r"address 0x7f[0-9a-f]+, .* into it", r"swap-in at \d\.\d+ s", r"took [\d.]+ (us|ms)", r"main \(pressure\.cpp:20\)"):
        assert re.search(expected, text), (expected, text)
    browser.screenshot(OUTPUT / "hover.png")
    browser.move(5, 5)
    browser.wait("document.getElementById('tip').hidden", 5)


@test
def filters_leave_out_the_rest(browser):
    whole = state(browser)
    browser.run("document.getElementById('kind-2').click()")
    settle(browser)
    only_ins = state(browser)
    assert only_ins["inside"] == 100_000, only_ins
    swap_ins, evictions = ink(browser)
    assert swap_ins > 1000 and evictions == 0, (swap_ins, evictions)
    browser.run("""const list = document.getElementById('filter-object');
        list.value = [...list.options].find(option => option.text.startsWith('table')).value; list.dispatchEvent(new Event('change'));""")
    settle(browser)
    table = state(browser)
    assert 0 < table["inside"] < only_ins["inside"] and table["y1"] - table["y0"] < whole["y1"], table
    reset(browser)
    assert state(browser) == whole
    # A time, typed.
    browser.run("const to = document.getElementById('to'); to.value = 0.6; to.dispatchEvent(new Event('change'));")
    settle(browser)
    assert abs(state(browser)["x1"] / whole["x1"] - 0.5) < 0.01
    reset(browser)


@test
def tables_sort_and_select(browser):
    whole = state(browser)
    names = "return [...document.querySelectorAll('#objects tbody tr')].map(row => row.cells[0].textContent)"
    before = browser.run(names)
    browser.run("document.querySelectorAll('#objects thead button')[3].click()")
    numbers = browser.run("return [...document.querySelectorAll('#objects tbody tr')].map(row => Number(row.cells[3].dataset.value))")
    assert numbers == sorted(numbers, reverse=True), numbers
    browser.run("document.querySelectorAll('#objects thead button')[3].click()")
    assert browser.run("return document.querySelectorAll('#objects thead th')[3].getAttribute('aria-sort')") == "ascending"
    assert sorted(before) == sorted(browser.run(names))
    browser.run("document.querySelector('#objects tbody tr[tabindex=\"0\"]').focus()")
    browser.keys(DOWN, ENTER)
    settle(browser)
    assert 0 < state(browser)["inside"] < whole["inside"]
    assert browser.run("return document.querySelectorAll('#objects tr[aria-selected]').length") == 1
    reset(browser)
    paths = browser.run("return [...document.querySelectorAll('#paths tbody th')].map(head => head.textContent)")
    assert len(set(paths)) == len(paths), paths
    browser.run("document.querySelector('#paths tbody tr').click()")
    settle(browser)
    assert browser.run("return document.querySelectorAll('#paths tr[aria-selected]').length") == 1
    assert 0 < state(browser)["inside"] < 100_000
    assert not browser.run("return document.getElementById('path-chip').hidden")
    browser.run("document.getElementById('path-clear').click()")
    settle(browser)
    assert state(browser) == whole


@test
def the_flame_graph_is_walked_by_keys(browser):
    boxes = browser.run("return [...document.querySelectorAll('#flame button')].map(box => [box.ariaLabel, box.offsetWidth])")
    assert boxes[0][0].startswith("all swap-ins") and boxes[1][0].startswith("main (pressure.cpp:20)"), boxes[:2]
    assert boxes[0][1] == max(width for _, width in boxes)
    browser.run("document.querySelector('#flame button').focus()")
    browser.keys(DOWN, DOWN, ENTER)
    settle(browser)
    label = browser.run("return document.activeElement.ariaLabel")
    assert label.startswith("sweep_"), label
    assert 0 < state(browser)["inside"] < 100_000
    browser.keys(ESCAPE)
    settle(browser)
    assert state(browser)["inside"] == 200_000
    browser.run("document.querySelector('input[name=flame-weight][value=swap_ins]').click()")
    assert "swap-ins" in browser.run("return document.querySelector('#flame button').ariaLabel")


@test
def tab_reaches_the_controls_in_order(browser):
    browser.run("document.getElementById('theme').focus()")
    seen = []
    for _ in range(11):
        browser.keys(TAB)
        seen.append(browser.run("return document.activeElement.id"))
    expected = ["filter-object", "kind-0", "kind-1", "kind-2", "from", "to", "zoom-in", "zoom-out", "reset", "map-front"]
    assert seen[:10] == expected, seen
    assert browser.run("return document.getElementById('map-front').textContent.length > 10")
    unnamed = browser.run("""return [...document.querySelectorAll('button, select, input')].filter(control =>
        !(control.ariaLabel || control.textContent.trim() || control.closest('label')?.textContent.trim())).length""")
    assert unnamed == 0


@test
def dark_and_light(browser):
    back = "return getComputedStyle(document.body).backgroundColor"
    browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    settle(browser)
    light = browser.run(back)
    browser.whole_page(OUTPUT / "light.png")
    browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    settle(browser)
    dark = browser.run(back)
    browser.whole_page(OUTPUT / "dark.png")
    assert brightness(light) > 200 and brightness(dark) < 60, (light, dark)
    browser.run("document.getElementById('theme').click()")
    settle(browser)
    assert browser.run(back) == light
    assert ink(browser)[0] > 1000


def brightness(colour):
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


@test
def printed_it_is_light_whole_and_without_controls(browser):
    browser.run("document.getElementById('theme').click()")  # dark
    settle(browser)
    printed = base64.b64decode(browser.devtools("Page.printToPDF", printBackground=True)["data"])
    (OUTPUT / "printed.pdf").write_bytes(printed)
    assert printed.startswith(b"%PDF") and len(printed) > 20_000
    # What the browser does before it prints.
    width, theme, colours = browser.run("""dispatchEvent(new Event('beforeprint'));
        const canvas = document.getElementById('map-print');
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        const found = [0, 0];
        for (let i = 0; i < data.length; i += 4) {
            if (data[i] > data[i + 2] + 60) found[0]++;
            if (data[i + 2] > data[i] + 60) found[1]++;
        }
        const widest = Math.max(...[...document.querySelectorAll('main canvas, main svg, #flame')].map(part => part.getBoundingClientRect().right));
        const result = [widest - document.querySelector('main').getBoundingClientRect().left, document.documentElement.dataset.theme, found];
        dispatchEvent(new Event('afterprint'));
        return result;""")
    assert width <= 700, f"wider than a sheet of paper: {width}"
    assert theme == "light" and min(colours) > 300, (theme, colours)
    browser.devtools("Emulation.setEmulatedMedia", media="print", features=[])
    hidden = browser.run("return [...document.querySelectorAll('.controls, .help')].every(part => getComputedStyle(part).display === 'none')")
    assert hidden
    browser.devtools("Emulation.setEmulatedMedia", media="", features=[])
    assert browser.run("return document.documentElement.dataset.theme") == "dark", "the choice is kept after printing"


@test
def narrow_windows_lose_nothing(browser):
    browser.devtools("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=2, mobile=True)
    settle(browser)
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth + 1"), "it scrolls sideways"
    assert ink(browser)[0] > 500
    browser.whole_page(OUTPUT / "narrow.png")
    browser.devtools("Emulation.clearDeviceMetricsOverride")
    settle(browser)


@test
def one_event_is_a_dot(browser):
    opened(browser, "one.html")
    assert state(browser)["inside"] == 1
    assert sum(ink(browser)) >= 4
    browser.run("document.getElementById('map-front').focus()")
    browser.keys("n")
    assert "address 0x" in browser.run("return document.getElementById('tip').textContent")


@test
def no_events_say_so(browser):
    opened(browser, "none.html")
    assert "Nothing was swapped." in browser.run("return document.querySelector('h1').textContent")
    assert browser.run("return getComputedStyle(document.getElementById('map-section')).display") == "none"


@test
def files_are_told_by_call_path_and_by_place(browser):
    opened(browser, "io.html")
    browser.wait("document.querySelectorAll('#io-flame button').length > 0")
    labels = "return [...document.querySelectorAll('#io-flame button')].map(box => box.ariaLabel)"
    by_bytes = browser.run(labels)
    assert by_bytes[0] == "all calls on files: 544 MiB, 100 %", by_bytes
    assert by_bytes[2].startswith("scan (table.c:10): 512 MiB"), by_bytes
    browser.run("document.querySelector('input[name=io-flame-weight][value=latency_ns]').click()")
    assert browser.run(labels)[0] == "all calls on files: 570 ms, 100 %", browser.run(labels)
    browser.run("document.querySelector('#io-flame button').focus()")
    browser.keys(DOWN, DOWN, ENTER)
    assert browser.run("return document.activeElement.ariaLabel").startswith("scan (table.c:10)")
    browser.keys(ESCAPE)
    # Sorted by the 99th percentile.
    latency = "return [...document.querySelectorAll('#io-contexts tbody tr')].map(row => Number(row.cells[5].dataset.value))"
    browser.run("document.querySelectorAll('#io-contexts thead button')[5].click()")
    latencies = browser.run(latency)
    assert len(latencies) == 3 and latencies == sorted(latencies, reverse=True), latencies
    # Rows are looked up in the first half of the table only; all of it is scanned.
    read, written = browser.run("return ['read', 'written'].map(kind => document.querySelectorAll(`#io-files svg.heat rect.${kind}`).length)")
    assert read == 64 and written > 0, (read, written)
    strengths = browser.run("""return [...document.querySelectorAll('#io-files tbody tr:first-child rect.read')].map(block =>
        [getComputedStyle(block).fill, Number(block.getAttribute('fill-opacity'))]);""")
    assert strengths[0][0] == browser.run("return getComputedStyle(document.querySelector('.help .read')).color"), strengths[0]
    assert strengths[0][1] >= strengths[-1][1] > 0.5, strengths
    first = browser.run("return document.querySelector('#io-files tbody tr').textContent")
    assert "/data/table" in first and "They want different things." in first, first
    browser.whole_page(OUTPUT / "io.png")


def main():
    OUTPUT.mkdir(parents=True, exist_ok=True)
    failed = 0
    with Browser() as browser:
        for run in TESTS:
            trouble = None
            try:
                run(browser)
            except AssertionError as error:
                trouble = str(error) or "assertion failed"
                browser.screenshot(OUTPUT / f"{run.__name__}.png")
            print(f"{'ok' if trouble is None else 'FAILED'}  {run.__name__}" + (f": {trouble}" if trouble else ""))
            failed += trouble is not None
        for what, found in (("asked the network", browser.requests()), ("complained", browser.complaints())):
            print(f"{'FAILED' if found else 'ok'}  never {what} {found or ''}")
            failed += bool(found)
    sys.exit(min(failed, 1))


main()
