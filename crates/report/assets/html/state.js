// What is shown: one state for all pictures, and who wants to know when it changes.
const everything = { x0: 0, x1: TICKS, y0: 0, y1: Math.max(1, model.rows) };
const view = { ...everything };
const noFilter = { band: null, process: null, kinds: [true, true, true], paths: null, pathName: '' };
const filter = { ...noFilter };
const bus = new EventTarget();
const announce = what => bus.dispatchEvent(new Event(what));
const on = (what, action) => bus.addEventListener(what, action);

/** The closest that one can zoom: ticks, rows. */
const LEAST_TICKS = Math.min(TICKS, 20), LEAST_ROWS = Math.min(everything.y1, 8);

function clamped(low, high, least, end) {
    const length = Math.min(end, Math.max(least, high - low));
    const start = Math.min(end - length, Math.max(0, (low + high - length) / 2));
    return [start, start + length];
}

function setView(next) {
    const wanted = { ...view, ...next };
    [view.x0, view.x1] = clamped(wanted.x0, wanted.x1, LEAST_TICKS, everything.x1);
    [view.y0, view.y1] = clamped(wanted.y0, wanted.y1, LEAST_ROWS, everything.y1);
    announce('view');
}

const resetView = () => setView(everything);
const isWhole = () => view.x0 === 0 && view.x1 === everything.x1 && view.y0 === 0 && view.y1 === everything.y1;

/** Zooms by a factor (below 1: in) around a point given in shares of the view. */
function zoom(factorX, factorY, atX = 0.5, atY = 0.5) {
    const width = view.x1 - view.x0, height = view.y1 - view.y0;
    const x = view.x0 + atX * width, y = view.y0 + atY * height;
    setView({
        x0: x - atX * width * factorX, x1: x + (1 - atX) * width * factorX,
        y0: y - atY * height * factorY, y1: y + (1 - atY) * height * factorY,
    });
}

/** Moves by shares of the view. */
function pan(shareX, shareY) {
    const x = shareX * (view.x1 - view.x0), y = shareY * (view.y1 - view.y0);
    setView({ x0: view.x0 + x, x1: view.x1 + x, y0: view.y0 + y, y1: view.y1 + y });
}

function setFilter(next) {
    Object.assign(filter, next);
    announce('filter');
}

function resetFilter() {
    if (Object.keys(noFilter).some(key => String(filter[key]) !== String(noFilter[key]))) setFilter(noFilter);
}

/** Shows one object in full height, or all of them. */
function showBand(band) {
    setFilter({ band });
    const shown = band === null ? { start: 0, height: everything.y1 } : model.bands[band];
    setView({ y0: shown.start, y1: shown.start + shown.height });
}
