// Puts the parts together: controls, light and dark, and when what is drawn.
const root = document.documentElement;
const prefersDark = matchMedia('(prefers-color-scheme: dark)');
let chosenTheme = null;

function applyTheme(theme) {
    root.dataset.theme = theme;
    const button = element('theme');
    button.textContent = theme === 'dark' ? 'Light' : 'Dark';
    button.setAttribute('aria-pressed', theme === 'dark');
    makePalette();
}

function drawAll() {
    if (model.bands.length > 0) {
        resize();
        drawMap();
        waits.draw();
    }
    fileIo?.draw();
    drawCurves();
}

const ownTheme = () => chosenTheme ?? (prefersDark.matches ? 'dark' : 'light');
const showTheme = theme => { applyTheme(theme); drawAll(); };

/** Options of a list, by their number. */
function fillList(id, names) {
    names.forEach((name, number) => element(id).append(new Option(name, number)));
}

const numberOrNull = text => text === '' ? null : Number(text);

function prepareControls() {
    fillList('filter-object', model.bands.map(band => band.label));
    fillList('filter-process', model.processes.map(({ pid, command }) => pid === null ? '(others)' : `${pid} ${command ?? ''}`));
    element('process-label').hidden = model.processes.length < 2;
    element('filter-object').addEventListener('change', event => showBand(numberOrNull(event.target.value)));
    element('filter-process').addEventListener('change', event => setFilter({ process: numberOrNull(event.target.value) }));
    for (const kind of [SWAP_IN, CACHE_HIT, EVICTION]) {
        element(`kind-${kind}`).addEventListener('change', event => setFilter({ kinds: filter.kinds.with(kind, event.target.checked) }));
    }
    element('path-clear').addEventListener('click', () => { waits.showAll(); setFilter({ paths: null, pathName: '' }); });
    element('zoom-in').addEventListener('click', () => zoom(0.7, 1));
    element('zoom-out').addEventListener('click', () => zoom(1 / 0.7, 1));
    element('reset').addEventListener('click', KEYS.Escape);
    element('filters').addEventListener('submit', event => event.preventDefault());
    const toTicks = id => Number(element(id).value) * NS / model.tick_ns;
    for (const id of ['from', 'to']) {
        element(id).addEventListener('change', () => {
            const [x0, x1] = [toTicks('from'), toTicks('to')];
            if (x1 > x0) setView({ x0, x1 }); else showControls();
        });
    }
    element('theme').addEventListener('click', () => { chosenTheme = root.dataset.theme === 'dark' ? 'light' : 'dark'; showTheme(chosenTheme); });
}

/** The controls say what is shown, whoever chose it. */
function showControls() {
    element('filter-object').value = filter.band ?? '';
    element('filter-process').value = filter.process ?? '';
    filter.kinds.forEach((shown, kind) => { element(`kind-${kind}`).checked = shown; });
    element('path-chip').hidden = filter.paths === null;
    element('path-name').textContent = `only ${filter.pathName}`;
    const step = (view.x1 - view.x0) * model.tick_ns / NS / 1000;
    element('from').value = seconds(view.x0 * model.tick_ns / NS, step);
    element('to').value = seconds(view.x1 * model.tick_ns / NS, step);
}

function prepareChanges() {
    on('view', () => { redraw(true); moveCurvesSoon(); showControls(); });
    on('settled', () => { moveCurves(); drawRates(); });
    on('filter', () => {
        showControls();
        if (!points) return;
        if (current !== null && !passes()(current)) showTip(box, null);
        select();
        redraw();
        drawRates();
    });
    prefersDark.addEventListener('change', () => { if (chosenTheme === null) showTheme(ownTheme()); });
    addEventListener('beforeprint', () => {
        root.classList.add('printing');
        showTheme('light');
        drawForPrint();
    });
    addEventListener('afterprint', () => {
        root.classList.remove('printing');
        showTheme(ownTheme());
    });
    let width = innerWidth;
    new ResizeObserver(() => {
        if (innerWidth === width) return;
        width = innerWidth;
        requestAnimationFrame(drawAll);
    }).observe(document.body);
}

/** When the whole file is there. */
async function showPoints() {
    await readSegments();
    points = await readPoints();
    select();
    drawMap();
    performance.mark('whole-picture');
    drawRates();
}

function failed(error) {
    element('map').dataset.state = 'failed';
    element('map-status').textContent = `The events cannot be shown: ${error.message}. `
        + 'This needs a browser of 2023 or later (Chrome or Edge 110, Firefox 115, Safari 16.4).';
}

async function start() {
    applyTheme(ownTheme());
    prepareTables();
    if (model.has_paths) waits.show(model.paths, model.frames, 'all swap-ins');
    fileIo?.show(model.io.paths, model.io.frames, 'all calls on files');
    if (model.bands.length === 0) {
        element('map').dataset.state = 'complete';
        drawAll();
        return;
    }
    prepareControls();
    prepareChanges();
    showControls();
    document.addEventListener('pagewise-points', () => showPoints().catch(failed));
    overviewCells = await unpack(model.overview.cells);
    drawAll();
    performance.mark('first-picture');
}

start().catch(failed);
