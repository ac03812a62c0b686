// Tables: a click on a head sorts, one on a row shows only that in the pictures.
function sortBy(table, number, head) {
    const descending = head.getAttribute('aria-sort') !== 'descending';
    for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
    const key = row => {
        const cell = row.cells[number];
        return cell.dataset.value !== undefined ? Number(cell.dataset.value) : cell.textContent;
    };
    const order = (a, b) => {
        const [x, y] = [key(a), key(b)];
        const unknown = value => typeof value === 'string';
        if (unknown(x) !== unknown(y)) return unknown(x) ? 1 : -1; // what is not known comes last
        const less = unknown(x) ? y.localeCompare(x) : x - y;
        return descending ? -less : less;
    };
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort(order));
}

function prepareTable(table, choose) {
    [...table.tHead.rows[0].cells].forEach((head, number) => {
        const button = line('button', head.textContent);
        button.type = 'button';
        button.addEventListener('click', () => sortBy(table, number, head));
        head.replaceChildren(button);
    });
    if (!choose) return;
    const rows = () => [...table.tBodies[0].rows];
    const reach = row => {
        for (const other of rows()) other.tabIndex = -1;
        row.tabIndex = 0;
    };
    rows().forEach((row, number) => { row.tabIndex = number === 0 ? 0 : -1; });
    table.tBodies[0].addEventListener('click', event => {
        const row = event.target.closest('tr');
        reach(row);
        choose(row);
    });
    table.tBodies[0].addEventListener('keydown', event => {
        const row = event.target.closest('tr');
        const to = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
        if (event.key === 'Enter' || event.key === ' ') choose(row);
        else if (to) { reach(to); to.focus(); } else return;
        event.preventDefault();
    });
}

const bandOf = row => {
    const own = model.bands.findIndex(band => band.object === Number(row.dataset.object));
    const others = model.bands.findIndex(band => band.object === null);
    return own >= 0 ? own : others >= 0 ? others : null;
};

/** Call paths that read as the row does, by number in the model. */
const pathsOf = row => row.dataset.paths.split(' ').filter(Boolean).map(Number);

function prepareTables() {
    const [objects, paths, lines] = ['objects', 'paths', 'lines'].map(element);
    if (objects) prepareTable(objects, row => {
        const again = row.getAttribute('aria-selected') === 'true';
        showBand(again ? null : bandOf(row));
        if (!again) row.setAttribute('aria-selected', 'true');
    });
    if (paths) prepareTable(paths, row => {
        if (row.getAttribute('aria-selected') === 'true') setFilter({ paths: null, pathName: '' });
        else if (pathsOf(row).length > 0) showPaths(pathsOf(row), row.cells[0].textContent);
    });
    for (const plain of [lines, element('io-contexts'), element('io-files')]) if (plain) prepareTable(plain);
    on('filter', () => {
        for (const row of objects?.tBodies[0].rows ?? []) mark(row, filter.band !== null && bandOf(row) === filter.band && model.bands[filter.band].object !== null);
        for (const row of paths?.tBodies[0].rows ?? []) mark(row, filter.pathName === row.cells[0].textContent && pathsOf(row).every(path => filter.paths?.has(path)));
    });
}

function mark(row, chosen) {
    if (chosen) row.setAttribute('aria-selected', 'true'); else row.removeAttribute('aria-selected');
}
